"""Metrics of the cluster: of its brokers, and of a single one, which has none of sessions."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from cluster_nodes import ClusterNodes, on_a_cluster, until
from memory_broker import make_topic, with_broker
from penstock.node.broker import Broker
from penstock.node.metrics.exposition import render
from penstock.node.runtime.meters import EtcdMeter


def values(broker: Broker) -> dict[tuple[str, ...], Any]:
    text = b"".join(render(broker)).decode()
    return {
        (one.name, *one.labels.values()): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_the_brokers_of_a_cluster() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        await until(lambda: all(one.controller_id > 0 for one in nodes.brokers.values()))
        found = {broker_id: values(one) for broker_id, one in nodes.brokers.items()}
        assert sum(one[("penstock_controller",)] for one in found.values()) == 1
        for one in found.values():
            assert (one[("penstock_leaders",)], one[("penstock_replicas",)]) == (2, 2)
            assert one[("penstock_metadata_index",)] == nodes.store.end_index
            assert one[("penstock_metadata_lag_events",)] == 0
            assert one[("penstock_session_alive",)] == one[("penstock_broker_online",)] == 1
            assert one[("penstock_live_brokers",)] == 3
            assert one["penstock_brokers", "active"] == 3
            assert one[("penstock_controller_changes_total",)] == 0

    on_a_cluster(play)


def test_a_new_controller_and_a_fenced_broker_are_counted() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await until(lambda: all(one.controller_id > 0 for one in nodes.brokers.values()))
        first = nodes.brokers[1].controller_id
        nodes.kill(first)
        nodes.expire(first)
        others = list(nodes.brokers.values())
        await until(lambda: all(one.controller_id not in (-1, first) for one in others))
        await until(lambda: all(one.catalog.cluster.is_fenced(first) for one in others))
        for one in map(values, others):
            assert one[("penstock_controller_changes_total",)] == 1
            assert (one["penstock_brokers", "active"], one["penstock_brokers", "fenced"]) == (2, 1)
            assert one[("penstock_live_brokers",)] == 2

    on_a_cluster(play)


def test_a_single_broker_has_no_session_and_no_etcd() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "t", partitions=2)
        found = values(broker)
        assert (found[("penstock_leaders",)], found[("penstock_controller",)]) == (2, 1)
        assert found[("penstock_broker_online",)] == 1
        names = {name for name, *_ in found}
        absent = (
            "session_alive",
            "live_brokers",
            "brokers",
            "metadata_lag_events",
            "controller_changes_total",
        )
        assert names.isdisjoint({f"penstock_{name}" for name in absent})
        assert not [name for name in names if "etcd" in name]

    with_broker(test)


def test_endpoints_of_etcd() -> None:
    async def test(broker: Broker) -> None:
        meter = broker.runtime.meters.etcd["a:2379"] = EtcdMeter()
        meter.is_up, meter.failures = True, 4
        found = values(broker)
        assert (found["penstock_etcd_up", "a:2379"], found["penstock_etcd_failures_total", "a:2379"]) == (
            1,
            4,
        )

    with_broker(test)
