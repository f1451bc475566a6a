"""What goes through a client: records on their way in, their place in the log, messages on their way out.

Never holds an object of the library underneath.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict

HeaderValue = bytes | str | None
Headers = Mapping[str, HeaderValue] | Iterable[tuple[str, HeaderValue]]


class RecordFields(TypedDict, total=False):
    """What a record can have besides its topic and value."""

    key: Any
    headers: Headers
    partition: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Record:
    """One record to be written. What it does not say, the producer or the broker decides."""

    topic: str
    value: Any
    key: Any = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a record is in the log. Without an acknowledgement (`acks="none"`) nobody knows its offset."""

    topic: str
    partition: int
    offset: int | None
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class Message:
    """One record of the log, as a consumer hands it out. Header names may repeat."""

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None

    @property
    def timestamp(self) -> datetime | None:
        """When it was written, by the clock that the topic goes by."""
        if self.timestamp_ms is None:
            return None
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    def header(self, name: str) -> bytes | None:
        """The last header of that name, None where there is none."""
        return next((value for own, value in reversed(self.headers) if own == name), None)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """One position: the offset that is read or committed next."""

    topic: str
    partition: int
    offset: int
