"""The options that a definition means for Spark's source and sink. Never reads a record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from penstock.client.access import read_access
from penstock.client.cluster import Cluster
from penstock.client.offsets import EARLIEST
from penstock.spark.lake.port import Spans
from penstock.spark.pipelines.definition import Pipeline, Project


def topic_options(project: Project) -> dict[str, str]:
    """What every connection needs: the broker, and how to be let in."""
    return {"kafka.bootstrap.servers": project.bootstrap, **project.options}


def partitions_now(project: Project, topics: Sequence[str]) -> list[tuple[str, int]]:
    """Every partition that the topics have at the broker."""
    given = {name.removeprefix("kafka."): value for name, value in topic_options(project).items()}
    with Cluster(read_access(given)) as cluster:
        found = cluster.topics(topics)
    return [(name, number) for name, topic in sorted(found.items()) for number in topic.partitions]


def source_options(project: Project, pipeline: Pipeline, live_from: Spans | None) -> dict[str, str]:
    """How the topics are read. `live_from` holds the offsets at which a table's history ends."""
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
    """Behind what was read, and at the beginning of partitions of which nothing was: JSON by topic and partition."""
    by_topic: dict[str, dict[str, int]] = {}
    for place in partitions:
        by_topic.setdefault(place[0], {})[str(place[1])] = spans[place][1] if place in spans else EARLIEST
    return json.dumps(by_topic)
