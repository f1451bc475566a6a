"""Metrics of partitions that move between brokers. A single broker has none of them."""

from __future__ import annotations

from penstock.node.broker import Broker
from penstock.node.metrics.family import Family, MetricKind, Samples


def _moves(broker: Broker) -> Samples:
    if broker.replication is not None:
        copies = broker.replication.following.progress()
        copying = sum(one.is_copying for one in copies)
        yield ("copying",), copying
        yield ("waiting",), len(copies) - copying


def _copied(broker: Broker) -> Samples:
    yield (), None if broker.replication is None else broker.runtime.meters.copied_bytes


def _sizes(broker: Broker) -> Samples:
    if broker.replication is not None:
        for one in broker.replication.following.progress():
            yield (one.topic, str(one.partition)), one.copied_bytes


def _rates(broker: Broker) -> Samples:
    if broker.replication is not None:
        for one in broker.replication.following.progress():
            yield (one.topic, str(one.partition)), round(one.bytes_per_s)


def _left(broker: Broker) -> Samples:
    if broker.replication is not None:
        for one in broker.replication.leading.progress():
            yield (one.topic, str(one.partition)), one.bytes_left


def _handovers(broker: Broker) -> Samples:
    yield (), None if broker.replication is None else broker.runtime.meters.handovers


_PLACE = ("topic", "partition")

MOVE_FAMILIES = (
    Family(
        "penstock_moves",
        MetricKind.GAUGE,
        ("state",),
        "In a cluster: partitions that are being moved to this broker, copying or waiting for their turn.",
        _moves,
    ),
    Family(
        "penstock_move_copied_bytes_total",
        MetricKind.COUNTER,
        (),
        "In a cluster: bytes copied from other brokers for replicas that are added to this one, since the start.",
        _copied,
    ),
    Family(
        "penstock_move_size_bytes",
        MetricKind.GAUGE,
        _PLACE,
        "Size of the copy of a partition that is being moved to this broker.",
        _sizes,
    ),
    Family(
        "penstock_move_bytes_per_second",
        MetricKind.GAUGE,
        _PLACE,
        "Rate of that copy, averaged over a few seconds.",
        _rates,
    ),
    Family(
        "penstock_move_left_bytes",
        MetricKind.GAUGE,
        _PLACE,
        "Bytes of a partition that is being moved away from this broker which are not copied yet.",
        _left,
    ),
    Family(
        "penstock_handover_seconds",
        MetricKind.HISTOGRAM,
        (),
        "In a cluster: time for which a partition accepted no records because it was handed over to another broker,"
        " including attempts that failed.",
        _handovers,
    ),
)
"""In the order of docs/metrics.md."""
