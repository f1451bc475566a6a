"""Translates a definition to options of the Spark source and sink. Never reads a record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from penstock.client.access import read_access
from penstock.client.raw.cluster import Cluster
from penstock.client.raw.offsets import EARLIEST
from penstock.spark.lake.port import Spans
from penstock.spark.pipelines.definition import Pipeline, Project


def topic_options(project: Project) -> dict[str, str]:
    """Options of every connection: broker address and authentication."""
    return {"kafka.bootstrap.servers": project.bootstrap, **project.options}


def partitions_now(project: Project, topics: Sequence[str]) -> list[tuple[str, int]]:
    """All current partitions of the topics."""
    given = {name.removeprefix("kafka."): value for name, value in topic_options(project).items()}
    with Cluster(read_access(given)) as cluster:
        found = cluster.topics(topics)
    return [(name, number) for name, topic in sorted(found.items()) for number in topic.partitions]


def source_options(project: Project, pipeline: Pipeline, live_from: Spans | None) -> dict[str, str]:
    """Source options of a pipeline. `live_from` holds the offsets at which its history ends."""
    source = pipeline.source
    options = {**topic_options(project), "includeHeaders": "true", "startingOffsets": source.start}
    if source.topics:
        options["subscribe"] = ",".join(source.topics)
    else:
        assert source.pattern is not None
        options["subscribePattern"] = source.pattern
    if source.rows_per_batch_max:
        options["maxOffsetsPerTrigger"] = str(source.rows_per_batch_max)
    if source.bytes_per_batch_max:
        options["maxBytesPerTrigger"] = str(source.bytes_per_batch_max)
    if live_from is not None:
        options["startingOffsets"] = starting_offsets(live_from, partitions_now(project, source.topics))
    return {**options, **source.options}


def starting_offsets(spans: Spans, partitions: Iterable[tuple[str, int]]) -> str:
    """JSON start offsets: after the spans, and at the beginning of partitions without one."""
    by_topic: dict[str, dict[str, int]] = {}
    for place in partitions:
        by_topic.setdefault(place[0], {})[str(place[1])] = spans[place][1] if place in spans else EARLIEST
    return json.dumps(by_topic)
