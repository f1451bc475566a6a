"""What clients are told to connect to."""

from __future__ import annotations

import ipaddress

import pytest

from penstock.core.errors import InvalidConfig
from penstock.node.connections.addresses import (
    Address,
    advertised_address,
    is_loopback,
    is_wildcard,
    own_address,
    parse_service,
)
from penstock.node.settings import Settings


def test_advertised_is_what_is_listened_on() -> None:
    assert advertised_address(Settings(port=0), 40123) == Address("127.0.0.1", 40123)


def test_advertised_as_told() -> None:
    settings = Settings(host="0.0.0.0", advertised_host="broker.example", advertised_port=443)
    assert advertised_address(settings, 9092) == Address("broker.example", 443)
    assert advertised_address(Settings(advertised_port=443), 9092) == Address("127.0.0.1", 443)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_nobody_is_told_to_connect_to_everywhere(host: str) -> None:
    told = advertised_address(Settings(host=host), 9092)
    assert told.host == own_address() and not is_wildcard(told.host)


def test_own_address_is_an_address_or_a_name() -> None:
    try:
        assert not ipaddress.ip_address(own_address()).is_unspecified
    except ValueError:
        assert own_address()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("a", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_written() -> None:
    assert str(Address("::1", 1)) == "[::1]:1"
    assert str(Address("a", 1)) == "a:1"


@pytest.mark.parametrize("text", ["9193", "host", "[::1]", "host:", "host:0", "host:x", ""])
def test_a_service_needs_host_and_port(text: str) -> None:
    with pytest.raises(InvalidConfig):
        parse_service(text)
    assert parse_service("[::1]:9193") == Address("::1", 9193)
