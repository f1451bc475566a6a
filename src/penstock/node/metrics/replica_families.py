"""Metrics of replicas: partitions that lack some, elections, lag and traffic. A single broker has none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import NamedTuple

from penstock.core.machines.cluster.health import PartitionHealth, health_of
from penstock.node.broker import Broker
from penstock.node.metrics.family import Family, MetricKind, Samples

MS_PER_S = 1_000


class _Lag(NamedTuple):
    """How far the slowest replica on another broker is behind."""

    records: int
    ms: int


def _led_health(broker: Broker) -> Iterator[PartitionHealth]:
    """Of the partitions that this broker leads."""
    cluster, own_id = broker.catalog.cluster, broker.identity.node_id
    for topic in broker.catalog.topics:
        isr_size_min = cluster.isr_size_min(topic.id)
        for one in cluster.partitions_of(topic.id):
            if one.leader == own_id:
                yield health_of(one, isr_size_min, cluster)


def _counted(name: str) -> Callable[[Broker], Samples]:
    def samples(broker: Broker) -> Samples:
        if broker.replication is not None:
            yield (), sum(getattr(one, name) for one in _led_health(broker))

    return samples


def _offline(broker: Broker) -> Samples:
    if broker.replication is not None:
        cluster = broker.catalog.cluster
        yield (), sum(cluster.is_fenced(one.leader) for one in cluster.partitions())


def _isr_changes(broker: Broker) -> Samples:
    if broker.replication is not None:
        meters = broker.runtime.meters
        yield ("shrink",), meters.isr_shrinks
        yield ("expand",), meters.isr_expands


def _elections(broker: Broker) -> Samples:
    if broker.controller is not None:
        yield ("clean",), broker.controller.elections.clean
        yield ("unclean",), broker.controller.elections.unclean


# -- lag


def _lags(broker: Broker) -> dict[int, _Lag]:
    """By broker that follows partitions of this one."""
    found: dict[int, _Lag] = {}
    if broker.replication is None:
        return found
    now_s = asyncio.get_running_loop().time()
    for led in broker.replication.leading.led():
        tracker, log = led.tracker, led.partition.log
        for broker_id, progress in tracker.followers():
            offset = log.start_offset if progress is None else progress.fetch.offset
            behind_s = now_s - tracker.caught_up_s(broker_id, log.end_offset, now_s)
            worst = found.get(broker_id, _Lag(0, 0))
            found[broker_id] = _Lag(
                max(worst.records, log.end_offset - offset), max(worst.ms, round(behind_s * MS_PER_S))
            )
    return found


def _lag_per_follower(name: str) -> Callable[[Broker], Samples]:
    def samples(broker: Broker) -> Samples:
        for broker_id, lag in sorted(_lags(broker).items()):
            yield (str(broker_id),), getattr(lag, name)

    return samples


def _lag_max(name: str) -> Callable[[Broker], Samples]:
    def samples(broker: Broker) -> Samples:
        if broker.replication is not None:
            yield (), max((getattr(lag, name) for lag in _lags(broker).values()), default=0)

    return samples


# -- traffic


def _fetches(broker: Broker) -> Samples:
    yield (), None if broker.replication is None else broker.runtime.meters.replica_fetches


def _bytes(broker: Broker) -> Samples:
    if broker.replication is not None:
        meters = broker.runtime.meters
        yield ("in",), meters.replicated_bytes + meters.copied_bytes
        yield ("out",), broker.replication.leading.traffic.out_bytes


def _throttle_waits(broker: Broker) -> Samples:
    if broker.replication is not None:
        throttles = broker.replication.following.throttles
        yield ("follower",), throttles.moves.waits
        yield ("catch_up",), throttles.catch_up.waits
        yield ("leader",), broker.replication.leading.throttle.waits


def _throttle_rates(broker: Broker) -> Samples:
    if broker.replication is not None:
        throttles = broker.replication.following.throttles
        yield ("follower",), max(0, throttles.moves.rate())
        yield ("catch_up",), max(0, throttles.catch_up.rate())
        yield ("leader",), max(0, broker.replication.leading.throttle.rate())


# -- comparison and repair


def _meter(name: str) -> Callable[[Broker], Samples]:
    def samples(broker: Broker) -> Samples:
        yield (), None if broker.replication is None else getattr(broker.runtime.meters, name)

    return samples


_LED = "In a cluster: partitions that this broker leads"
_FOLLOWER = ("follower",)
_SIDE = ("side",)

REPLICA_FAMILIES = (
    Family(
        "penstock_offline_partitions",
        MetricKind.GAUGE,
        (),
        "In a cluster: partitions without a leader, of all brokers. The same value on each of them.",
        _offline,
    ),
    Family(
        "penstock_under_replicated_partitions",
        MetricKind.GAUGE,
        (),
        f"{_LED} and of which a replica is not in sync.",
        _counted("is_under_replicated"),
    ),
    Family(
        "penstock_under_min_isr_partitions",
        MetricKind.GAUGE,
        (),
        f"{_LED} with fewer in-sync replicas than min.insync.replicas: writes with acks=all are refused.",
        _counted("is_under_min_isr"),
    ),
    Family(
        "penstock_at_min_isr_partitions",
        MetricKind.GAUGE,
        (),
        f"{_LED} with as many in-sync replicas as min.insync.replicas: one failure more stops writes. Includes all"
        " partitions with one replica.",
        _counted("is_at_min_isr"),
    ),
    Family(
        "penstock_isr_changes_total",
        MetricKind.COUNTER,
        ("change",),
        "In a cluster: how often a replica left (shrink) or joined (expand) the in-sync replicas of a partition that"
        " this broker leads.",
        _isr_changes,
    ),
    Family(
        "penstock_elections_total",
        MetricKind.COUNTER,
        ("kind",),
        "In a cluster: elections that made this broker a leader. After an unclean one acknowledged records may be"
        " lost.",
        _elections,
    ),
    Family(
        "penstock_replica_lag_records",
        MetricKind.GAUGE,
        _FOLLOWER,
        "Records that a broker lacks of the partition, led by this broker, in which it is furthest behind.",
        _lag_per_follower("records"),
    ),
    Family(
        "penstock_replica_lag_ms",
        MetricKind.GAUGE,
        _FOLLOWER,
        "Milliseconds since a broker had all records of the partition, led by this broker, in which it is furthest"
        " behind.",
        _lag_per_follower("ms"),
    ),
    Family(
        "penstock_replica_lag_records_max",
        MetricKind.GAUGE,
        (),
        "In a cluster: the highest of the lags in records.",
        _lag_max("records"),
    ),
    Family(
        "penstock_replica_lag_ms_max",
        MetricKind.GAUGE,
        (),
        "In a cluster: the highest of the lags in milliseconds.",
        _lag_max("ms"),
    ),
    Family(
        "penstock_replica_fetches_total",
        MetricKind.COUNTER,
        (),
        "In a cluster: fetches that this broker sent as a follower, each for all partitions of one leader.",
        _fetches,
    ),
    Family(
        "penstock_replica_bytes_total",
        MetricKind.COUNTER,
        ("direction",),
        "In a cluster: bytes of batches that this broker fetched from leaders (in) and sent to followers (out), moves"
        " included.",
        _bytes,
    ),
    Family(
        "penstock_replica_throttled_total",
        MetricKind.COUNTER,
        _SIDE,
        "In a cluster: how often a copy waited for the limit of bytes per second: of new replicas, by this broker as"
        " follower or as leader, and of what this broker missed while it was away (catch_up). Replicas in sync are not"
        " throttled.",
        _throttle_waits,
    ),
    Family(
        "penstock_replica_throttle_bytes_per_second",
        MetricKind.GAUGE,
        _SIDE,
        "In a cluster: these limits; 0: none.",
        _throttle_rates,
    ),
    Family(
        "penstock_scrubbed_bytes_total",
        MetricKind.COUNTER,
        (),
        "In a cluster: bytes of partitions led by this broker that were compared with the other in-sync replicas.",
        _meter("scrubbed_bytes"),
    ),
    Family(
        "penstock_scrub_differences_total",
        MetricKind.COUNTER,
        (),
        "In a cluster: replicas that such a comparison found damaged or different. If more than 0, check the disks.",
        _meter("scrub_differences"),
    ),
    Family(
        "penstock_replica_repairs_total",
        MetricKind.COUNTER,
        (),
        "In a cluster: failed replicas of this broker that were opened again, to copy what is missing from their"
        " leaders.",
        _meter("replica_repairs"),
    ),
)
"""In the order of docs/metrics.md."""
