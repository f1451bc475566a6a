"""A batch read: spans of topics as tasks, narrowed by filters on place and time. Never used for streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from penstock.client.cluster import Cluster
from penstock.client.fetching import Span
from penstock.client.offsets import NO_OFFSET, list_offsets
from penstock.spark.bounds import cut, resolve, select, spans_between
from penstock.spark.options import ReadOptions
from penstock.spark.reading import read_span

_OFFSET_MAX = 2**63 - 1


class Reader(DataSourceReader):
    """Plans on the driver, reads in tasks."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        with Cluster(self._options.access) as cluster:
            return [InputPartition(span) for span in cut(self._spans(cluster), self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_span(self._options.access, partition.value, self._options.terms)

    def _spans(self, cluster: Cluster) -> list[Span]:
        options = self._options
        places = select(cluster, options).places
        starts = resolve(cluster, options.starting, places, options, is_start=True)
        ends = resolve(cluster, options.ending, places, options, is_start=False)
        return spans_between(starts, ends)


class NarrowingReader(Reader):
    """A reader that lets filters on partition, offset, timestamp and topic choose what is read at all.

    Only where that is asked for: Spark keeps the narrowed reader with the DataFrame, and hands it also to a later query
    that has no filter, which then misses rows.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        return [one for one in filters if not self._narrowing.take(one)]

    def _spans(self, cluster: Cluster) -> list[Span]:
        return self._narrowing.narrow(cluster, super()._spans(cluster), self._options)


class Narrowing:
    """What filters say about where records can be. Offsets, partitions and topics exactly, times only roughly:
    records of a partition need not be in the order of their times, so Spark looks at those again."""

    def __init__(self) -> None:
        self.offset_min, self.offset_max = 0, _OFFSET_MAX
        self.time_us_min: int | None = None
        self.partitions: set[int] | None = None
        self.topics: set[str] | None = None

    def take(self, one: Filter) -> bool:
        """Use a filter; true when it is fulfilled by this alone and Spark need not apply it again."""
        path: tuple[str, ...] = getattr(one, "attribute", ())
        column = path[0] if len(path) == 1 else ""
        if column == "offset":
            return self._take_offset(one)
        if column in ("partition", "topic") and isinstance(one, (EqualTo, EqualNullSafe, In)):
            values = set(one.value) if isinstance(one, In) else {one.value}
            known = getattr(self, f"{column}s")
            setattr(self, f"{column}s", values if known is None else known & values)
            return True
        if column == "timestamp" and isinstance(one, (GreaterThan, GreaterThanOrEqual, EqualTo)):
            time_us = _microseconds(one.value)
            self.time_us_min = time_us if self.time_us_min is None else max(self.time_us_min, time_us)
        return False

    def _take_offset(self, one: Filter) -> bool:
        match one:
            case EqualTo() | EqualNullSafe():
                if one.value is None:
                    return False
                low = high = int(one.value)
            case GreaterThan():
                low, high = int(one.value) + 1, _OFFSET_MAX
            case GreaterThanOrEqual():
                low, high = int(one.value), _OFFSET_MAX
            case LessThan():
                low, high = 0, int(one.value) - 1
            case LessThanOrEqual():
                low, high = 0, int(one.value)
            case _:
                return False
        self.offset_min, self.offset_max = max(self.offset_min, low), min(self.offset_max, high)
        return True

    def narrow(self, cluster: Cluster, spans: Sequence[Span], options: ReadOptions) -> list[Span]:
        """The parts of the spans in which such records can be."""
        kept = [
            span._replace(
                start_offset=max(span.start_offset, self.offset_min),
                end_offset=min(
                    span.end_offset, self.offset_max + 1 if self.offset_max < _OFFSET_MAX else _OFFSET_MAX
                ),
            )
            for span in spans
            if (self.partitions is None or span.partition in self.partitions)
            and (self.topics is None or span.topic in self.topics)
        ]
        kept = [span for span in kept if span.start_offset < span.end_offset]
        if self.time_us_min is None or not kept:
            return kept
        times = dict.fromkeys((span.place for span in kept), max(0, self.time_us_min // 1000))
        first = list_offsets(cluster, times, options.terms.isolation)
        return [
            span._replace(start_offset=max(span.start_offset, first[span.place]))
            for span in kept
            if first[span.place] != NO_OFFSET and first[span.place] < span.end_offset
        ]


def _microseconds(value: Any) -> int:
    if not isinstance(value, datetime):
        return int(value)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000_000)


def make_reader(options: ReadOptions) -> Reader:
    """The kind that the options ask for: Spark refuses readers that take filters where it pushes none."""
    if options.pushes_filters:
        return NarrowingReader(options)
    return Reader(options)
