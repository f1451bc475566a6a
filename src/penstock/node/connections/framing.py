"""Finds frame boundaries in received bytes. Buffers nothing; validates every length.

A framing gets the unread bytes and returns the size of the frame that starts there.
"""

from __future__ import annotations

from struct import Struct
from typing import Protocol

from penstock.core.errors import ForeignProtocol, Malformed, TooLarge
from penstock.wire.foreign_protocol import FOREIGN_LENGTH_MIN, HTTP2_PREFACE, foreign_length

UNKNOWN = 0
"""Too few bytes have arrived to determine the frame size."""

HEAD_BYTES_MAX = 1 << 13
"""Every framing must determine the frame size, or reject the frame, within this many bytes."""

PIECE_BYTES_MAX = 1 << 14
"""Bytes passed at once to a protocol that parses its own requests: about a hundred small ones."""

_LENGTH = Struct(">i")


class Framing(Protocol):
    """One kind of framing. The first `prefix_bytes` of each frame are not passed on."""

    prefix_bytes: int

    def size(self, buffer: bytearray, start: int, end: int, bytes_max: int) -> int:
        """Size of the frame that begins at `start`, including its prefix, or UNKNOWN; the data ends at `end`.

        Raises TooLarge if the frame without its prefix exceeds `bytes_max`, and Malformed if it is invalid.
        """


class LengthPrefixed:
    """A four-byte big-endian length, then that many bytes."""

    prefix_bytes = 4

    def __init__(self, frame_bytes_max: int | None = None) -> None:
        """`frame_bytes_max`: a limit of the protocol itself, whatever the settings allow."""
        self._frame_bytes_max = frame_bytes_max

    def size(self, buffer: bytearray, start: int, end: int, bytes_max: int) -> int:
        if end - start < 4:
            return UNKNOWN
        length: int = _LENGTH.unpack_from(buffer, start)[0]
        if length < 0:
            raise Malformed(f"the frame length {length} is negative")
        if length >= FOREIGN_LENGTH_MIN and (foreign := foreign_length(length)) is not None:
            return self._foreign_size(buffer, start, end, foreign)
        if self._frame_bytes_max is not None:
            bytes_max = min(bytes_max, self._frame_bytes_max)
        if length > bytes_max:
            raise TooLarge(f"a frame of {length} bytes exceeds the limit of {bytes_max}")
        return length + 4

    def _foreign_size(self, buffer: bytearray, start: int, end: int, foreign: ForeignProtocol) -> int:
        """The length is the start of another protocol."""
        raise foreign


class LengthPrefixedOrHttp2(LengthPrefixed):
    """The preface of HTTP/2 counts as a frame too; it is passed on without its first four bytes."""

    def _foreign_size(self, buffer: bytearray, start: int, end: int, foreign: ForeignProtocol) -> int:
        arrived = buffer[start : min(end, start + len(HTTP2_PREFACE))]
        if not HTTP2_PREFACE.startswith(arrived):
            raise foreign
        return len(HTTP2_PREFACE) if len(arrived) == len(HTTP2_PREFACE) else UNKNOWN


class Unframed:
    """Passes on whatever has arrived, for protocols that parse their own requests."""

    prefix_bytes = 0

    def size(self, buffer: bytearray, start: int, end: int, bytes_max: int) -> int:
        return min(end - start, PIECE_BYTES_MAX)
