"""The options that a definition means for Spark's source and sink. Never connects."""

from __future__ import annotations

import json

from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.lake.port import Spans


def topic_options(project: Project) -> dict[str, str]:
    """What every connection needs: the broker, and how to be let in."""
    return {"kafka.bootstrap.servers": project.bootstrap, **project.options}


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
        options["startingOffsets"] = starting_offsets(live_from)
    return {**options, **source.options}


def starting_offsets(spans: Spans) -> str:
    """Behind what was read, as the source wants it: JSON by topic and partition."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), (_, end) in spans.items():
        by_topic.setdefault(topic, {})[str(partition)] = end
    return json.dumps(by_topic)
