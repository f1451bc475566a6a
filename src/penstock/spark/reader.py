"""Batch reads: plans one task per offset span. Streams are planned in `stream`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.client.raw.cluster import Cluster
from penstock.client.raw.fetch import Span
from penstock.spark.bounds import cut, resolve_bound, select, spans_between
from penstock.spark.options import ReadOptions
from penstock.spark.task_reader import read_span


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in tasks.

    Does not implement `pushFilters`: Spark (4.3) caches a reader that accepted a filter with the DataFrame and reuses
    it for later queries without that filter, which then miss rows.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        with Cluster(self._options.access) as cluster:
            return [InputPartition(span) for span in cut(self._spans(cluster), self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_span(self._options.access, partition.value, self._options.terms)

    def _spans(self, cluster: Cluster) -> list[Span]:
        options = self._options
        places, topic_ids = select(cluster, options)
        starts = resolve_bound(cluster, options.starting, places, options, is_start=True)
        ends = resolve_bound(cluster, options.ending, places, options, is_start=False)
        return spans_between(starts, ends, topic_ids)
