"""How the bytes of a connection become frames. Never holds a byte; trusts no length.

A framing is told where the unread bytes lie and says how long the frame is that begins there.
"""

from __future__ import annotations

from struct import Struct
from typing import Protocol

from penstock.core.errors import Malformed, TooLarge
from penstock.wire.foreign_protocol import FOREIGN_LENGTH_MIN, foreign_length

UNKNOWN = 0
"""Too few bytes have come to tell how long the frame is."""

HEAD_BYTES_MAX = 1 << 13
"""Within so many bytes every framing has to know how long its frame is, or refuse it."""

PIECE_BYTES_MAX = 1 << 14
"""How much is handed at once to a parser that cuts for itself: some hundred small requests fit in."""

_LENGTH = Struct(">i")


class Framing(Protocol):
    """One way to cut. `prefix_bytes` at the start of each frame are not handed on."""

    prefix_bytes: int

    def size(self, buffer: bytearray, start: int, end: int, bytes_max: int) -> int:
        """Bytes of the frame that begins at `start`, its prefix included, or UNKNOWN; nothing lies behind `end`.

        Raises TooLarge when the frame without its prefix is over `bytes_max`, and Malformed when it cannot be one.
        """


class LengthPrefixed:
    """Four bytes of length, big end first, and then as many bytes."""

    prefix_bytes = 4

    def __init__(self, frame_bytes_max: int | None = None) -> None:
        """`frame_bytes_max`: a limit of the protocol itself, whatever the settings allow."""
        self._frame_bytes_max = frame_bytes_max

    def size(self, buffer: bytearray, start: int, end: int, bytes_max: int) -> int:
        if end - start < 4:
            return UNKNOWN
        length: int = _LENGTH.unpack_from(buffer, start)[0]
        if length < 0:
            raise Malformed(f"a frame of {length} bytes")
        if length >= FOREIGN_LENGTH_MIN and (foreign := foreign_length(length)) is not None:
            raise foreign
        if self._frame_bytes_max is not None:
            bytes_max = min(bytes_max, self._frame_bytes_max)
        if length > bytes_max:
            raise TooLarge(f"a frame of {length} bytes is over the limit of {bytes_max}")
        return length + 4


class Unframed:
    """Whatever has come, in pieces: for protocols that are cut by their own parser."""

    prefix_bytes = 0

    def size(self, buffer: bytearray, start: int, end: int, bytes_max: int) -> int:
        return min(end - start, PIECE_BYTES_MAX)
