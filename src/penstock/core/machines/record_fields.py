"""The fields that Kafka's coordinator records are made of: fixed-width numbers, texts and bytes with a length. No I/O.

Reading never trusts a length; what does not fit raises TornSegment, because these bytes are our own.
"""

from __future__ import annotations

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
    """A text after its length in 16 bits; None is length -1."""
    if value is None:
        return _INT16.pack(-1)
    raw = value.encode()
    return _INT16.pack(len(raw)) + raw


def blob(value: bytes) -> bytes:
    """Bytes after their length in 32 bits."""
    return _INT32.pack(len(value)) + value


class FieldReader:
    """Takes fields from the front of a record's key or value."""

    __slots__ = ("_position", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._position = 0

    def _fixed(self, form: Struct) -> int:
        try:
            value: int = form.unpack_from(self._raw, self._position)[0]
        except error:
            raise TornSegment(f"a coordinator's record ends early, at byte {self._position}") from None
        self._position += form.size
        return value

    def int16(self) -> int:
        return self._fixed(_INT16)

    def int32(self) -> int:
        return self._fixed(_INT32)

    def int64(self) -> int:
        return self._fixed(_INT64)

    def _take(self, length: int) -> bytes:
        start = self._position
        if length < 0 or start + length > len(self._raw):
            raise TornSegment(
                f"a coordinator's record holds a length of {length} at byte {start} that does not fit"
            )
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
                f"a coordinator's record holds a text of {length} bytes at byte {start}: it does not fit"
            )
        try:
            return self._raw[start:end].decode()
        except UnicodeDecodeError:
            raise TornSegment(f"a coordinator's record holds no text before byte {self._position}") from None

    def text_or_none(self) -> str | None:
        if self.int16() == -1:
            return None
        self._position -= _INT16.size
        return self.text()

    def blob(self) -> bytes:
        return self._take(self.int32())

    def count(self) -> int:
        """The length of a list, each of whose elements takes at least a byte."""
        value = self.int32()
        if not 0 <= value <= len(self._raw) - self._position:
            raise TornSegment(f"a coordinator's record holds a list of {value} at byte {self._position}")
        return value

    def end(self) -> None:
        if self._position != len(self._raw):
            raise TornSegment(f"a coordinator's record goes on after byte {self._position}")
