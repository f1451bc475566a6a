"""Looks up the topics of pipelines before a run: reports missing ones, creates dead-letter topics.

Without its dead-letter topic a pipeline would run until its first bad row, and fail there. Never changes an existing
topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.client.access import Access, nearest
from penstock.client.errors import Refused
from penstock.client.raw.cluster import Cluster
from penstock.spark.errors import ProjectProblem
from penstock.spark.pipelines.conflicts import side_targets
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.topics import broker_access, topic_options
from penstock.wire.kafka import ApiKey, ErrorCode, messages

CREATE_MS_MAX = 30_000
LOOKUP_MS_MAX = 10_000
"""Shorter than a consumer's timeout, because a failed start is retried anyway."""
BROKER_DECIDES = -1


@dataclass
class TopicsFound:
    """Missing topics, side topics that a run would create, and patterns that match no topic."""

    problems: list[ProjectProblem] = field(default_factory=list)
    to_create: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)


def find_topics(project: Project, pipelines: Sequence[Pipeline]) -> TopicsFound:
    """Compare the topics of pipelines with those of the broker. Raises ClientError if it does not answer."""
    found = TopicsFound()
    known: dict[tuple[tuple[str, str], ...], set[str]] = {}

    def topics_at(options: Mapping[str, str]) -> set[str]:
        given = {**topic_options(project), **options}
        key = tuple(sorted(given.items()))
        if key not in known:
            with Cluster(_access(given)) as cluster:
                known[key] = set(cluster.topics())
        return known[key]

    for pipeline in pipelines:
        path, source, sink = f"pipelines.{pipeline.name}", pipeline.source, pipeline.sink
        if source.topics:
            there = topics_at(source.options)
            for name in source.topics:
                _require(name, there, f"{path}.source.topics", found)
        if source.pattern and not any(
            re.fullmatch(source.pattern, name) for name in topics_at(source.options)
        ):
            found.unmatched.append(source.pattern)
        if sink.topic is not None:
            _require(sink.topic, topics_at(sink.options), f"{path}.sink.topic", found)
        for _, target in side_targets(pipeline):
            if target.topic is not None and target.topic not in topics_at({}):
                found.to_create.append(target.topic)
    found.to_create = sorted(set(found.to_create))
    return found


def prepare_topics(project: Project, pipeline: Pipeline) -> None:
    """Create missing topics for dead letters and late rows. Raises WrongDefinition, ClientError."""
    found = find_topics(project, [pipeline])
    if found.problems:
        raise project.locations.located(found.problems)
    if found.to_create:
        with Cluster(_access(topic_options(project))) as cluster:
            for name in found.to_create:
                _create(cluster, name)


def _access(options: Mapping[str, str]) -> Access:
    return broker_access(options, default_api_timeout_ms=str(LOOKUP_MS_MAX))


def _require(name: str, there: set[str], path: str, found: TopicsFound) -> None:
    if name not in there:
        near = nearest(name, there)
        remedy = near.strip() or f"Create it with: penstock topic create {name}"
        found.problems.append(ProjectProblem(path, f"there is no topic {name!r}.", remedy))


def _create(cluster: Cluster, name: str) -> None:
    request = messages.CreateTopicsRequest
    wanted = request.CreatableTopic(
        name=name,
        num_partitions=BROKER_DECIDES,
        replication_factor=BROKER_DECIDES,
        assignments=[],
        configs=[],
    )
    answer = cluster.ask(ApiKey.CREATE_TOPICS, request(topics=[wanted], timeout_ms=CREATE_MS_MAX))
    for topic in answer.topics:
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            reason = topic.error_message or ErrorCode(topic.error_code).name
            raise Refused(f"cannot create topic {name} for dead letters or late rows: {reason}")
