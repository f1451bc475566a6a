"""Where things are in a partition: first and next offsets, offsets by time, ends of leader epochs.

Never reads records beyond the one batch that a time falls into.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation
from penstock.core.model import NO_EPOCH, NO_TIMESTAMP, Isolation, TopicRef
from penstock.core.session import Session
from penstock.node.replicas.committed_records import end_of
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.times import TimedOffset as TimedOffset
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.routes import Routes


class Edge(Enum):
    """A position that is not a time."""

    EARLIEST = "earliest"
    """The first record that is there."""
    LATEST = "latest"
    """Behind the last record that the reader may see."""
    NEWEST = "newest"
    """The first record that has the highest timestamp."""


class Bounds(NamedTuple):
    """The offsets of one partition that readers may know."""

    start_offset: int
    end_offset: int


class PositionVerbs:
    """Answers questions about offsets."""

    def __init__(self, authorization: Authorization, routes: Routes) -> None:
        self._authorization = authorization
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
        """The record at an edge, or the first one at or after a time in milliseconds; None when there is none.

        A caller that states a leader epoch must state the current one.
        """
        partition = self._describable(session, topic, index)
        partition.check_online()
        partition.check_epoch(leader_epoch)
        return find_in(partition, when, isolation)

    def bounds(self, session: Session, topic: TopicRef, index: int) -> Bounds:
        """Where one partition begins and ends."""
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
    """The same for a partition that was found."""
    match when:
        case Edge.LATEST:
            return TimedOffset(end_of(partition, isolation), NO_TIMESTAMP, partition.leader_epoch)
        case Edge.EARLIEST:
            offset = partition.start_offset
            return TimedOffset(offset, NO_TIMESTAMP, partition.epoch_at(offset))
        case Edge.NEWEST:
            return partition.find_newest()
        case int():
            return partition.find_time(when, isolation) if when >= 0 else None
