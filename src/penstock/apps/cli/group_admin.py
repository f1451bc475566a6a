"""Computes what Admin does not provide for `penstock group`: the age of unread records, and the plan of a seek.

Never prints.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.apps.cli.client import (
    chosen_partitions,
    connect_admin,
    connect_consumer,
    topic_metadata,
    topic_partition,
)
from penstock.apps.cli.failures import ObjectNotFound
from penstock.apps.cli.positions import Start
from penstock.apps.cli.topic_offsets import Span, TopicOffsets
from penstock.client.errors import NotFound
from penstock.client.messages import Position

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from penstock.client.descriptions import Lag

POLL_SECONDS = 0.5
AGE_SECONDS_MAX = 5.0
"""Time limit for reading the oldest unread record of each partition."""


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """The change of one committed offset."""

    topic: str
    partition: int
    before: int | None
    after: int


class GroupAdmin:
    """The groups of one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.admin = connect_admin(bootstrap)

    def ages(self, rows: list[Lag]) -> list[float | None]:
        """For each row, the age in seconds of its oldest unread record; None if it could not be read in time."""
        behind = {(row.topic, row.partition): row for row in rows if row.lag}
        starts = [Position(topic, number, row.end - row.lag) for (topic, number), row in behind.items()]
        found = self._ages(starts) if starts else {}
        return [found.get((row.topic, row.partition)) if row.lag else 0.0 for row in rows]

    def _ages(self, starts: list[Position]) -> dict[tuple[str, int], float]:
        """Seconds since the record at each position was written; without those that cannot be read in time."""
        ages: dict[tuple[str, int], float] = {}
        waiting = {(one.topic, one.partition) for one in starts}
        consumer = connect_consumer(self._bootstrap)
        try:
            consumer.assign([topic_partition(one.topic, one.partition, one.offset) for one in starts])
            deadline = time.monotonic() + AGE_SECONDS_MAX
            while waiting and time.monotonic() < deadline:
                for message in consumer.consume(500, POLL_SECONDS):
                    where = (message.topic() or "", message.partition() or 0)
                    if where in waiting:
                        waiting.discard(where)
                        written_ms = message.timestamp()[1]
                        if message.error() is None and written_ms >= 0:
                            ages[where] = max(0.0, round(time.time() - written_ms / 1000, 3))
        finally:
            consumer.close()
        return ages

    def _spans(self, consumer: Consumer, topic: str, partition: int | None) -> dict[int, Span]:
        numbers = chosen_partitions(topic_metadata(consumer, topic, self._bootstrap), partition)
        return TopicOffsets(consumer, topic, self._bootstrap).spans(numbers)

    def plan_seek(
        self, group: str, topics: tuple[str, ...], start: Start, partition: int | None = None
    ) -> list[OffsetMove]:
        """The new offset of each partition, or of the one. Without topics: those with committed offsets."""
        before = {(one.topic, one.partition): one.offset for one in self._committed_or_none(group)}
        names = topics or tuple(sorted({topic for topic, _ in before}))
        if not names:
            raise ObjectNotFound(f"Group {group} has no committed offsets; set a topic with --topic NAME")
        consumer = connect_consumer(self._bootstrap)
        moves = []
        try:
            for name in names:
                offsets = TopicOffsets(consumer, name, self._bootstrap).offsets(
                    self._spans(consumer, name, partition), start
                )
                moves += [
                    OffsetMove(name, number, before.get((name, number)), at) for number, at in offsets.items()
                ]
        finally:
            consumer.close()
        return moves

    def _committed_or_none(self, group: str) -> list[Position]:
        try:
            return self.admin.committed(group)
        except NotFound:
            return []

    def seek(self, group: str, moves: list[OffsetMove]) -> None:
        """Commit the new offsets. The broker rejects this while the group has members."""
        self.admin.move_group(group, [Position(move.topic, move.partition, move.after) for move in moves])
