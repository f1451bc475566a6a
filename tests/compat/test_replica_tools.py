"""Kafka's own tools on replicated partitions: they describe them, find those that lack replicas, elect and reassign.

What they print is what they print with Apache Kafka 4.3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.kafka_tools import ELECTION, REASSIGN, TOPICS, Printed, run_tools
from compat.roster import do_without
from compat.vocabulary import MissingRuntime
from conditions import until
from penstock import Admin
from penstock.testing import Cluster, running_cluster

TOPIC = "replicated"
OFF = dict.fromkeys(("text_port", "json_port", "queue_port"), "off")
PLACED = re.compile(
    r"Partition: (\d)\tLeader: (\S+)\tReplicas: (\S+)\tIsr: (\S*)\tElr: ?(\S*)\tLastKnownElr: ?(\S*)"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster(3, session_ms=3_000, **OFF) as brokers:
        with Admin(bootstrap=brokers.bootstrap) as admin:
            admin.create_topic(TOPIC, 3, replicas=3)
        yield brokers


def tools(cluster: Cluster, **commands: tuple[str, ...]) -> dict[str, Printed]:
    try:
        return run_tools(cluster.bootstrap, commands)
    except MissingRuntime as missing:
        do_without(missing)


def in_sync(cluster: Cluster) -> dict[int, list[int]]:
    with Admin(bootstrap=cluster.bootstrap) as admin:
        return {one.partition: one.in_sync for one in admin.describe_topic(TOPIC).partitions}


def test_replicas_are_described(cluster: Cluster) -> None:
    describe = (TOPICS, "--describe", "--topic", TOPIC)
    found = tools(cluster, all=describe, lacking=(*describe, "--under-replicated-partitions"))
    head, *_ = found["all"].lines
    rows = PLACED.findall(found["all"].text)
    assert len(rows) == 3 and "ReplicationFactor: 3" in found["all"].text, (head, found["all"].text)
    for _, leader, replicas, isr, elr, last_known in rows:
        assert leader == replicas.split(",")[0] and sorted(isr.split(",")) == ["1", "2", "3"]
        assert (elr, last_known) == ("", "")
    assert found["lacking"].text.strip() == ""


def test_a_dead_broker_is_missed_and_leads_again(cluster: Cluster) -> None:
    victim = cluster.broker(2)
    victim.kill()
    until(lambda: all(2 not in one for one in in_sync(cluster).values()), "it left the ISRs")
    describe = (TOPICS, "--describe", "--topic", TOPIC)
    found = tools(
        cluster,
        lacking=(*describe, "--under-replicated-partitions"),
        low=(*describe, "--under-min-isr-partitions"),
        least=(*describe, "--at-min-isr-partitions"),
        offline=(*describe, "--unavailable-partitions"),
        elect=(ELECTION, "--election-type", "preferred", "--topic", TOPIC, "--partition", "0"),
    )
    assert len(PLACED.findall(found["lacking"].text)) == len(PLACED.findall(found["least"].text)) == 3
    assert found["low"].text.strip() == found["offline"].text.strip() == ""
    victim.start()
    until(lambda: all(2 in one for one in in_sync(cluster).values()), "it has caught up")
    found = tools(
        cluster,
        elect=(ELECTION, "--election-type", "preferred", "--all-topic-partitions"),
        all=describe,
    )
    assert found["elect"].code == 0, found["elect"].text
    for _, leader, replicas, *_ in PLACED.findall(found["all"].text):
        assert leader == replicas.split(",")[0]


def test_the_factor_is_changed_by_a_reassignment(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    wanted = [{"topic": TOPIC, "partition": index, "replicas": [1, 3]} for index in range(3)]
    file.write_text(json.dumps({"version": 1, "partitions": wanted}))
    execute = (REASSIGN, "--reassignment-json-file", str(file), "--execute")
    verify = (REASSIGN, "--reassignment-json-file", str(file), "--verify", "--preserve-throttles")
    found = tools(cluster, execute=execute)
    assert found["execute"].code == 0, found["execute"].text

    def is_complete() -> bool:
        return tools(cluster, verify=verify)["verify"].text.count("is completed") == 3

    until(is_complete, "two replicas are left")
    assert {tuple(sorted(one)) for one in in_sync(cluster).values()} == {(1, 3)}
