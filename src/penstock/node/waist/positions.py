"""Looks up offsets in partitions: start, end, by timestamp, and ends of leader epochs.

Reads at most the one batch that contains the timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import BrokerError, OffsetNotAvailable
from penstock.core.model import NO_EPOCH, NO_TIMESTAMP, Isolation, TopicPartition, TopicRef
from penstock.core.session import Session
from penstock.node.replicas.committed_records import end_of
from penstock.node.replicas.edges import Bounds as Bounds
from penstock.node.replicas.edges import Edge as Edge
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.times import TimedOffset as TimedOffset
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.routes import Routes

if TYPE_CHECKING:
    from penstock.node.waist.elsewhere import Elsewhere


class PositionVerbs:
    """Looks up offsets for clients."""

    def __init__(self, authorization: Authorization, routes: Routes, elsewhere: Elsewhere | None) -> None:
        self._authorization = authorization
        self._elsewhere = elsewhere
        self._find = routes.partition

    def find(
        self,
        session: Session,
        topic: TopicRef,
        index: int,
        when: Edge | int,
        isolation: Isolation,
        leader_epoch: int = NO_EPOCH,
    ) -> TimedOffset | None:
        """The record at an edge, or the first one at or after a timestamp in milliseconds; None if there is none.

        If the caller states a leader epoch, it must be the current one.
        """
        partition = self._describable(session, topic, index)
        partition.check_online()
        partition.check_epoch(leader_epoch)
        return find_in(partition, when, isolation)

    async def bounds_elsewhere(
        self, session: Session, places: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, Bounds | BrokerError]:
        """Start and end offsets of the partitions among these that other brokers lead."""
        if self._elsewhere is None:
            return {}
        for topic in dict.fromkeys(place.topic for place in places):
            self._authorization.authorize_topic(session, Operation.DESCRIBE, topic)
        return await self._elsewhere.offsets.bounds(self._elsewhere.among(places))

    def bounds(self, session: Session, topic: TopicRef, index: int) -> Bounds:
        """Start and end offset of one partition of this node."""
        partition = self._describable(session, topic, index)
        return Bounds(partition.start_offset, partition.high_watermark)

    def epoch_end(
        self, session: Session, topic: TopicRef, index: int, epoch: int, leader_epoch: int
    ) -> tuple[int, int]:
        """(largest epoch at or before `epoch`, where it ends)."""
        if not self._authorization.allows(session, Operation.CLUSTER_ACTION, CLUSTER):
            self._authorization.authorize_topic(session, Operation.DESCRIBE, topic)
        partition = self._find(topic, index)
        partition.check_epoch(leader_epoch)
        return partition.epoch_end(epoch)

    def _describable(self, session: Session, topic: TopicRef, index: int) -> Partition:
        self._authorization.authorize_topic(session, Operation.DESCRIBE, topic)
        return self._find(topic, index)


def find_in(partition: Partition, when: Edge | int, isolation: Isolation) -> TimedOffset | None:
    """Like `PositionVerbs.find`, for a given partition.

    The leader epoch is that of the record at the offset; at the end of the log that of the last record before it,
    because an epoch without records is unknown to replicas that lead later. A new leader has to commit what earlier
    ones wrote before it knows where the end is.
    """
    match when:
        case Edge.LATEST:
            _check_end(partition)
            offset = end_of(partition, isolation)
            is_empty = offset <= partition.start_offset
            return TimedOffset(offset, NO_TIMESTAMP, NO_EPOCH if is_empty else partition.epoch_at(offset - 1))
        case Edge.EARLIEST:
            offset = partition.start_offset
            is_empty = offset >= partition.end_offset
            return TimedOffset(offset, NO_TIMESTAMP, NO_EPOCH if is_empty else partition.epoch_at(offset))
        case Edge.NEWEST:
            _check_end(partition)
            return partition.find_newest()
        case int():
            found = partition.find_time(when, isolation) if when >= 0 else None
            if found is None and when >= 0:
                _check_end(partition)
            return found


def _check_end(partition: Partition) -> None:
    """Raise while the high watermark is before the start of the leader's epoch: records before it are committed. Raise
    as well if another broker may lead already: it may have shown a later end. Followers of a new topic may not have
    fetched yet, and tools ask for its end at once."""
    partition.check_followed(trusts_new=True)
    epoch_start = partition.log.epochs.latest_start
    if partition.high_watermark < epoch_start:
        raise OffsetNotAvailable(
            f"{partition}: the new leader has committed up to {partition.high_watermark}, and does not know yet whether"
            f" the records up to {epoch_start} are; retry"
        )
