"""The metadata log as a port: four verbs, whatever the log is kept in. Decides nothing and knows no ground.

Everything that a cluster agrees on is an event of one log. An index counts the events since the log began, so it names
a state: that of all events before it. An append states the index that its writer has seen, and is taken only there;
that one comparison makes every decision one about the state in which it takes effect. All events of an append take
effect, or none.

What every ground promises is in `tests/contract/metadata_contract.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.core.errors import TornSegment
from penstock.core.machines.catalog.events import Event


@dataclass(frozen=True, slots=True)
class Entry:
    """The events of one append, and the index behind them."""

    index: int
    events: tuple[Event, ...]
    is_snapshot: bool = False
    """The events stand for all that led to `index`: what they do not name is not there."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Somebody else was first: the log ends at `index` by now. Nothing was changed."""

    index: int


class BrokerSession(Protocol):
    """The sign that a broker is alive. It tells nothing about what the broker may do: epochs do that."""

    @property
    def broker_id(self) -> int: ...

    @property
    def is_alive(self) -> bool: ...

    async def ended(self) -> None:
        """Returns once the session is over, for whatever reason."""

    def end(self) -> None:
        """The broker goes."""


class MetadataLog(Protocol):
    """One broker's access to the log."""

    async def append(self, index: int, events: Sequence[Event]) -> int | Conflict:
        """Append behind `index`, if the log ends there; returns the new end once the events are durable.

        TimedOut means that nobody knows: the events may have taken effect, or may still do so until something else is
        appended at this index. Read before trying again. Raises TornSegment if the log ends before `index`.
        """

    async def read(self, from_index: int) -> Sequence[Entry]:
        """All that was appended behind `from_index`, in order and without a gap.

        A snapshot comes first if single entries from there on are not kept any more. Raises TornSegment if the log
        ends before `from_index`, or knows no append that ended there.
        """

    def follow(self, from_index: int) -> AsyncIterator[Entry]:
        """The same, and then what is appended from now on; never ends by itself."""

    async def session(self, broker_id: int) -> BrokerSession | Conflict:
        """Say that a broker is alive, until the session ends. Conflict while an earlier session of its id lives."""


def lost_history(known_index: int, end_index: int) -> TornSegment:
    """The log ends before an index that was seen: it was restored from an older state, or is another log."""
    return TornSegment(
        f"the metadata log ends at {end_index}, but {known_index} was seen before: it was replaced by an older one."
        " Restore the newest copy; acting on an older state would undo what clients were told is done"
    )
