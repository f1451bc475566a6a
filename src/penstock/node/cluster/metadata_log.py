"""The metadata log as a port: append, read, follow, and named sessions, wherever the log is stored. Decides nothing.

Everything that a cluster agrees on is an event of one log. An index counts the events since the log began, so it
identifies a state: that after all events before it. An append states the index that its writer has seen and succeeds
only if the log still ends there; this compare-and-append guarantees that every decision applies to the state it was
made on. An append is atomic: all of its events take effect, or none.

`tests/contract/metadata_contract.py` tests what every implementation must guarantee.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.core.errors import TornSegment
from penstock.core.machines.catalog.events import Event

EVENT_UNITS = 2
"""Cost of encoding or decoding one event, see SLICE_UNITS."""

SESSION_TTL_S = 6
"""How long a session lasts without renewal, unless the store is told otherwise."""

CONTROLLER_SESSION = "controller"
"""The session of the broker that acts as controller."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The events of one append, and the index after them."""

    index: int
    events: tuple[Event, ...]
    is_snapshot: bool = False
    """The events are the whole state at `index`: keys that they do not name do not exist."""


EventRecord = tuple[bytes, bytes | None]
"""An event as it is stored: its key and its value; a null value deletes the key."""


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """The same with stored events, for whoever hands them on."""

    next_index: int
    records: Sequence[EventRecord]
    is_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another append came first: the log now ends at `index`. Nothing was changed."""

    index: int


class LiveSession(NamedTuple):
    """A session as all brokers see it."""

    name: str
    """`broker-3`, or a role that one broker holds at a time, such as `controller`."""
    holder: int
    """Id of the broker that opened it."""
    number: int
    """Unique and increasing in one store: tells a new session from an earlier one of the same name."""


class BrokerSession(Protocol):
    """Proof that its holder is alive. It grants no rights: epochs do that.

    A session that cannot be renewed ends here before the store declares it dead, so a broker that is cut off stops
    acting before another takes its place.
    """

    @property
    def live(self) -> LiveSession: ...

    @property
    def is_alive(self) -> bool: ...

    async def ended(self) -> None:
        """Returns once the session has ended, for any reason."""

    def end(self) -> None:
        """End the session."""


class MetadataLog(Protocol):
    """One broker's access to the log.

    Reads and followers raise MetadataUnavailable while the store cannot be reached, WrongCluster if it is another
    cluster's, and TornSegment if it lost history that this broker has seen.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other brokers append to this log as well."""

    async def append(self, index: int, events: Sequence[Event]) -> int | Conflict:
        """Append at `index` if the log ends there; returns the new end once the events are durable.

        TimedOut means that the outcome is unknown: the events may have taken effect, or may still do so until another
        append succeeds at this index. Read before retrying. MetadataUnavailable means that the store cannot be reached
        and nothing was changed. Raises TornSegment if the log ends before `index`.
        """

    async def read(self, from_index: int) -> Sequence[Entry]:
        """All entries after `from_index`, in order and without gaps.

        Starts with a snapshot if the individual entries from there on were compacted. Raises TornSegment if the log
        ends before `from_index`, or no append ended there.
        """

    def follow(self, from_index: int) -> AsyncIterator[Entry]:
        """Like `read`, then waits for new entries; does not end by itself."""

    async def session(self, name: str, holder: int) -> BrokerSession | Conflict:
        """Open a session. Conflict while an earlier session of that name is alive."""

    def follow_sessions(self) -> AsyncIterator[tuple[LiveSession, ...]]:
        """All live sessions, oldest first: those of now, then again after changes. Does not end by itself.

        A slow reader skips intermediate states: each result is the state at the time it was taken.
        """

    async def end_session(self, live: LiveSession) -> None:
        """End a session whose holder is known to be gone, without waiting for its time to run out.

        Nothing happens if it has ended already.
        """


class SharedMetadataLog(MetadataLog, Protocol):
    """A log that several brokers share, opened for one of them."""

    cluster_id: str

    @property
    def seen_index(self) -> int:
        """The highest end of the log that this broker has heard of."""

    async def compact(self) -> None:
        """Replace old entries by a snapshot, where that is the duty of brokers."""

    async def close(self) -> None:
        """End the sessions of this broker and disconnect."""


OpenSharedLog = Callable[[str, int], Awaitable[SharedMetadataLog]]
"""Opens the log for a broker that has stored this cluster id (empty: none yet) and has seen this index."""


def broker_session_name(broker_id: int) -> str:
    """The name of the session that a broker holds while it runs."""
    return f"broker-{broker_id}"


def lost_history(known_index: int, end_index: int) -> TornSegment:
    """The error for a log that ends before an index already seen: it was restored from an older copy, or replaced."""
    return TornSegment(
        f"the metadata log ends at {end_index}, but index {known_index} was seen before: it was replaced by an older"
        " copy. Restore the newest copy; continuing from an older state would undo acknowledged changes"
    )


def replaced_log(index: int) -> TornSegment:
    """The error for a log in which an index already seen is no longer the end of an append, or of other ones."""
    return TornSegment(
        f"no append to the metadata log ended at index {index} with the history seen before: the log was replaced"
    )
