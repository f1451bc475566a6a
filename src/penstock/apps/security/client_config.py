"""Client configuration for SASL and TLS, as text to paste. The texts name files instead of secrets, except one that is
written to a private file."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import NamedTuple

from penstock.core.authentication.scram import ScramMechanism
from penstock.core.authentication.secret import HIDDEN, Secret

KAFKA_PORT = 9092
HTTP_PORT = 9080
_MECHANISM = ScramMechanism.SHA_512.value


class ClientFiles(NamedTuple):
    """Where a client finds what it needs."""

    host: str
    user: str
    authorities: Path
    password: Path
    key_store: Path
    """Key and certificate in one file, as Java reads it."""
    certificate: Path
    key: Path
    properties: Path
    curl: Path


def client_configs(files: ClientFiles) -> dict[str, str]:
    """Configuration by client, without any secret."""
    return {
        "confluent-kafka": _confluent(files),
        "java": f"# the same file with the password: {files.properties}\n"
        + java_properties(files, HIDDEN).rstrip("\n"),
        "java-mtls": _java_mtls(files),
        "kafkajs": _kafkajs(files),
        "spark": _spark(files),
        "curl": f"curl --config {shlex.quote(str(files.curl))} https://{_host(files)}:{HTTP_PORT}/api/v1/topics",
    }


def java_properties(files: ClientFiles, password: Secret | str) -> str:
    """Properties of a Java client. The password is written as it is, so the file must be private."""
    text = password.reveal_text() if isinstance(password, Secret) else password
    return (
        f"bootstrap.servers={_bootstrap(files)}\n"
        "security.protocol=SASL_SSL\n"
        f"sasl.mechanism={_MECHANISM}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="{files.user}" password="{text}";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={files.authorities}\n"
    )


def curl_options(files: ClientFiles, password: Secret) -> str:
    """A file for `curl --config`: a password on the command line would be visible to every user of the machine."""
    login = f"{files.user}:{password.reveal_text()}"
    return f"cacert = {_quoted(files.authorities)}\nuser = {_quoted(login)}\n"


def _confluent(files: ClientFiles) -> str:
    return f"""\
from pathlib import Path
from confluent_kafka import Producer

producer = Producer({{
    "bootstrap.servers": {_quoted(_bootstrap(files))},
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "{_MECHANISM}",
    "sasl.username": "{files.user}",
    "sasl.password": Path({_quoted(files.password)}).read_text().strip(),
    "ssl.ca.location": {_quoted(files.authorities)},
}})"""


def _java_mtls(files: ClientFiles) -> str:
    return (
        f"bootstrap.servers={_bootstrap(files)}\n"
        "security.protocol=SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={files.authorities}\n"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.location={files.key_store}"
    )


def _kafkajs(files: ClientFiles) -> str:
    return f"""\
const fs = require("fs");
const {{ Kafka }} = require("kafkajs");

const kafka = new Kafka({{
  brokers: [{_quoted(_bootstrap(files))}],
  ssl: {{ ca: [fs.readFileSync({_quoted(files.authorities)}, "utf-8")] }},
  sasl: {{
    mechanism: "{_MECHANISM.lower()}",
    username: "{files.user}",
    password: fs.readFileSync({_quoted(files.password)}, "utf-8").trim(),
  }},
}});"""


def _spark(files: ClientFiles) -> str:
    return f"""\
from pathlib import Path

password = Path({_quoted(files.password)}).read_text().strip()
options = {{
    "kafka.bootstrap.servers": {_quoted(_bootstrap(files))},
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "{_MECHANISM}",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
    f' username="{files.user}" password="{{password}}";',
    "kafka.ssl.truststore.type": "PEM",
    "kafka.ssl.truststore.location": {_quoted(files.authorities)},
}}
records = spark.readStream.format("kafka").options(**options, subscribe="orders").load()"""


def _host(files: ClientFiles) -> str:
    return f"[{files.host}]" if ":" in files.host else files.host


def _bootstrap(files: ClientFiles) -> str:
    return f"{_host(files)}:{KAFKA_PORT}"


def _quoted(value: object) -> str:
    """A string in Python, JavaScript and the file of curl."""
    return json.dumps(str(value), ensure_ascii=False)
