"""Three brokers as processes, asked by the commands and over HTTP, before and after one of them is killed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from conditions import until
from penstock import Admin
from penstock.apps.cli.client import connect_cluster
from penstock.testing import Broker, Cluster, running_cluster
from penstock.wire.kafka import ApiKey, messages

COMMAND = [sys.executable, "-m", "penstock", "cluster"]
SECONDS_MAX = 60
PARTITIONS = 6


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(
        3, tmp_path, session_ms=3000, text_port="off", json_port="off", queue_port="off"
    ) as found:
        with Admin(bootstrap=found.bootstrap) as admin:
            admin.create_topic("orders", PARTITIONS)
        yield found


def run(bootstrap: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [*COMMAND, *arguments, "--bootstrap", bootstrap],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={**os.environ},
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return ran


def shown(bootstrap: str, *arguments: str) -> Any:
    return json.loads(run(bootstrap, *arguments, "-o", "json").stdout)


def get(broker: Broker, path: str) -> tuple[int, Any]:
    try:
        with urlopen(f"http://{broker.host}:{broker.http_port}{path}", timeout=SECONDS_MAX) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


def peer_states(broker: Broker) -> dict[int, str]:
    return {one["id"]: one["state"] for one in get(broker, "/api/v1/cluster/gossip")[1]["peers"]}


def quorum_leader(cluster: Cluster) -> int:
    request = messages.DescribeQuorumRequest
    topic = request.TopicData(
        topic_name="__cluster_metadata", partitions=[request.PartitionData(partition_index=0)]
    )
    with connect_cluster(cluster.bootstrap) as kafka:
        answer = kafka.ask(ApiKey.DESCRIBE_QUORUM, request(topics=[topic]))
    (found,) = answer.topics[0].partitions
    assert (answer.error_code, found.error_code) == (0, 0) and found.leader_epoch > 0
    return found.leader_id


def test_a_cluster_before_and_after_a_broker_is_killed(cluster: Cluster) -> None:
    one = cluster.broker(1)
    until(lambda: peer_states(one) == {1: "alive", 2: "alive", 3: "alive"}, "gossip finds all brokers")
    until(lambda: get(one, "/api/v1/cluster")[1]["controller"], "a broker is the controller")
    status = shown(cluster.bootstrap, "status")
    assert [(row["id"], row["fenced"], row["leaders"]) for row in status["brokers"]] == [
        (1, False, 2),
        (2, False, 2),
        (3, False, 2),
    ]
    assert status["source"] == "http" and status["offline_partitions"] == 0
    assert {f"127.0.0.1:{broker.port}" for broker in cluster.brokers} == {
        row["addresses"]["gossip"] for row in status["brokers"]
    }
    text = run(cluster.bootstrap, "status").stdout
    assert "3 brokers (3 active)" in text and "all with a leader" in text
    assert shown(cluster.bootstrap, "controller")["controller"] == status["controller"]
    assert len(shown(cluster.bootstrap, "topics")["partitions"]) == PARTITIONS
    ring = shown(cluster.bootstrap, "ring")
    assert sum(row["share"] for row in ring["brokers"]) == pytest.approx(1, abs=0.001)
    racks = {row["rack"] for row in status["brokers"]}
    assert len(racks) == 1 and "" not in racks, "all are on this machine"
    assert quorum_leader(cluster) == status["controller"]
    assert get(one, "/readyz") == (200, {"status": "ready", "offline_partitions": [], "session_alive": True})

    cluster.broker(3).kill()
    until(lambda: get(one, "/api/v1/cluster")[1]["brokers"][2]["fenced"], "the killed broker is fenced")
    # The bootstrap list names the killed broker as well: the others answer.
    failed = shown(cluster.bootstrap, "status")
    assert (failed["offline_partitions"], failed["brokers"][2]["session_alive"]) == (2, False)
    offline = shown(cluster.bootstrap, "topics", "--offline")["partitions"]
    assert [(row["leader"], row["replicas"]) for row in offline if row["topic"] == "orders"] == [
        (None, [3])
    ] * 2
    assert "none" in run(cluster.bootstrap, "topics", "orders").stdout
    until(lambda: peer_states(one)[3] == "dead", "gossip reports the killed broker as dead")

    cluster.broker(3).start()
    until(lambda: peer_states(one)[3] == "alive", "gossip hears of the broker again")
    assert shown(cluster.bootstrap, "status")["offline_partitions"] == 0
    cluster.broker(3).stop()
    until(lambda: peer_states(one)[3] == "left", "a broker that stops says goodbye")


def test_without_http_doors_kafka_calls_answer_and_gossip_cannot(tmp_path: Path) -> None:
    off = dict.fromkeys(("http_port", "text_port", "json_port", "queue_port"), "off")
    with running_cluster(2, tmp_path, **off) as cluster:
        with Admin(bootstrap=cluster.bootstrap) as admin:
            admin.create_topic("orders", 4)
        status = run(cluster.bootstrap, "status", "-o", "json")
        assert "no HTTP door answers" in status.stderr
        content = json.loads(status.stdout)
        assert (content["source"], content["partitions"]) == ("kafka", 4)
        assert [(row["id"], row["leaders"]) for row in content["brokers"]] == [(1, 2), (2, 2)]
        assert len(shown(cluster.bootstrap, "topics")["partitions"]) == 4
        refused = run(cluster.bootstrap, "gossip", code=3)
        assert "--http-port" in refused.stderr


def test_a_taken_gossip_port_does_not_stop_a_broker(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        taken.bind(("127.0.0.1", port))
        with running_cluster(1, tmp_path, port=port) as cluster:
            broker = cluster.broker(1)
            assert get(broker, "/readyz")[0] == 200
            assert get(broker, "/api/v1/cluster/gossip")[1]["on"] is False
            assert "cannot use UDP" in broker.output()


def test_no_broker_and_gossip_switched_off(tmp_path: Path) -> None:
    assert "No broker answers" in run("127.0.0.1:1", "status", code=3).stderr
    with running_cluster(1, tmp_path, no_gossip=True) as cluster:
        text = run(cluster.bootstrap, "gossip").stdout
        assert "Gossip is not running on broker 1." in text
        assert "gossip" not in shown(cluster.bootstrap, "brokers")["brokers"][0]["addresses"]
