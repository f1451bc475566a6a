"""Addresses as users write them, and the one that clients are told to connect to. Opens no connection: it only
consults the routing table."""

from __future__ import annotations

import ipaddress
import re
import socket

from penstock.core.errors import InvalidConfig
from penstock.core.model import Address as Address
from penstock.node.connections.server_settings import ServerSettings

_ANY_ADDRESS_OUTSIDE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses reserved for documentation: a datagram socket 'connected' to one learns its local address and sends
nothing."""


def parse_address(text: str, default_port: int) -> Address:
    """`host`, `host:port`, `[::1]` or `[::1]:port`. Raises InvalidConfig."""
    if text.startswith("["):
        host, bracket, tail = text[1:].partition("]")
        port = tail.removeprefix(":")
        is_whole = bool(bracket) and (not tail or tail.startswith(":"))
    else:
        host, colon, port = text.partition(":")
        is_whole = bool(port) or not colon
        if ":" in port:
            raise InvalidConfig(f"put the IPv6 address in {text!r} into brackets: [::1]:{default_port}")
    if not host or not is_whole or not re.fullmatch(r"[\w.:%-]+", host, re.ASCII):
        raise InvalidConfig(f"{text!r} is not an address; expected host or host:port")
    if not port:
        return Address(host, default_port)
    if not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65_535:
        raise InvalidConfig(f"the port in {text!r} must be a number from 1 to 65535")
    return Address(host, int(port))


def parse_service(text: str) -> Address:
    """`host:port`, both required. Raises InvalidConfig."""
    address = parse_address(text, 0)
    if not address.port:
        raise InvalidConfig(f"{text!r} has no port; expected host:port, such as 127.0.0.1:9193")
    return address


def is_wildcard(host: str) -> bool:
    """Whether listening on this host means listening on every address of the machine."""
    address = _address(host)
    return address is not None and address.is_unspecified


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def advertised_address(settings: ServerSettings, port_bound: int) -> Address:
    """The address in metadata: the configured one, else the listening address, else this machine's own address."""
    port = settings.advertised_port or port_bound
    if settings.advertised_host:
        return Address(settings.advertised_host, port)
    if is_wildcard(settings.host):
        return Address(own_address(), port)
    return Address(settings.host, port)


def own_address() -> str:
    """The address by which other machines most likely reach this one; its host name if there is no route."""
    for family, outside in _ANY_ADDRESS_OUTSIDE.items():
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((outside, 9))
            except OSError:
                continue
            return str(probe.getsockname()[0])
    return socket.gethostname()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
