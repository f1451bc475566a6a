"""Translates a definition to options of the Spark source and sink. Never reads a record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence

from penstock.client.access import Access
from penstock.client.profiles import PROFILE_VARIABLE
from penstock.client.raw.cluster import Cluster
from penstock.client.raw.offsets import EARLIEST
from penstock.client.security import OWN_NAMES, resolve_access
from penstock.spark.lake.port import Spans
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.raw_options import KAFKA

BOOTSTRAP_OPTION = "kafka.bootstrap.servers"


BOOTSTRAP_DEFAULT = "127.0.0.1:9092"


def topic_options(project: Project) -> dict[str, str]:
    """Options of every connection: broker address and authentication."""
    options = {} if project.profile is None else {"profile": project.profile}
    options |= project.options
    has_profile = bool(options.get("profile") or os.environ.get(PROFILE_VARIABLE))
    if project.bootstrap is not None or not has_profile:
        options = {BOOTSTRAP_OPTION: project.bootstrap or BOOTSTRAP_DEFAULT, **options}
    return options


def broker_access(options: Mapping[str, str], **kafka: str) -> Access:
    """The connection of options, and of Kafka client options with underscores. Raises BadArgument."""
    named = {name.replace("_", "."): value for name, value in kafka.items()}
    given = {name.removeprefix(KAFKA): value for name, value in options.items() if name.startswith(KAFKA)}
    own = {name: value for name, value in options.items() if name in OWN_NAMES}
    return resolve_access({**named, **given}, own)


def partitions_now(project: Project, topics: Sequence[str]) -> list[tuple[str, int]]:
    """All current partitions of the topics."""
    with Cluster(broker_access(topic_options(project))) as cluster:
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
