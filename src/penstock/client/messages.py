"""Values that programs exchange with clients: records to write, their offsets, messages read. No librdkafka objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict

HeaderValue = bytes | str | None
Headers = Mapping[str, HeaderValue] | Iterable[tuple[str, HeaderValue]]


class RecordFields(TypedDict, total=False):
    """Optional fields of a record."""

    key: Any
    headers: Headers
    partition: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Record:
    """One record to write. The producer or the broker fills in omitted fields."""

    topic: str
    value: Any
    key: Any = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Position of a written record. Its offset is unknown without acknowledgements (`acks="none"`)."""

    topic: str
    partition: int
    offset: int | None
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class Message:
    """One record read by a consumer. Header names may repeat."""

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None

    @property
    def timestamp(self) -> datetime | None:
        """The record's timestamp: create time or append time, per topic setting."""
        if self.timestamp_ms is None:
            return None
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    def header(self, name: str) -> bytes | None:
        """The last header of that name, or None."""
        return next((value for own, value in reversed(self.headers) if own == name), None)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """An offset in a partition: the next one to read or commit."""

    topic: str
    partition: int
    offset: int
