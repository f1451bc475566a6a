"""What is rendered is what Prometheus reads: its own parser reads every family back, with its kind and its values."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from manual_ports import Hand, PromptWorkers, run
from penstock.core.model import NewRecord, Storage, TopicPartition
from penstock.core.records.build import build_batch
from penstock.node.broker import Broker, start_broker
from penstock.node.coordinators.committed import NO_RETENTION, Committer, NewOffset
from penstock.node.lag import lag_of
from penstock.node.metrics.exposition import LINES_PER_PIECE, render
from penstock.node.metrics.families import FAMILIES
from penstock.node.metrics.family import MetricKind
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.settings import Settings

Parsed = dict[str, Any]


def parsed(broker: Broker) -> Parsed:
    text = b"".join(render(broker)).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families: Parsed, name: str, **labels: str) -> float:
    (found,) = (
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    )
    return float(found)


async def make_broker() -> Broker:
    hand = Hand(MemoryFiles(), PromptWorkers())
    broker = await start_broker(Settings(storage=Storage.MEMORY), hand.runtime)
    topic_id = broker.new_topic_id()
    await broker.change(
        lambda catalog: catalog.decide_create_topic("orders", 2, {}, topic_id=topic_id, now_ms=1)
    )
    partition = broker.partition("orders", 0)
    partition.append(memoryview(build_batch([NewRecord(None, b"x")] * 5, broker.runtime.clock.now_ms())))
    await partition.sync_dirty()
    return broker


def commit(broker: Broker, group: str, offset: int) -> Coroutine[Any, Any, None]:
    async def commit() -> None:
        await broker.group_coordinator.open()
        outcomes: list[Any] = []
        new = NewOffset(TopicPartition("orders", 0), offset, -1, "")
        broker.group_coordinator.committed.commit(group, Committer(), [new], NO_RETENTION, outcomes.append)
        await broker.group_coordinator.groups.shard_of(group).partition.sync_dirty()
        assert outcomes == [[None]]

    return commit()


def test_every_family_is_read_back_with_its_kind() -> None:
    async def test() -> None:
        broker = await make_broker()
        broker.runtime.meters.door("kafka").call("Fetch").observe(0.002)
        families = parsed(broker)
        for family in FAMILIES:
            name = family.name.removesuffix("_total") if family.kind is MetricKind.COUNTER else family.name
            assert families[name].type == family.kind.value
            assert families[name].documentation == family.meaning
        await broker.stop()

    run(test)


def test_what_flowed_is_what_is_shown() -> None:
    async def test() -> None:
        broker = await make_broker()
        await commit(broker, 'odd "name" \\ of\na group', 2)
        families = parsed(broker)
        where = {"topic": "orders", "partition": "0"}
        assert value(families, "penstock_topic_records_in_total", topic="orders") == 5
        assert value(families, "penstock_partition_end_offset", **where) == 5
        assert value(families, "penstock_partition_high_watermark", **where) == 5
        assert value(families, "penstock_partition_online", **where) == 1
        assert value(families, "penstock_partition_size_bytes", **where) > 61
        group = {"group": 'odd "name" \\ of\na group'}
        assert value(families, "penstock_group_committed_offset", **group, **where) == 2
        assert value(families, "penstock_group_lag_records", **group, **where) == 3
        assert value(families, "penstock_group_lag_records", **group, topic="orders", partition="1") == 0
        assert value(families, "penstock_groups", kind="classic", state="Empty") == 1
        assert value(families, "penstock_fsync_seconds_count") >= 2
        assert value(families, "process_resident_memory_bytes") > 1_000_000
        await broker.stop()

    run(test)


def test_buckets_add_up() -> None:
    async def test() -> None:
        broker = await make_broker()
        histogram = broker.runtime.meters.door("kafka").call("Fetch")
        for seconds in (0.0001, 0.002, 0.002, 99.0):
            histogram.observe(seconds)
        families = parsed(broker)
        labels = {"door": "kafka", "call": "Fetch"}
        assert value(families, "penstock_request_seconds_bucket", **labels, le="0.0001") == 1
        assert value(families, "penstock_request_seconds_bucket", **labels, le="0.0025") == 3
        assert value(families, "penstock_request_seconds_bucket", **labels, le="30") == 3
        assert value(families, "penstock_request_seconds_bucket", **labels, le="+Inf") == 4
        assert value(families, "penstock_request_seconds_count", **labels) == 4
        await broker.stop()

    run(test)


def test_many_partitions_come_in_pieces() -> None:
    async def test() -> None:
        broker = await make_broker()
        topic_id = broker.new_topic_id()
        await broker.change(
            lambda catalog: catalog.decide_create_topic(
                "wide", LINES_PER_PIECE, {}, topic_id=topic_id, now_ms=1
            )
        )
        pieces = list(render(broker))
        assert len(pieces) > 4
        assert all(piece.count(b"\n") < LINES_PER_PIECE + 30 for piece in pieces)
        await broker.stop()

    run(test)


def test_lag_counts_what_was_never_committed_and_never_goes_below_the_start() -> None:
    async def test() -> None:
        broker = await make_broker()
        await commit(broker, "g", 1)
        await broker.partition("orders", 0).delete_records(3)
        assert [lag[:4] for lag in lag_of(broker, "g")] == [
            (TopicPartition("orders", 0), 1, 5, 2),
            (TopicPartition("orders", 1), None, 0, 0),
        ]
        assert list(lag_of(broker, "nobody")) == []
        await broker.stop()

    run(test)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_follow_the_custom(family: Any) -> None:
    assert family.name.startswith(("penstock_", "process_"))
    assert family.name.endswith("_total") == (family.kind is MetricKind.COUNTER)
    assert family.meaning.endswith(".")
