"""The last records of partitions with gaps."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from penstock.apps.cli.last_records import LastRecords


class FakeMessage:
    def __init__(self, partition: int, offset: int, time_ms: int, error: KafkaError | None = None) -> None:
        self._partition, self._offset, self._time_ms, self._error = partition, offset, time_ms, error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._time_ms

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"%d-%d" % (self._partition, self._offset)

    def headers(self) -> None:
        return None

    def error(self) -> KafkaError | None:
        return self._error


class FakeConsumer:
    """Partitions as `{offset: time}`; reads to the end and says so."""

    def __init__(self, partitions: dict[int, dict[int, int]]) -> None:
        self.partitions = partitions
        self.assigned: list[TopicPartition] = []
        self.reads = 0

    def assign(self, assigned: list[TopicPartition]) -> None:
        self.assigned = assigned
        self.reads += 1

    def consume(self, count: int, timeout: float) -> list[Any]:
        found: list[Any] = []
        for one in self.assigned:
            records = sorted(self.partitions[one.partition].items())
            found += [FakeMessage(one.partition, at, time) for at, time in records if at >= one.offset]
            found.append(FakeMessage(one.partition, -1, 0, KafkaError(KafkaError._PARTITION_EOF)))
        self.assigned = []
        return found


def last(
    partitions: dict[int, dict[int, int]], spans: dict[int, tuple[int, int]], count: int
) -> tuple[list[str], int]:
    consumer: Any = FakeConsumer(partitions)
    found = LastRecords(consumer, "nowhere:1", count).read(
        {("t", number): span for number, span in spans.items()}
    )
    return [(one.value or b"").decode() for one in found], consumer.reads


def test_the_newest_of_all_partitions_oldest_first() -> None:
    partitions = {0: {0: 10, 1: 30}, 1: {0: 20, 1: 40}}
    assert last(partitions, {0: (0, 2), 1: (0, 2)}, 3) == (["1-0", "0-1", "1-1"], 1)


def test_gaps_are_read_over() -> None:
    partitions = {0: {0: 1, 1: 2, 50: 3}}
    values, reads = last(partitions, {0: (0, 100)}, 3)
    assert values == ["0-0", "0-1", "0-50"] and reads > 1


def test_fewer_than_wanted_and_none() -> None:
    assert last({0: {5: 1}}, {0: (5, 6)}, 10) == (["0-5"], 1)
    assert last({0: {}}, {0: (5, 5)}, 10) == ([], 0)


def test_records_that_arrive_meanwhile_are_left_to_the_reader() -> None:
    assert last({0: {0: 1, 1: 2, 2: 3}}, {0: (0, 2)}, 10) == (["0-0", "0-1"], 1)
