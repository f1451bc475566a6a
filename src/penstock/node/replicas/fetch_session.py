"""A replica's side of a fetch session: what its leader knows of the partitions, and what must be named again.

The leader keeps what was named last, until it is named again or forgotten; `doors/kafka/replica_sessions` has its side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.model import PartitionId
from penstock.core.replication.fetches import ReplicaFetch

NO_SESSION, FIRST_EPOCH = 0, 0
"""Session id and epoch of a request that begins a session."""


class _Named(NamedTuple):
    wanted: ReplicaFetch
    number: int
    """The request that has named it."""


class FetchFlight(NamedTuple):
    """A request that is not answered yet."""

    session: FetchSession
    number: int
    session_id: int
    epoch: int
    named: Sequence[ReplicaFetch]
    forgotten: Sequence[PartitionId]


class FetchSession:
    """One session; after an error the next one begins with all partitions."""

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.id = NO_SESSION
        """Assigned by the leader with its first answer."""
        self._named: dict[PartitionId, _Named] = {}
        self._sent = 0

    def __contains__(self, partition: PartitionId) -> bool:
        return partition in self._named

    def __len__(self) -> int:
        return len(self._named)

    @property
    def is_open(self) -> bool:
        """Whether further requests may be sent: the first one must be answered before."""
        return not self._sent or self.id != NO_SESSION

    def knows(self, wanted: ReplicaFetch) -> bool:
        """Whether the leader knows this already."""
        known = self._named.get(wanted.partition)
        return known is not None and known.wanted == wanted

    def begin(self, named: Sequence[ReplicaFetch], forgotten: Sequence[PartitionId]) -> FetchFlight:
        """The next request."""
        flight = FetchFlight(self, self._sent, self.id, FIRST_EPOCH + self._sent, named, forgotten)
        self._sent += 1
        for one in named:
            self._named[one.partition] = _Named(one, flight.number)
        for partition in forgotten:
            self._named.pop(partition, None)
        return flight

    def answered(self, flight: FetchFlight, partition: PartitionId) -> ReplicaFetch | None:
        """What an answer about a partition refers to; None if it was named again or forgotten since that request."""
        known = self._named.get(partition)
        return None if known is None or known.number > flight.number else known.wanted

    def drop(self, partition: PartitionId) -> None:
        """The leader has answered with an error, and dropped it as well."""
        self._named.pop(partition, None)
