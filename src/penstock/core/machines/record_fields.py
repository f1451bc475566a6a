"""Field codecs of Kafka's coordinator records: fixed-width integers, length-prefixed strings and bytes. No I/O.

Reading validates every length and raises TornSegment, because the broker wrote these bytes itself.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error

from penstock.core.errors import TornSegment

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


def int16(value: int) -> bytes:
    return _INT16.pack(value)


def int32(value: int) -> bytes:
    return _INT32.pack(value)


def int64(value: int) -> bytes:
    return _INT64.pack(value)


def text(value: str | None) -> bytes:
    """A string with a 16-bit length; None has length -1."""
    if value is None:
        return _INT16.pack(-1)
    raw = value.encode()
    return _INT16.pack(len(raw)) + raw


def blob(value: bytes) -> bytes:
    """Bytes with a 32-bit length."""
    return _INT32.pack(len(value)) + value


def _integer(form: Struct) -> Callable[[FieldReader], int]:
    """The method that reads one integer of this width: a single call, because a replay reads several per record."""
    unpack_from, size = form.unpack_from, form.size

    def read(self: FieldReader) -> int:
        try:
            value: int = unpack_from(self._raw, self._position)[0]
        except error:
            raise self._truncated() from None
        self._position += size
        return value

    return read


class FieldReader:
    """Reads the fields of a record's key or value in order, from a position on."""

    __slots__ = ("_position", "_raw")

    def __init__(self, raw: bytes, position: int = 0) -> None:
        self._raw = raw
        self._position = position

    int16 = _integer(_INT16)
    int32 = _integer(_INT32)
    int64 = _integer(_INT64)

    def integers(self, form: Struct) -> tuple[int, ...]:
        """Several integers in a row."""
        try:
            values = form.unpack_from(self._raw, self._position)
        except error:
            raise self._truncated() from None
        self._position += form.size
        return values

    def _truncated(self) -> TornSegment:
        return TornSegment(f"coordinator record is truncated at byte {self._position}")

    def _take(self, length: int) -> bytes:
        start = self._position
        if length < 0 or start + length > len(self._raw):
            raise TornSegment(f"coordinator record: length {length} at byte {start} exceeds the record")
        self._position = start + length
        return self._raw[start : self._position]

    def skip(self, length: int) -> None:
        self._take(length)

    def text(self) -> str:
        start = self._position + 2
        length = int.from_bytes(self._raw[self._position : start], "big", signed=True)
        end = self._position = start + length
        if length < 0 or end > len(self._raw):
            raise TornSegment(
                f"coordinator record: string of {length} bytes at byte {start} exceeds the record"
            )
        try:
            return self._raw[start:end].decode()
        except UnicodeDecodeError:
            raise TornSegment(
                f"coordinator record: null before byte {self._position}, expected a string"
            ) from None

    def text_or_none(self) -> str | None:
        if self.int16() == -1:
            return None
        self._position -= _INT16.size
        return self.text()

    def blob(self) -> bytes:
        return self._take(self.int32())

    def count(self) -> int:
        """The length of a list whose elements take at least one byte each."""
        value = self.int32()
        if not 0 <= value <= len(self._raw) - self._position:
            raise TornSegment(f"coordinator record: invalid list length {value} at byte {self._position}")
        return value

    def end(self) -> None:
        if self._position != len(self._raw):
            raise TornSegment(f"coordinator record has trailing data after byte {self._position}")
