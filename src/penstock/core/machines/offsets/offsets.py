"""Committed offsets per group and partition, and pending offsets of open transactions. Does not authorize commits.

The group checks its members, the transaction its producer. An offset of an open transaction is *pended*: stored under
the producer's id and invisible until `decide_settle` commits or drops it. Each event is the full state of its key, so
that the log may be compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple, TypeVar

from penstock.core.errors import MetadataTooLarge, StaleProducer
from penstock.core.limits import OFFSET_METADATA_BYTES_MAX
from penstock.core.machine import event_type
from penstock.core.model import TopicPartition

K = TypeVar("K")
L = TypeVar("L")
V = TypeVar("V")

NO_OFFSET = -1
NO_EXPIRY = -1


class Committed(NamedTuple):
    """A committed offset. `expire_ms` is set only by old clients that send a retention time."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_EXPIRY


@event_type
class OffsetCommitted(NamedTuple):
    """A group's committed offset of one partition."""

    group_id: str
    partition: TopicPartition
    committed: Committed


@event_type
class OffsetRemoved(NamedTuple):
    """A group's offset of this partition was removed."""

    group_id: str
    partition: TopicPartition


@event_type
class OffsetPended(NamedTuple):
    """This offset takes effect if the producer's transaction commits."""

    group_id: str
    producer_id: int
    producer_epoch: int
    partition: TopicPartition
    committed: Committed


@event_type
class OffsetUnpended(NamedTuple):
    """The transaction has ended."""

    group_id: str
    producer_id: int
    partition: TopicPartition


Event = OffsetCommitted | OffsetRemoved | OffsetPended | OffsetUnpended
OFFSET_EVENTS = (OffsetCommitted, OffsetRemoved, OffsetPended, OffsetUnpended)

ExpireFrom = Callable[[str, int], int | None]
"""(topic, commit time) → start of the retention period; None if the offset does not expire now."""


class Offsets:
    """The machine. One per partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, Committed]] = {}
        self._pended: dict[str, dict[int, dict[TopicPartition, OffsetPended]]] = {}
        self._groups_of: dict[int, dict[str, None]] = {}

    # -- reading

    @property
    def group_ids(self) -> list[str]:
        """All groups with a committed or pended offset, sorted."""
        return sorted(self._committed.keys() | self._pended.keys())

    @property
    def producers(self) -> Mapping[int, Mapping[str, None]]:
        """Producers with pended offsets, and their groups."""
        return self._groups_of

    def has_pended(self, group_id: str) -> bool:
        return group_id in self._pended

    def has_any(self, group_id: str) -> bool:
        return group_id in self._committed or group_id in self._pended

    def find(self, group_id: str, partition: TopicPartition) -> Committed | None:
        return self._committed.get(group_id, {}).get(partition)

    def of_group(self, group_id: str) -> dict[TopicPartition, Committed]:
        """All committed offsets of a group, sorted."""
        return dict(sorted(self._committed.get(group_id, {}).items()))

    def is_unstable(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether an open transaction has a pending commit for this offset."""
        return any(partition in pended for pended in self._pended.get(group_id, {}).values())

    def pended(self, group_id: str, producer_id: int) -> dict[TopicPartition, Committed]:
        found = self._pended.get(group_id, {}).get(producer_id, {})
        return {partition: found[partition].committed for partition in sorted(found)}

    # -- deciding

    def decide_commit(self, group_id: str, partition: TopicPartition, committed: Committed) -> Event:
        _check_metadata(committed)
        return OffsetCommitted(group_id, partition, committed)

    def decide_remove(self, group_id: str, partition: TopicPartition) -> list[Event]:
        """Remove one offset, if it exists."""
        return [OffsetRemoved(group_id, partition)] if self.find(group_id, partition) is not None else []

    def decide_remove_group(self, group_id: str) -> list[Event]:
        """Remove all offsets of a group."""
        events: list[Event] = [
            OffsetRemoved(group_id, partition) for partition in sorted(self._committed.get(group_id, {}))
        ]
        for producer_id, pended in sorted(self._pended.get(group_id, {}).items()):
            events += [OffsetUnpended(group_id, producer_id, partition) for partition in sorted(pended)]
        return events

    def decide_remove_topics(self, group_id: str, topics: Container[str]) -> list[Event]:
        """Remove the offsets of deleted topics: new topics with the same names must not inherit them."""
        committed = self._committed.get(group_id, {})
        gone = {topic for topic in {at.topic for at in committed} if topic in topics}
        events: list[Event] = [
            OffsetRemoved(group_id, at) for at in sorted(at for at in committed if at.topic in gone)
        ]
        for producer_id, pended in sorted(self._pended.get(group_id, {}).items()):
            events += [
                OffsetUnpended(group_id, producer_id, at) for at in sorted(pended) if at.topic in topics
            ]
        return events

    def decide_expire(
        self, group_id: str, from_ms: ExpireFrom, wall_ms: int, retention_ms: int
    ) -> list[Event]:
        """Remove expired offsets, except those with a pending transactional commit."""
        events: list[Event] = []
        for partition, one in self.of_group(group_id).items():
            if one.expire_ms != NO_EXPIRY:
                is_due = wall_ms >= one.expire_ms
            else:
                start_ms = from_ms(partition.topic, one.commit_ms)
                is_due = start_ms is not None and wall_ms - start_ms >= retention_ms
            if is_due and not self.is_unstable(group_id, partition):
                events.append(OffsetRemoved(group_id, partition))
        return events

    def decide_pend(
        self,
        group_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: TopicPartition,
        committed: Committed,
    ) -> Event:
        """Pend an offset until the transaction ends."""
        _check_metadata(committed)
        for earlier in self._pended.get(group_id, {}).get(producer_id, {}).values():
            if earlier.producer_epoch > producer_epoch:
                raise StaleProducer(
                    f"producer {producer_id} is at epoch {earlier.producer_epoch}, epoch {producer_epoch} is fenced"
                )
        return OffsetPended(group_id, producer_id, producer_epoch, partition, committed)

    def decide_settle(self, producer_id: int, *, is_commit: bool) -> list[Event]:
        """A producer's transaction has ended. Idempotent."""
        events: list[Event] = []
        for group_id in sorted(self._groups_of.get(producer_id, {})):
            pended = self._pended[group_id][producer_id]
            for partition in sorted(pended):
                if is_commit:
                    events.append(OffsetCommitted(group_id, partition, pended[partition].committed))
                events.append(OffsetUnpended(group_id, producer_id, partition))
        return events

    # -- applying

    def apply(self, event: Event) -> None:
        """Apply an event. Never fails: any event may follow any other, because the log may be compacted."""
        match event:
            case OffsetCommitted(group_id, partition, committed):
                self._committed.setdefault(group_id, {})[partition] = committed
            case OffsetRemoved(group_id, partition):
                _drop(self._committed, group_id, partition)
            case OffsetPended(group_id, producer_id, _, partition, _):
                self._pended.setdefault(group_id, {}).setdefault(producer_id, {})[partition] = event
                self._groups_of.setdefault(producer_id, {})[group_id] = None
            case OffsetUnpended(group_id, producer_id, partition):
                self._unpend(group_id, producer_id, partition)

    def _unpend(self, group_id: str, producer_id: int, partition: TopicPartition) -> None:
        of_group = self._pended.get(group_id)
        if of_group is None:
            return
        _drop(of_group, producer_id, partition)
        if producer_id not in of_group:
            _drop(self._groups_of, producer_id, group_id)
        if not of_group:
            del self._pended[group_id]


def _check_metadata(committed: Committed) -> None:
    length = len(committed.metadata.encode())
    if length > OFFSET_METADATA_BYTES_MAX:
        raise MetadataTooLarge(f"{length} bytes of metadata exceed the limit of {OFFSET_METADATA_BYTES_MAX}")


def _drop(outer: dict[K, dict[L, V]], key: K, inner_key: L) -> None:
    """Remove an inner entry, and the outer one if it becomes empty."""
    inner = outer.get(key)
    if inner is not None:
        inner.pop(inner_key, None)
        if not inner:
            del outer[key]
