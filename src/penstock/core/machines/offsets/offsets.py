"""Committed offsets per group and partition, and those that wait for a transaction to end. Never asks who commits.

Whether a member may commit is its group's matter; whether a producer may is its transaction's. An offset of an open
transaction is *pended*: kept under the producer's id, not visible, until `decide_settle` makes it a commit or drops it.
Each event is the whole state of its key, so the log of them may be compacted.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from penstock.core.errors import MetadataTooLarge, StaleProducer
from penstock.core.limits import OFFSET_METADATA_BYTES_MAX
from penstock.core.model import TopicPartition

K = TypeVar("K")
L = TypeVar("L")
V = TypeVar("V")

NO_OFFSET = -1
NO_EXPIRY = -1


class Committed(NamedTuple):
    """What was committed. `expire_ms` is set only by clients old enough to name a retention of their own."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NO_EXPIRY


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    """A group's offset of one partition; this is what it is now."""

    group_id: str
    partition: TopicPartition
    committed: Committed


@dataclass(frozen=True, slots=True)
class OffsetRemoved:
    """A group has no offset of this partition any more."""

    group_id: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetPended:
    """A transaction of this producer will commit this offset if it commits."""

    group_id: str
    producer_id: int
    producer_epoch: int
    partition: TopicPartition
    committed: Committed


@dataclass(frozen=True, slots=True)
class OffsetUnpended:
    """That transaction has ended, one way or the other."""

    group_id: str
    producer_id: int
    partition: TopicPartition


Event = OffsetCommitted | OffsetRemoved | OffsetPended | OffsetUnpended
OFFSET_EVENTS = (OffsetCommitted, OffsetRemoved, OffsetPended, OffsetUnpended)

ExpireFrom = Callable[[str, int], int | None]
"""(topic, commit time) → from when on the retention counts; None: it does not count now."""


class Offsets:
    """The machine. One per partition of the groups' topic."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, Committed]] = {}
        self._pended: dict[str, dict[int, dict[TopicPartition, OffsetPended]]] = {}
        self._groups_of: dict[int, dict[str, None]] = {}

    # -- reading

    @property
    def group_ids(self) -> list[str]:
        """Every group that has an offset, committed or pended, sorted."""
        return sorted(self._committed.keys() | self._pended.keys())

    @property
    def producers(self) -> Mapping[int, Mapping[str, None]]:
        """Every producer that has an offset pended, with the groups it has them in."""
        return self._groups_of

    def has_pended(self, group_id: str) -> bool:
        return group_id in self._pended

    def has_any(self, group_id: str) -> bool:
        return group_id in self._committed or group_id in self._pended

    def find(self, group_id: str, partition: TopicPartition) -> Committed | None:
        return self._committed.get(group_id, {}).get(partition)

    def of_group(self, group_id: str) -> dict[TopicPartition, Committed]:
        """Everything that a group has committed, sorted."""
        return dict(sorted(self._committed.get(group_id, {}).items()))

    def is_unstable(self, group_id: str, partition: TopicPartition) -> bool:
        """Does an open transaction want to change this offset?"""
        return any(partition in pended for pended in self._pended.get(group_id, {}).values())

    def pended(self, group_id: str, producer_id: int) -> dict[TopicPartition, Committed]:
        found = self._pended.get(group_id, {}).get(producer_id, {})
        return {partition: found[partition].committed for partition in sorted(found)}

    # -- deciding

    def decide_commit(self, group_id: str, partition: TopicPartition, committed: Committed) -> Event:
        _check_metadata(committed)
        return OffsetCommitted(group_id, partition, committed)

    def decide_remove(self, group_id: str, partition: TopicPartition) -> list[Event]:
        """Drop one offset; nothing happens if there is none."""
        return [OffsetRemoved(group_id, partition)] if self.find(group_id, partition) is not None else []

    def decide_remove_group(self, group_id: str) -> list[Event]:
        """Drop all that is known of a group."""
        events: list[Event] = [
            OffsetRemoved(group_id, partition) for partition in sorted(self._committed.get(group_id, {}))
        ]
        for producer_id, pended in sorted(self._pended.get(group_id, {}).items()):
            events += [OffsetUnpended(group_id, producer_id, partition) for partition in sorted(pended)]
        return events

    def decide_remove_topics(self, group_id: str, topics: Container[str]) -> list[Event]:
        """Topics are gone: later ones of the same names must not inherit how far their readers were."""
        events: list[Event] = [
            OffsetRemoved(group_id, at) for at in self.of_group(group_id) if at.topic in topics
        ]
        for producer_id, pended in sorted(self._pended.get(group_id, {}).items()):
            events += [
                OffsetUnpended(group_id, producer_id, at) for at in sorted(pended) if at.topic in topics
            ]
        return events

    def decide_expire(
        self, group_id: str, from_ms: ExpireFrom, wall_ms: int, retention_ms: int
    ) -> list[Event]:
        """Drop offsets that nobody has used for long enough; one that a transaction is about to change stays."""
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
        """Keep an offset for the end of a transaction."""
        _check_metadata(committed)
        for earlier in self._pended.get(group_id, {}).get(producer_id, {}).values():
            if earlier.producer_epoch > producer_epoch:
                raise StaleProducer(
                    f"producer {producer_id} is at epoch {earlier.producer_epoch}, {producer_epoch} is over"
                )
        return OffsetPended(group_id, producer_id, producer_epoch, partition, committed)

    def decide_settle(self, producer_id: int, *, is_commit: bool) -> list[Event]:
        """A producer's transaction has ended. Deciding it a second time decides nothing."""
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
        """Write what happened. Total: any event may follow any other, as after compaction of the log."""
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
        raise MetadataTooLarge(f"{length} bytes of metadata, {OFFSET_METADATA_BYTES_MAX} are allowed")


def _drop(outer: dict[K, dict[L, V]], key: K, inner_key: L) -> None:
    """Remove an inner entry, and the outer one with its last."""
    inner = outer.get(key)
    if inner is not None:
        inner.pop(inner_key, None)
        if not inner:
            del outer[key]
