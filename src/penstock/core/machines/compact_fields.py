"""Field codecs of Kafka's flexible records: varint lengths with 0 for null, and tagged fields at the end. No I/O.

Reading validates every length and raises TornSegment, because the broker wrote these bytes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from penstock.core.errors import TornSegment
from penstock.core.machines.record_fields import FieldReader

T = TypeVar("T")

_VARINT_BYTES_MAX = 5
_UUID_BYTES = 16
_SINGLE = [bytes((value,)) for value in range(128)]


def varint(value: int) -> bytes:
    """An unsigned integer, seven bits per byte."""
    if value < 128:
        return _SINGLE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact_text(value: str | None) -> bytes:
    return b"\0" if value is None else compact_blob(value.encode())


def compact_blob(value: bytes) -> bytes:
    return varint(len(value) + 1) + value


def compact_list(elements: Sequence[bytes]) -> bytes:
    """A list of encoded elements."""
    return varint(len(elements) + 1) + b"".join(elements)


def tags(fields: Mapping[int, bytes] | None = None) -> bytes:
    """The tagged fields that are set, by tag number."""
    if not fields:
        return _SINGLE[0]
    out = [varint(len(fields))]
    for number, content in sorted(fields.items()):
        out += (varint(number), varint(len(content)), content)
    return b"".join(out)


class CompactReader(FieldReader):
    """Reads the fields of a flexible record in order."""

    __slots__ = ()

    def int8(self) -> int:
        return int.from_bytes(self._take(1), "big", signed=True)

    def uuid(self) -> bytes:
        return self._take(_UUID_BYTES)

    def varint(self) -> int:
        value = 0
        for place in range(_VARINT_BYTES_MAX):
            byte = self._take(1)[0]
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value
        raise TornSegment("coordinator record: varint exceeds 32 bits")

    def compact_blob_or_none(self) -> bytes | None:
        length = self.varint()
        return None if length == 0 else self._take(length - 1)

    def compact_blob(self) -> bytes:
        value = self.compact_blob_or_none()
        if value is None:
            raise TornSegment("coordinator record: unexpected null")
        return value

    def compact_text_or_none(self) -> str | None:
        value = self.compact_blob_or_none()
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            raise TornSegment("coordinator record: string is not UTF-8") from None

    def compact_text(self) -> str:
        value = self.compact_text_or_none()
        if value is None:
            raise TornSegment("coordinator record: null, expected a string")
        return value

    def compact_list(self, read: Callable[[], T]) -> list[T]:
        """Elements are read one by one, so a false length fails at the end of the bytes."""
        return [read() for _ in self._places()]

    def _places(self) -> Iterable[int]:
        length = self.varint()
        if length == 0:
            raise TornSegment("coordinator record: null, expected a list")
        return range(length - 1)

    def tags(self) -> dict[int, bytes]:
        """The tagged fields, including unknown ones."""
        return {self.varint(): self._take(self.varint()) for _ in range(self.varint())}
