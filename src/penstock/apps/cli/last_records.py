"""Finds the last records of topics, for `sub --last`: newest by timestamp over all partitions, oldest of them first.

Offsets have gaps (transaction markers, compaction), so a partition in which too few records are found is read again
from further back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.cli.formats import RecordView
from penstock.apps.cli.topic_reader import (
    POLL_SECONDS,
    RECORDS_PER_POLL,
    Place,
    is_end_of_partition,
    place_of,
    record_view,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer

LAST_MAX = 100_000
"""Records that `--last` may ask for: all of them are held in memory, once per partition."""
WIDER = 4


class LastRecords:
    """Reads the ends of partitions with a consumer, whose assignment it replaces."""

    def __init__(self, consumer: Consumer, bootstrap: str, count: int) -> None:
        self._consumer = consumer
        self._bootstrap = bootstrap
        self._count = count

    def read(self, spans: dict[Place, tuple[int, int]]) -> list[RecordView]:
        """At most `count` records before the ends of these spans."""
        found: dict[Place, list[RecordView]] = {}
        starts = {place: max(low, high - self._count) for place, (low, high) in spans.items()}
        while starts:
            ends = {place: spans[place][1] for place in starts}
            found |= self._read_between(starts, ends)
            starts = {
                place: max(spans[place][0], ends[place] - WIDER * (ends[place] - start))
                for place, start in starts.items()
                if len(found[place]) < self._count and start > spans[place][0]
            }
        everything = [record for records in found.values() for record in records]
        everything.sort(key=lambda one: (one.timestamp_ms, one.topic, one.partition, one.offset))
        return everything[-self._count :]

    def _read_between(
        self, starts: dict[Place, int], ends: dict[Place, int]
    ) -> dict[Place, list[RecordView]]:
        from penstock.apps.cli.client import topic_partition

        found: dict[Place, list[RecordView]] = {place: [] for place in starts}
        waiting = {place for place, start in starts.items() if start < ends[place]}
        if waiting:
            self._consumer.assign([topic_partition(*place, starts[place]) for place in sorted(waiting)])
        while waiting:
            for message in self._consumer.consume(RECORDS_PER_POLL, POLL_SECONDS):
                place = place_of(message)
                if message.error() is not None:
                    if is_end_of_partition(message, self._bootstrap):
                        waiting.discard(place)
                    continue
                record = record_view(message)
                if record.offset < ends[place]:
                    found[place].append(record)
                if record.offset + 1 >= ends[place]:
                    waiting.discard(place)
        return found
