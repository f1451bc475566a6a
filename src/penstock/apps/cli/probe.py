"""Detects the protocol at an address: Kafka, another door of Penstock, or something else. Changes nothing there."""

from __future__ import annotations

import socket
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


def other_protocol(host: str, port: int, connect_s_max: float) -> str | None:
    """The name of the protocol if it is certainly not Kafka, else None. Raises OSError if the connection fails."""
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
    if start.startswith(b"HTTP/"):
        return "an HTTP port, such as Penstock's HTTP door"
    if start.startswith(b"ERR "):
        return "Penstock's text door"
    if start[4:9] == b'{"ok"':
        return "Penstock's JSON door"
    if b"@status=" in start:
        return "Penstock's queue door"
    return TLS_PORT if start[:1] == b"\x15" else None
