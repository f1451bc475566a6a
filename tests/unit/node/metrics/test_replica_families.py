"""Metrics of replicas on three brokers: health, elections, lag and traffic; none on a single one."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from memory_broker import make_topic, with_broker
from penstock.node.broker import Broker
from penstock.node.metrics.exposition import render
from penstock.node.metrics.replica_families import REPLICA_FAMILIES
from sim.move_stage import MoveStage, on_stage

VALUES = [b"x" * 1_000] * 10


def values(broker: Broker) -> dict[tuple[str, ...], float]:
    text = b"".join(render(broker, REPLICA_FAMILIES)).decode()
    return {
        (one.name.removeprefix("penstock_"), *one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


async def until(stage: MoveStage, broker_id: int, name: str, value: float) -> None:
    await stage.until(lambda: values(stage.broker(broker_id))[(name,)] == value)


def test_a_healthy_partition_has_no_lag_and_counts_its_traffic() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create((1, 2, 3), min_insync_replicas="2")
        await stage.write(*VALUES)
        size_bytes = stage.partition(1).log.size()
        await until(stage, 1, "replica_lag_records_max", 0)
        leader, follower = values(stage.broker(1)), values(stage.broker(2))
        for name in ("offline", "under_replicated", "under_min_isr", "at_min_isr"):
            assert leader[(f"{name}_partitions",)] == follower[(f"{name}_partitions",)] == 0
        assert leader["replica_lag_records", "2"] == leader["replica_lag_ms", "3"] == 0
        assert leader["replica_bytes_total", "out"] == 2 * size_bytes
        assert follower["replica_bytes_total", "in"] == size_bytes
        assert follower[("replica_fetches_total",)] >= len(VALUES)
        assert leader["replica_throttled_total", "leader"] == 0
        assert leader["replica_throttle_bytes_per_second", "leader"] == 0

    on_stage(play, brokers=3)


def test_what_the_death_of_followers_shows() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create((1, 2, 3), min_insync_replicas="2")
        await stage.write(*VALUES)
        for one in (2, 3):
            stage.machines[one].pause()
        stage.append(1, *VALUES)
        await stage.until(lambda: values(stage.broker(1))[("replica_lag_ms_max",)] > 1_000)
        lagging = values(stage.broker(1))
        assert lagging["replica_lag_records", "2"] == lagging[("replica_lag_records_max",)] == len(VALUES)
        stage.machines[3].resume()
        await until(stage, 1, "under_replicated_partitions", 1)
        await until(stage, 1, "at_min_isr_partitions", 1)
        assert values(stage.broker(1))["isr_changes_total", "shrink"] >= 1
        stage.machines[3].pause()
        await until(stage, 1, "under_min_isr_partitions", 1)
        for one in (2, 3):
            stage.machines[one].resume()
        await until(stage, 1, "under_replicated_partitions", 0)
        assert values(stage.broker(1))["isr_changes_total", "expand"] >= 1

    on_stage(play, brokers=3)


def test_elections_and_partitions_without_a_leader() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create((1, 2))
        await stage.create(1, topic="alone")
        await stage.write(*VALUES)
        stage.machines[1].restart_s = lambda: 600.0
        stage.machines[1].kill()
        await stage.until(lambda: stage.placed().leader == 2)
        await until(stage, 3, "offline_partitions", 1)
        found = values(stage.broker(2))
        assert (found["elections_total", "clean"], found["elections_total", "unclean"]) == (1, 0)
        assert (
            found[("offline_partitions",)] == 1 and values(stage.broker(3))["elections_total", "clean"] == 0
        )

    on_stage(play, brokers=3)


def test_a_throttled_copy_is_counted() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        stage.append(1, *VALUES * 20)
        await stage.move(1, 2)
        await stage.until(lambda: values(stage.broker(2))["replica_throttled_total", "follower"] > 0)
        assert values(stage.broker(2))["replica_throttle_bytes_per_second", "follower"] == 5_000
        assert values(stage.broker(2))["replica_throttle_bytes_per_second", "catch_up"] == 128 << 20

    on_stage(play, brokers=2, copy_bytes_per_s=5_000)


def test_a_single_broker_has_none() -> None:
    async def main(broker: Broker) -> None:
        await make_topic(broker, "t")
        assert values(broker) == {}

    with_broker(main)
