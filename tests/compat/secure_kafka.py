"""Apache Kafka with secured listeners, as a third-party server: SASL over TLS, mTLS, and SASL without TLS."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from certificates import Certificates, make_certificates
from compat.vocabulary import MissingRuntime
from penstock.apps.bench.compare.servers import kafka
from penstock.apps.bench.compare.servers.install import CannotInstall
from penstock.apps.bench.harness.process import ServerProcess, free_port

USER, PASSWORD = "ann", "ann-secret,=\"'"
PLAIN_PASSWORD = "ann-plain"
HEAP = "384m"
_LOGIN = "org.apache.kafka.common.security"
_OAUTH = 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="kafka"'
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=OPEN://127.0.0.1:{open},SASLTLS://127.0.0.1:{sasl_tls},MTLS://127.0.0.1:{mtls},SASLOPEN://127.0.0.1:{sasl_open},CONTROLLER://127.0.0.1:{control}
controller.listener.names=CONTROLLER
inter.broker.listener.name=OPEN
listener.security.protocol.map=OPEN:PLAINTEXT,SASLTLS:SASL_SSL,MTLS:SSL,SASLOPEN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
ssl.keystore.type=PEM
ssl.keystore.location={certificates.server}
ssl.truststore.type=PEM
ssl.truststore.location={certificates.ca}
listener.name.mtls.ssl.client.auth=required
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
log.dirs={home}/data
"""
_LOGINS = f"""\
listener.name.{{name}}.plain.sasl.jaas.config={_LOGIN}.plain.PlainLoginModule required user_{USER}="{PLAIN_PASSWORD}";
listener.name.{{name}}.scram-sha-256.sasl.jaas.config={_LOGIN}.scram.ScramLoginModule required;
listener.name.{{name}}.scram-sha-512.sasl.jaas.config={_LOGIN}.scram.ScramLoginModule required;
listener.name.{{name}}.oauthbearer.sasl.jaas.config={_LOGIN}.{_OAUTH};
"""


@dataclass(frozen=True)
class SecureKafka:
    """Addresses by kind of listener, and the files for its clients."""

    open: str
    sasl_tls: str
    mtls: str
    sasl_open: str
    certificates: Certificates


@contextmanager
def running_secure_kafka(home: Path) -> Iterator[SecureKafka]:
    """One Kafka with the user `ann`, who has a password of its own for PLAIN. Raises MissingRuntime."""
    certificates = make_certificates(home)
    names = ("open", "sasl_tls", "mtls", "sasl_open", "control")
    ports = {name: free_port() for name in names}
    settings = home / "server.properties"
    logins = "".join(_LOGINS.format(name=name) for name in ("sasltls", "saslopen"))
    settings.write_text(_SETTINGS.format(home=home, certificates=certificates, **ports) + logins)
    try:
        command = kafka.java_command(HEAP)
        shutil.copytree(kafka._formatted() / "data", home / "data")
    except CannotInstall as error:
        raise MissingRuntime(str(error)) from error
    cpus = sorted(os.sched_getaffinity(0))
    process = ServerProcess([*command, "kafka.Kafka", str(settings)], home, *cpus)
    try:
        process.await_ready(lambda: process.has_logged("Kafka Server started"), poll_s=0.05)
        addresses = {name: f"127.0.0.1:{ports[name]}" for name in names[:-1]}
        found = SecureKafka(**addresses, certificates=certificates)
        _add_user(found)
        yield found
    finally:
        process.kill()


def _add_user(server: SecureKafka) -> None:
    admin = AdminClient({"bootstrap.servers": server.open, "log_level": 0})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result(60)
