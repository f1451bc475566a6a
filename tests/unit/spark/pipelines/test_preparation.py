"""Topics before a run, at a real broker: missing ones are named, those for dead letters and late rows are created."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.client.errors import Unreachable
from penstock.client.raw.cluster import Cluster
from penstock.spark.errors import WrongDefinition
from penstock.spark.pipelines.definition import Project
from penstock.spark.pipelines.loader import read_project
from penstock.spark.pipelines.preparation import find_topics, prepare_topics
from penstock.testing import Broker
from topic_fixtures import create


def project(bootstrap: str, **pipeline: Any) -> Project:
    body = {"decode": {"schema": "id bigint"}, "sink": {"table": "t"}, **pipeline}
    return read_project({"bootstrap": bootstrap, "pipelines": {"p": body}}, Path())


def test_side_topics_are_created_once(broker: Broker, cluster: Cluster) -> None:
    create(cluster, "in")
    window = {"size": "1m", "watermark": "1s", "compute": {"n": "count(*)"}, "late": {"topic": "late"}}
    made = project(broker.bootstrap, source={"topics": ["in"]}, steps=[{"window": window}])
    assert find_topics(made, made.pipelines).to_create == ["in.dlq", "late"]
    for _ in range(2):
        prepare_topics(made, made.pipelines[0])
    assert set(cluster.topics(["in.dlq", "late"])) == {"in.dlq", "late"}
    assert find_topics(made, made.pipelines).to_create == []


def test_missing_topics_are_named_together(broker: Broker, cluster: Cluster) -> None:
    create(cluster, "payments")
    decode = {"format": "raw"}
    made = project(
        broker.bootstrap, source={"topics": ["paymets", "zzz"]}, decode=decode, sink={"topic": "qqq"}
    )
    with pytest.raises(WrongDefinition) as caught:
        prepare_topics(made, made.pipelines[0])
    assert str(caught.value).splitlines() == [
        "pipelines.p.source.topics: there is no topic 'paymets'. Did you mean 'payments'?",
        "pipelines.p.source.topics: there is no topic 'zzz'. Create it with: penstock topic create zzz",
        "pipelines.p.sink.topic: there is no topic 'qqq'. Create it with: penstock topic create qqq",
    ]


def test_a_pattern_without_a_topic_is_no_problem_but_is_told(broker: Broker, cluster: Cluster) -> None:
    create(cluster, "shop-1")
    for pattern, unmatched in (("shop-.*", []), ("shop", ["shop"])):
        made = project(broker.bootstrap, source={"pattern": pattern}, decode={"format": "raw"})
        found = find_topics(made, made.pipelines)
        assert (found.problems, found.unmatched) == ([], unmatched)


def test_a_broker_that_is_not_there_is_no_missing_topic() -> None:
    made = project(
        "127.0.0.1:1", source={"topics": ["in"], "options": {"kafka.default.api.timeout.ms": "200"}}
    )
    with pytest.raises(Unreachable):
        prepare_topics(made, made.pipelines[0])
