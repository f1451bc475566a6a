"""Metrics of moves: on the brokers that take part, and none on a single one."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from memory_broker import make_topic, with_broker
from penstock.node.broker import Broker
from penstock.node.metrics.exposition import render
from penstock.node.metrics.move_families import MOVE_FAMILIES
from sim.move_stage import TOPIC, MoveStage, on_stage


def values(broker: Broker) -> dict[tuple[str, ...], float]:
    text = b"".join(render(broker, MOVE_FAMILIES)).decode()
    return {
        (one.name.removeprefix("penstock_"), *one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_a_move_is_seen_by_both_brokers() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1, 1)
        stage.append(1, *[b"x" * 1_000] * 20)
        size_bytes = stage.partition(1).log.size()
        await stage.move(2)
        await stage.move(2, index=1)
        await stage.until(lambda: stage.holds(2) and stage.partition(2).end_offset > 5)
        source, target = values(stage.broker(1)), values(stage.broker(2))
        copied = target["move_size_bytes", TOPIC, "0"]
        assert 0 < copied < size_bytes and target[("move_copied_bytes_total",)] == copied
        assert target["move_bytes_per_second", TOPIC, "0"] > 0
        assert 0 < source["move_left_bytes", TOPIC, "0"] <= size_bytes
        assert target["moves", "copying"] == 1 and target["moves", "waiting"] <= 1
        await stage.moved(2)
        await stage.moved(2, index=1)
        await stage.until(lambda: values(stage.broker(2))["moves", "waiting"] == 0)
        assert values(stage.broker(2))["moves", "copying"] == 0
        assert values(stage.broker(1))[("handover_seconds_count",)] == 2

    on_stage(play, copy_bytes_per_s=5_000, copies_max=1)


def test_a_single_broker_has_none() -> None:
    async def main(broker: Broker) -> None:
        await make_topic(broker, "t")
        assert values(broker) == {}

    with_broker(main)
