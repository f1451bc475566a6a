"""Detects the protocol at an address: Kafka, another door of Penstock, or something else. Changes nothing there."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection, HTTPException
from struct import Struct

from penstock.client.tls import speaks_tls
from penstock.core.model import Address

TLS_PORT = "a port with TLS"

ANSWER_S_MAX = 1.0
"""A line-based door does not answer before a line break: after this, one is sent."""

_CORRELATION = 0x50656E73
_REQUEST = Struct(">ihhih").pack(10, 18, 0, _CORRELATION, -1)
"""ApiVersions, version 0, without a client id: every Kafka broker answers it before anything else."""
_START_BYTES = 256
_REPLY_BYTES_MAX = 1 << 24
_KAFKA = "the Kafka door"


def other_protocol(host: str, port: int, connect_s_max: float) -> str | None:
    """The name of the protocol if it is certainly not Kafka, else None. Raises OSError if the connection fails."""
    found = protocol_at(host, port, connect_s_max)
    return None if found == _KAFKA else found


def protocol_at(host: str, port: int, connect_s_max: float = ANSWER_S_MAX) -> str | None:
    """The name of the protocol; None if it is unknown. Raises OSError if the connection fails."""
    is_closed = False
    with socket.create_connection((host, port), timeout=connect_s_max) as line:
        try:
            line.settimeout(ANSWER_S_MAX)
            line.sendall(_REQUEST)
            start = _received(line)
            if start is None:
                line.sendall(b"\r\n")
                start = _received(line)
            is_closed = start == b""
        except OSError:
            is_closed = True
            start = b""
    if is_closed and speaks_tls(Address(host, port)):  # some close the connection without an alert
        return TLS_PORT
    return _name_of(start)  # none, if the server closed the connection: the client reports why


def _received(line: socket.socket) -> bytes | None:
    """The start of the answer: empty if the connection was closed, None if there is none in time."""
    try:
        return line.recv(_START_BYTES)
    except TimeoutError:
        return None


def _name_of(start: bytes | None) -> str | None:
    if start is None:
        return None
    if start[4:8] == _CORRELATION.to_bytes(4, "big"):
        return _KAFKA
    if start.startswith(b"HTTP/"):
        return "an HTTP port, such as Penstock's HTTP door"
    if start.startswith(b"ERR "):
        return "Penstock's text door"
    if start[4:9] == b'{"ok"':
        return "Penstock's JSON door"
    if b"@status=" in start:
        return "Penstock's queue door"
    return TLS_PORT if start[:1] == b"\x15" else None


def kafka_behind(host: str, port: int) -> str | None:
    """The Kafka address that a Penstock broker names at its HTTP door; None if it is none, or does not answer."""
    connection = HTTPConnection(host, port, timeout=ANSWER_S_MAX)
    try:
        connection.request("GET", "/api/v1/cluster")
        content = json.loads(connection.getresponse().read(_REPLY_BYTES_MAX))
        found = [one["addresses"]["kafka"] for one in content["brokers"] if one["id"] == content["broker"]]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()
    return str(found[0]) if found else None


def wrong_port(address: str, other: str, kafka: str | None) -> str:
    """What to tell somebody who gave the address of another door for that of Kafka."""
    if kafka is not None:
        return f"{address} is Penstock's HTTP door; Kafka is on {kafka}. Use: --bootstrap {kafka}"
    return (
        f"{address} is {other}, not the Kafka door that this command needs. Set its address with --bootstrap HOST:PORT;"
        " `penstock start` prints it as `listening` (9092 by default)."
    )
