"""What Kafka's option names become, and what is said about those that cannot be."""

from __future__ import annotations

import pytest

from penstock.client.access import Access, Credentials, Encryption, nearest, read_access
from penstock.client.errors import BadArgument
from penstock.core.model import Address

AT = {"bootstrap.servers": "one:9092,[::1]:9093"}


def test_addresses_and_patience_are_read() -> None:
    access = read_access({**AT, "request.timeout.ms": "5", "client.id": "job"})
    assert access.addresses == (Address("one", 9092), Address("::1", 9093))
    assert access.bootstrap == "one:9092,[::1]:9093"
    assert (access.request_ms_max, access.client_id) == (5, "job")
    assert access.credentials is None
    assert access.encryption is None


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "a:1,,b:2"])
def test_what_is_no_address_is_quoted(text: str) -> None:
    with pytest.raises(BadArgument, match="HOST:PORT"):
        read_access({"bootstrap.servers": text})


def test_a_number_that_is_none_is_quoted() -> None:
    with pytest.raises(BadArgument, match=r"retry\.backoff\.ms 'soon'"):
        read_access({**AT, "retry.backoff.ms": "soon"})


def test_names_and_passwords_come_from_either_clients_words() -> None:
    jaas = 'org.apache.kafka…ScramLoginModule required username="ann" password="s\\"x";'
    java = read_access(
        {
            **AT,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": jaas,
        }
    )
    assert java.credentials == Credentials("SCRAM-SHA-256", "ann", 's\\"x')
    plain = read_access(
        {**AT, "security.protocol": "sasl_ssl", "sasl.username": "ann", "sasl.password": "secret"}
    )
    assert plain.credentials == Credentials("PLAIN", "ann", "secret")
    assert plain.encryption == Encryption()
    assert "secret" not in repr(plain)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"security.protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, r"set sasl\.username and sasl\.password"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "SCRAM-SHA-512"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "type PEM"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"}, "https"),
    ],
)
def test_security_that_cannot_be_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadArgument, match=words):
        read_access({**AT, **options})


def test_a_missing_file_is_named() -> None:
    with pytest.raises(BadArgument, match=r"no-such\.pem"):
        Encryption(ca_path="no-such.pem").context()


def test_the_nearest_name_ignores_case() -> None:
    assert (
        nearest("startingoffset", ["startingOffsets", "endingOffsets"]) == " Did you mean 'startingOffsets'?"
    )
    assert nearest("zzz", ["startingOffsets"]) == ""


def test_an_access_is_complete_by_default() -> None:
    assert Access((Address("a", 1),)).call_ms_max > Access((Address("a", 1),)).request_ms_max
