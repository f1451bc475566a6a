"""Kafka's own command-line tools against the broker: they work, and print what they print with Kafka.

Every expectation here also holds for Apache Kafka 4.3; `compat.reference` shows it.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.kafka_tools import (
    ACLS,
    CLIENT_METRICS,
    CONFIGS,
    DELETE_RECORDS,
    ELECTION,
    FEATURES,
    QUORUM,
    REASSIGN,
    TOPICS,
    Printed,
    offsets_file,
    run_tools,
)
from compat.raw import RawConnection, batch
from compat.roster import do_without
from compat.vocabulary import MissingRuntime
from penstock.testing import running_broker
from several_brokers import NODES

Results = dict[str, Printed]
NODE_ID = "1"
ANY_NODE = f"[1-{NODES}]"


@pytest.fixture(scope="module")
def topic() -> str:
    return f"tools-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    given = os.environ.get("PENSTOCK_COMPAT_BOOTSTRAP")
    if given:
        yield given
        return
    with running_broker(node_id=int(NODE_ID)) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def printed(address: str, topic: str, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What every command prints, all of them run in one Java machine."""
    with RawConnection(address) as raw:
        raw.create_topic(topic, 2)
        raw.produce(topic, batch(b"a", b"b", b"c"))
    try:
        return run_tools(address, commands(topic, tmp_path_factory.mktemp("tools")))
    except MissingRuntime as missing:
        do_without(missing)


def commands(topic: str, directory: Path) -> dict[str, tuple[str, ...]]:
    def configs(kind: str, name: str, *words: str) -> tuple[str, ...]:
        return (CONFIGS, "--entity-type", kind, "--entity-name", name, *words)

    group = f"{topic}-group"
    inert = "remote.storage.enable=false,preallocate=true,leader.replication.throttled.replicas=[0:1,1:1]"
    return {
        "topic": (TOPICS, "--describe", "--topic", topic),
        "all settings": configs("topics", topic, "--describe", "--all"),
        "alter topic": configs("topics", topic, "--alter", "--add-config", inert),
        "topic settings": configs("topics", topic, "--describe"),
        "tiered storage": configs("topics", topic, "--alter", "--add-config", "remote.storage.enable=true"),
        "alter group": configs(
            "groups", group, "--alter", "--add-config", "consumer.session.timeout.ms=50000"
        ),
        "group": configs("groups", group, "--describe"),
        "group low": configs("groups", group, "--alter", "--add-config", "consumer.session.timeout.ms=1"),
        "reset group": configs("groups", group, "--alter", "--delete-config", "consumer.session.timeout.ms"),
        "group again": configs("groups", group, "--describe"),
        "client metrics": configs("client-metrics", "nobody", "--describe"),
        "list client metrics": (CLIENT_METRICS, "--list"),
        "broker": configs("brokers", NODE_ID, "--describe", "--all"),
        "loggers": configs("broker-loggers", NODE_ID, "--describe"),
        "users": (CONFIGS, "--entity-type", "users", "--describe"),
        "clients": (CONFIGS, "--entity-type", "clients", "--describe"),
        "ips": (CONFIGS, "--entity-type", "ips", "--describe"),
        "elect": (ELECTION, "--election-type", "preferred", "--topic", topic, "--partition", "0"),
        "elect all": (ELECTION, "--election-type", "unclean", "--all-topic-partitions"),
        "reassignments": (REASSIGN, "--list"),
        "quorum": (QUORUM, "describe", "--status"),
        "replication": (QUORUM, "describe", "--replication"),
        "features": (FEATURES, "describe"),
        "acls": (ACLS, "--list"),
        "delete records": (DELETE_RECORDS, "--offset-json-file", offsets_file(directory, topic, 2)),
    }


@pytest.mark.parametrize(
    "name",
    ["elect", "elect all", "reassignments", "quorum", "replication", "features", "users", "clients", "ips"],
)
def test_a_tool_that_only_looks_succeeds(printed: Results, name: str) -> None:
    assert printed[name].code == 0, printed[name].text


def test_topics_and_their_settings(printed: Results, topic: str) -> None:
    led = rf"Topic: {topic}\tPartition: 1\tLeader: ({ANY_NODE})\tReplicas: \1\tIsr: \1\t"
    assert re.search(led, printed["topic"].text), printed["topic"].text
    assert printed["alter topic"].text.strip() == f"Completed updating config for topic {topic}."
    own, throttled = "synonyms={DYNAMIC_TOPIC_CONFIG:", "leader.replication.throttled.replicas=0:1,1:1"
    assert set(printed["topic settings"].lines) >= {
        f"{throttled} sensitive=false {own}{throttled}}}",
        f"preallocate=true sensitive=false {own}preallocate=true, DEFAULT_CONFIG:log.preallocate=false}}",
        f"remote.storage.enable=false sensitive=false {own}remote.storage.enable=false}}",
    }
    assert printed["tiered storage"].code == 1
    assert "InvalidConfigurationException" in printed["tiered storage"].text


def test_every_setting_is_shown_with_its_default(printed: Results) -> None:
    assert set(printed["all settings"].lines) >= {
        "file.delete.delay.ms=60000 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.delete.delay.ms=60000}",
        "retention.ms=604800000 sensitive=false synonyms={}",
        "remote.log.copy.disable=false sensitive=false synonyms={}",
        "compression.zstd.level=3 sensitive=false synonyms={DEFAULT_CONFIG:compression.zstd.level=3}",
        "segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}",
    }
    assert set(printed["broker"].lines) >= {
        "default.replication.factor=1 sensitive=false synonyms={DEFAULT_CONFIG:default.replication.factor=1}",
        "log.retention.hours=168 sensitive=false synonyms={DEFAULT_CONFIG:log.retention.hours=168}",
        "log.retention.ms=null sensitive=false synonyms={}",
        "delete.topic.enable=true sensitive=false synonyms={DEFAULT_CONFIG:delete.topic.enable=true}",
    }
    assert any(line.startswith("root=") for line in printed["loggers"].lines)


def test_groups(printed: Results) -> None:
    own = "DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000"
    default = "DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000"
    line = f"consumer.session.timeout.ms=50000 sensitive=false synonyms={{{own}, {default}}}"
    assert (printed["alter group"].code, printed["reset group"].code) == (0, 0)
    assert line in printed["group"].lines and line not in printed["group again"].lines
    assert printed["group low"].code == 1
    assert "InvalidConfigurationException" in printed["group low"].text


def test_client_metrics(printed: Results) -> None:
    assert "The client-metric 'nobody' doesn't exist" in printed["client metrics"].text
    assert (printed["list client metrics"].code, printed["list client metrics"].lines) == (0, [])


def test_leaders_and_moves(printed: Results, topic: str) -> None:
    assert printed["elect"].text.strip() == f"Valid replica already elected for partitions {topic}-0"
    assert printed["reassignments"].text.strip() == "No partition reassignments found."


def test_the_quorum(printed: Results) -> None:
    status = dict(line.split(":", 1) for line in printed["quorum"].lines)
    controller = status["LeaderId"].strip()
    assert re.fullmatch(ANY_NODE, controller)
    assert (status["MaxFollowerLag"].strip(), status["CurrentObservers"].strip()) == ("0", "[]")
    assert status["CurrentVoters"].strip().startswith(f'[{{"id": {controller}, ')
    (leader,) = [line for line in printed["replication"].lines if line.endswith("Leader")]
    assert leader.startswith(controller)


def test_features(printed: Results) -> None:
    levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", printed["features"].text))
    found = {name: levels[name] for name in ("group.version", "metadata.version", "transaction.version")}
    assert found == {"group.version": "1", "metadata.version": "4.3-IV0", "transaction.version": "2"}


def test_acls(printed: Results) -> None:
    assert printed["acls"].code == 1
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in printed["acls"].text


def test_deleted_records(printed: Results, topic: str) -> None:
    assert f"partition: {topic}-0\tlow_watermark: 2" in printed["delete records"].text
