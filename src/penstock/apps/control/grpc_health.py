"""Asks a gRPC server for its health with one call of `grpc.health.v1.Health/Check`, without a gRPC library.

The coordinator asks every second and needs one byte of the answer. The request is constant; of the frames that come
back only the message is read. Bytes only, no I/O.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from penstock.core.errors import Malformed

FRAME_HEADER_BYTES = 9
FRAME_BYTES_MAX = 1 << 16
FRAMES_MAX = 32
"""A health answer is a handful of frames."""
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _END_HEADERS, _PADDED = 0x1, 0x4, 0x8
_STREAM = 1
_SERVING = b"\x08\x01"
"""The message HealthCheckResponse with status SERVING."""
_MESSAGE_HEADER_BYTES = 5

_HEADER_FIELDS = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/grpc.health.v1.Health/Check"),
    (b":authority", b"localhost"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _fields() -> bytes:
    """Literal fields without indexing: no table is needed on either side."""
    return b"".join(
        b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value for name, value in _HEADER_FIELDS
    )


HEALTH_REQUEST = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + _frame(_SETTINGS, 0, 0, b"")
    + _frame(_HEADERS, _END_HEADERS, _STREAM, _fields())
    + _frame(_DATA, _END_STREAM, _STREAM, bytes(_MESSAGE_HEADER_BYTES))
)
"""The connection preface and the whole call: the health of the server, not of one service."""


async def read_health(read_exactly: Callable[[int], Awaitable[bytes]]) -> bool:
    """Whether the server answers that it is serving. Raises EOFError of the reader, and Malformed."""
    for _ in range(FRAMES_MAX):
        header = await read_exactly(FRAME_HEADER_BYTES)
        length, kind, flags = int.from_bytes(header[:3], "big"), header[3], header[4]
        stream = int.from_bytes(header[5:], "big") & 0x7FFFFFFF
        if length > FRAME_BYTES_MAX:
            raise Malformed(f"a health answer has a frame of {length} bytes")
        payload = await read_exactly(length)
        if kind == _GOAWAY or (kind == _RST_STREAM and stream == _STREAM):
            return False
        if kind == _DATA and stream == _STREAM and not flags & _PADDED and payload:
            return payload[_MESSAGE_HEADER_BYTES:] == _SERVING
        if kind == _HEADERS and stream == _STREAM and flags & _END_STREAM:
            return False  # an error without a message
    raise Malformed(f"no health answer within {FRAMES_MAX} frames")
