"""Addresses of doors as brokers list them, and a single broker's answers over HTTP and over Kafka calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import Admin
from penstock.apps.cli.cluster_source import HTTP, KAFKA, ClusterSource, read_listeners
from penstock.apps.cli.failures import NoBroker, ObjectNotFound
from penstock.core.model import Address
from penstock.testing import Broker, running_broker


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("kafka://a:9092,http://b:8080", {"kafka": Address("a", 9092), "http": Address("b", 8080)}),
        ("http://[::1]:8080", {"http": Address("::1", 8080)}),
        (" http://a:1 , json://b:x,,text://c", {"http": Address("a", 1)}),
        ("http://a:99999", {}),
        ("", {}),
    ],
)
def test_listeners(value: str, found: dict[str, Address]) -> None:
    assert read_listeners(value) == found


@pytest.fixture(scope="module")
def with_http() -> Iterator[Broker]:
    with running_broker(storage="memory") as broker, Admin(bootstrap=broker.bootstrap) as admin:
        admin.create_topic("orders", 3)
        yield broker


@pytest.fixture(scope="module")
def without_http() -> Iterator[Broker]:
    with (
        running_broker(storage="memory", http_port="off") as broker,
        Admin(bootstrap=broker.bootstrap) as admin,
    ):
        admin.create_topic("orders", 3)
        yield broker


def test_both_sources_agree_on_what_both_know(with_http: Broker, without_http: Broker) -> None:
    over_http, over_kafka = (ClusterSource(one.bootstrap).overview() for one in (with_http, without_http))
    assert (over_http.source, over_http.why_not_http) == (HTTP, "")
    assert (over_kafka.source, over_kafka.why_not_http) == (KAFKA, "broker 0 has none")
    assert over_http.content.keys() == over_kafka.content.keys()
    for name in ("controller", "partitions", "offline_partitions", "under_replicated_partitions"):
        assert over_http.content[name] == over_kafka.content[name], name
    one, other = over_http.content["brokers"][0], over_kafka.content["brokers"][0]
    assert one.keys() == other.keys()
    assert [one[name] for name in ("id", "fenced", "leaders", "replicas")] == [0, False, 3, 3]
    assert [other[name] for name in ("id", "fenced", "leaders", "replicas")] == [0, False, 3, 3]
    assert one["addresses"]["http"] == f"127.0.0.1:{with_http.http_port}"


def test_partitions_of_both_sources(with_http: Broker, without_http: Broker) -> None:
    for broker in (with_http, without_http):
        source = ClusterSource(broker.bootstrap)
        found = source.partitions(with_internal=False).content["partitions"]
        assert [(one["topic"], one["partition"], one["leader"], one["isr"]) for one in found] == [
            ("orders", number, 0, [0]) for number in range(3)
        ]
        for name in ("offline", "under_replicated"):
            assert source.partitions([name], with_internal=True).content == {"partitions": []}
    only_here = ClusterSource(with_http.bootstrap).partitions(["at_min_isr"], with_internal=False)
    assert [(one["min_isr"], one["elr"]) for one in only_here.content["partitions"]] == [(1, [])] * 3
    with pytest.raises(NoBroker, match="--http-port"):
        ClusterSource(without_http.bootstrap).partitions(["under_min_isr"], with_internal=False)


def test_what_only_http_tells_needs_an_http_door(with_http: Broker, without_http: Broker) -> None:
    assert ClusterSource(with_http.bootstrap).ring().content["vnodes"] == 128
    assert ClusterSource(with_http.bootstrap).gossip().content["on"] is False
    for read in (ClusterSource.ring, ClusterSource.gossip):
        with pytest.raises(NoBroker, match=r"broker 0 has none.*--http-port"):
            read(ClusterSource(without_http.bootstrap))


def test_a_broker_that_does_not_exist(with_http: Broker) -> None:
    with pytest.raises(ObjectNotFound, match="no broker 7"):
        ClusterSource(with_http.bootstrap, 7).gossip()
