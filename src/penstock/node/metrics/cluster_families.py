"""Metrics of a broker's place in its cluster: leaders, metadata, sessions, controller, etcd, forwarded calls.

Those that make no sense for a single broker have no value there.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.node.broker import Broker
from penstock.node.metrics.family import Family, MetricKind, Samples
from penstock.node.runtime.meters import ForwardMeter


def _leaders(broker: Broker) -> Samples:
    yield (), sum(one.is_leader for one in broker.partitions())


def _replicas(broker: Broker) -> Samples:
    yield (), len(broker.partitions())


def _metadata_index(broker: Broker) -> Samples:
    yield (), broker.metadata_end


def _metadata_lag(broker: Broker) -> Samples:
    yield (), broker.metadata_lag


def _active(broker: Broker) -> Samples:
    yield (), int(broker.is_online)


def _session(broker: Broker) -> Samples:
    yield (), None if broker.membership is None else int(broker.membership.has_session)


def _live_brokers(broker: Broker) -> Samples:
    yield (), None if broker.controller is None else broker.controller.live_brokers


def _brokers(broker: Broker) -> Samples:
    if broker.membership is not None:
        registered = broker.catalog.cluster.brokers
        fenced = sum(one.is_fenced for one in registered)
        yield ("active",), len(registered) - fenced
        yield ("fenced",), fenced


def _is_controller(broker: Broker) -> Samples:
    yield (), int(broker.is_controller)


def _controller_changes(broker: Broker) -> Samples:
    yield (), None if broker.controller is None else broker.controller.changes


def _etcd_up(broker: Broker) -> Samples:
    for endpoint, meter in sorted(broker.runtime.meters.etcd.items()):
        yield (endpoint,), int(meter.is_up)


def _etcd_failures(broker: Broker) -> Samples:
    for endpoint, meter in sorted(broker.runtime.meters.etcd.items()):
        yield (endpoint,), meter.failures


def _etcd_round_trips(broker: Broker) -> Samples:
    for endpoint, meter in sorted(broker.runtime.meters.etcd.items()):
        yield (endpoint,), meter.round_trips


_ENDPOINT = ("endpoint",)


def _forwards(read: Callable[[ForwardMeter], int]) -> Callable[[Broker], Samples]:
    def samples(broker: Broker) -> Samples:
        yield (), read(broker.runtime.meters.forwards)

    return samples


CLUSTER_FAMILIES = (
    Family("penstock_leaders", MetricKind.GAUGE, (), "Partitions that this broker leads.", _leaders),
    Family("penstock_replicas", MetricKind.GAUGE, (), "Partitions that this broker stores.", _replicas),
    Family(
        "penstock_metadata_index",
        MetricKind.GAUGE,
        (),
        "Events of the metadata log that this broker has applied.",
        _metadata_index,
    ),
    Family(
        "penstock_metadata_lag_events",
        MetricKind.GAUGE,
        (),
        "In a cluster: events that this broker knows to be in the metadata log and has not applied. What is appended"
        " while the store cannot be reached is not known.",
        _metadata_lag,
    ),
    Family(
        "penstock_broker_online",
        MetricKind.GAUGE,
        (),
        "1 if this broker is ready for clients: the metadata log accepts changes, and in a cluster the broker has"
        " joined and is not fenced.",
        _active,
    ),
    Family(
        "penstock_session_alive",
        MetricKind.GAUGE,
        (),
        "In a cluster: 1 while the metadata store knows that this broker is alive. A broker without a session will be"
        " fenced.",
        _session,
    ),
    Family(
        "penstock_live_brokers",
        MetricKind.GAUGE,
        (),
        "In a cluster: brokers whose session is alive, as this broker has heard from the metadata store.",
        _live_brokers,
    ),
    Family(
        "penstock_brokers",
        MetricKind.GAUGE,
        ("state",),
        "In a cluster: registered brokers, active and fenced.",
        _brokers,
    ),
    Family(
        "penstock_controller",
        MetricKind.GAUGE,
        (),
        "1 if this broker is the controller. The sum over all brokers should be 1.",
        _is_controller,
    ),
    Family(
        "penstock_controller_changes_total",
        MetricKind.COUNTER,
        (),
        "In a cluster: how often this broker saw another controller take over.",
        _controller_changes,
    ),
    Family(
        "penstock_etcd_up",
        MetricKind.GAUGE,
        _ENDPOINT,
        "With metadata in etcd: 1 if the last call to this endpoint was answered. Endpoints are used in turn: one that"
        " was not called yet is left out.",
        _etcd_up,
    ),
    Family(
        "penstock_etcd_failures_total",
        MetricKind.COUNTER,
        _ENDPOINT,
        "With metadata in etcd: calls to this endpoint that failed; the next endpoint is tried.",
        _etcd_failures,
    ),
    Family(
        "penstock_etcd_seconds",
        MetricKind.HISTOGRAM,
        _ENDPOINT,
        "With metadata in etcd: time until a call was answered.",
        _etcd_round_trips,
    ),
    Family(
        "penstock_forwarded_batches_total",
        MetricKind.COUNTER,
        (),
        "Batches that the doors of this node sent to other brokers, which lead their partitions; retries included.",
        _forwards(lambda forwards: forwards.batches),
    ),
    Family(
        "penstock_forwarded_records_total",
        MetricKind.COUNTER,
        (),
        "Records in such batches that were acknowledged.",
        _forwards(lambda forwards: forwards.records),
    ),
    Family(
        "penstock_forwarded_retries_total",
        MetricKind.COUNTER,
        (),
        "Batches that were sent again, because the leader was not reached or had changed.",
        _forwards(lambda forwards: forwards.retries),
    ),
    Family(
        "penstock_forwarded_reads_total",
        MetricKind.COUNTER,
        (),
        "Reads of records from other brokers for clients of this node, without the long polls of waiting readers.",
        _forwards(lambda forwards: forwards.reads),
    ),
    Family(
        "penstock_forwards_waiting_bytes",
        MetricKind.GAUGE,
        (),
        "Bytes of records that are not acknowledged by other brokers yet.",
        _forwards(lambda forwards: forwards.waiting_bytes),
    ),
)
