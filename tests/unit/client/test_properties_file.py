"""Properties files of other clients as options of a profile."""

from __future__ import annotations

import pytest

from penstock.client.errors import BadArgument
from penstock.client.properties_file import read_properties

JAVA = """\
# a Java client
bootstrap.servers = one:9092,two:9092
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="ann" \\
  password="s=:1";
ssl.truststore.type=PEM
ssl.truststore.location=/ca.pem
compression.type=zstd
"""
LIBRDKAFKA = """\
metadata.broker.list=one:9092
security.protocol=ssl
ssl.ca.location=/ca.pem
ssl.certificate.location=/me.pem
ssl.key.location=/me.key
ssl.endpoint.identification.algorithm=none
"""


def test_a_java_file() -> None:
    assert read_properties(JAVA) == (
        {
            "bootstrap": "one:9092,two:9092",
            "tls": True,
            "tls_ca": "/ca.pem",
            "sasl_mechanism": "SCRAM-SHA-512",
            "username": "ann",
            "password": "s=:1",
        },
        ["compression.type"],
    )


def test_a_librdkafka_file() -> None:
    assert read_properties(LIBRDKAFKA) == (
        {
            "bootstrap": "one:9092",
            "tls": True,
            "tls_ca": "/ca.pem",
            "tls_cert": "/me.pem",
            "tls_key": "/me.key",
            "tls_verify": False,
        },
        [],
    )


def test_another_file_is_refused() -> None:
    with pytest.raises(BadArgument, match="name=value"):
        read_properties("once upon a time")
    with pytest.raises(BadArgument, match="PEM"):
        read_properties("security.protocol=SSL\nssl.truststore.location=/x.jks")
