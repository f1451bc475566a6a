"""Reads the fields of a binary frame or packet in order: numbers, bytes, texts. Validates every length; no I/O."""

from __future__ import annotations

from struct import Struct, error
from typing import Any

from penstock.core.errors import Malformed


class FrameFields:
    """A position in a frame. Every call raises Malformed if the frame ends too early."""

    __slots__ = ("_raw", "position")

    def __init__(self, raw: bytes, position: int = 0) -> None:
        self._raw = raw
        self.position = position

    @property
    def left_bytes(self) -> int:
        return len(self._raw) - self.position

    def values(self, form: Struct) -> tuple[Any, ...]:
        """Several values in a row."""
        try:
            found = form.unpack_from(self._raw, self.position)
        except error:
            raise Malformed(f"the frame ends inside a field at byte {self.position}") from None
        self.position += form.size
        return found

    def number(self, form: Struct) -> int:
        return int(self.values(form)[0])

    def content(self, length: int) -> bytes:
        start = self.position
        if length > self.left_bytes:
            raise Malformed(f"a length of {length} exceeds the {self.left_bytes} bytes left at byte {start}")
        self.position += length
        return self._raw[start : self.position]

    def text(self, length_form: Struct) -> str:
        """UTF-8 after its length."""
        length = self.number(length_form)
        start = self.position
        try:
            return self.content(length).decode()
        except UnicodeDecodeError:
            raise Malformed(f"the text at byte {start} is not UTF-8") from None

    def count(self, form: Struct, bytes_min: int) -> int:
        """The count of a list whose elements take at least so many bytes."""
        count = self.number(form)
        if count * bytes_min > self.left_bytes:
            raise Malformed(f"a list of {count} does not fit into the {self.left_bytes} bytes that are left")
        return count
