"""Detects clients of another protocol by their first bytes: HTTP and TLS on a port that supports neither. No I/O.

A web page can make a browser send HTTP to any port, so a door must stop reading once it detects that.
"""

from __future__ import annotations

import re

from penstock.core.errors import ForeignProtocol

HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of every HTTP/2 client, and so of every gRPC client."""
_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"PATC", b"DELE", b"OPTI", b"CONN", b"TRAC")
"""The first four bytes of a request line, which a length-prefixed door reads as a length."""
_HTTP_LENGTHS = frozenset(int.from_bytes(method, "big") for method in _METHODS)
_HTTP2_LENGTH = int.from_bytes(HTTP2_PREFACE[:4], "big")
_HTTP2_LINE = HTTP2_PREFACE.splitlines()[0]
_HTTP_LINE = re.compile(rb"[A-Za-z-]{1,32} +\S.* HTTP/[0-9.]{1,8}\s*")

_TLS = b"\x16\x03"
"""A TLS handshake record of any version."""
_TLS_LENGTHS = range(0x16030000, 0x16040000)

FOREIGN_LENGTH_MIN = _TLS_LENGTHS.start
"""No smaller length matches the start of another protocol."""

_BODY = b"This port does not speak HTTP. Use the port of Penstock's HTTP door (setting http_port, 9080 by default).\n"
HTTP_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
    b"Content-Length: %d\r\n"
    b"Connection: close\r\n\r\n%b" % (len(_BODY), _BODY)
)


def foreign_length(length: int) -> ForeignProtocol | None:
    """The error for a length prefix that is the start of HTTP or TLS, if it is."""
    if length in _HTTP_LENGTHS:
        return _http()
    if length == _HTTP2_LENGTH:
        return _http2()
    return _tls() if length in _TLS_LENGTHS else None


def foreign_line(line: bytes) -> ForeignProtocol | None:
    """The error for a line, or its beginning, that is an HTTP request line or the start of TLS, if it is."""
    if line.startswith(_TLS):
        return _tls()
    if line.rstrip() == _HTTP2_LINE:
        return _http2()
    return _http() if _HTTP_LINE.fullmatch(line) else None


def _http() -> ForeignProtocol:
    return ForeignProtocol(
        "the client sent an HTTP request to a port that does not support HTTP;  "
        "point it to the HTTP door (setting http_port)",
        HTTP_ANSWER,
    )


def _http2() -> ForeignProtocol:
    return ForeignProtocol(
        "the client sent HTTP/2 to a port that does not support it; point gRPC clients to the producer or consumer"
        " service (a Kafka port can relay them: setting grpc_relay), others to the HTTP door (setting http_port)",
        HTTP_ANSWER,
    )


def _tls() -> ForeignProtocol:
    """Without a response: clients report a closed connection more clearly than an alert."""
    return ForeignProtocol(
        "the client started a TLS handshake, but this port is plaintext only;  "
        "turn TLS off in the client (Kafka: security.protocol=PLAINTEXT) or put a TLS proxy in front"
    )
