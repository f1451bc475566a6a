"""The registry of metrics: name, kind, labels, meaning, and how to read the values. docs/metrics.md derives from it.

Values are read when metrics are scraped; nothing here is on the path of a request.
"""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Callable
from pathlib import Path

from penstock.core.errors import BrokerError
from penstock.core.limits import GROUP_SAMPLES_MAX
from penstock.core.version import __version__
from penstock.node.broker import Broker
from penstock.node.lag import Lag, lag_of
from penstock.node.metrics.cluster_families import CLUSTER_FAMILIES
from penstock.node.metrics.family import Family, MetricKind, Samples
from penstock.node.metrics.move_families import MOVE_FAMILIES
from penstock.node.metrics.replica_families import REPLICA_FAMILIES
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.meters import ERRORS_SENT

_STATM = Path("/proc/self/statm")


def _build(broker: Broker) -> Samples:
    yield (__version__, platform.python_version(), str(broker.identity.node_id)), 1


def _start_time(broker: Broker) -> Samples:
    yield (), broker.started_ms / 1000


def _uptime(broker: Broker) -> Samples:
    yield (), max(0, broker.runtime.clock.now_ms() - broker.started_ms) / 1000


def _cpu(broker: Broker) -> Samples:
    times = os.times()
    yield (), times.user + times.system


def _resident(broker: Broker) -> Samples:
    """Current resident memory, or its peak where the system does not report the current value."""
    if _STATM.exists():
        yield (), int(_STATM.read_text().split()[1]) * resource.getpagesize()
    else:
        yield (), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _per_topic(read: Callable[[Partition], int]) -> Callable[[Broker], Samples]:
    def samples(broker: Broker) -> Samples:
        for topic in broker.catalog.topics:
            yield (topic.name,), sum(map(read, broker.partitions_of(topic.name)))

    return samples


def _per_partition(read: Callable[[Partition], int]) -> Callable[[Broker], Samples]:
    def samples(broker: Broker) -> Samples:
        for topic in broker.catalog.topics:
            for partition in broker.partitions_of(topic.name):
                yield (topic.name, str(partition.index)), read(partition)

    return samples


def _groups(broker: Broker) -> Samples:
    """Omitted while the coordinator is offline; its partitions are reported as offline."""
    counts: dict[tuple[str, ...], int] = {}
    try:
        for group in broker.group_coordinator.groups.list():
            labels = (group.kind.value, group.state_name)
            counts[labels] = counts.get(labels, 0) + 1
    except BrokerError:
        return
    yield from sorted(counts.items())


def _per_group(read: Callable[[Lag], int | None]) -> Callable[[Broker], Samples]:
    """Omits groups of offline coordinators, as above, and samples beyond the limit: groups times partitions may be
    more than a scraper can handle."""

    def samples(broker: Broker) -> Samples:
        left = GROUP_SAMPLES_MAX
        for shard in broker.group_coordinator.groups.shards:
            for group_id in list(shard.roster.offsets.group_ids):
                try:
                    for lag in lag_of(broker, group_id):
                        left -= 1
                        if left < 0:
                            return
                        yield (group_id, lag.place.topic, str(lag.place.partition)), read(lag)
                except BrokerError:
                    break

    return samples


def _connections(broker: Broker) -> Samples:
    for name, door in sorted(broker.runtime.meters.doors.items()):
        yield (name,), door.connections


def _connections_opened(broker: Broker) -> Samples:
    for name, door in sorted(broker.runtime.meters.doors.items()):
        yield (name,), door.opened


def _connections_refused(broker: Broker) -> Samples:
    for name, door in sorted(broker.runtime.meters.doors.items()):
        yield (name,), door.refused


def _requests(broker: Broker) -> Samples:
    """Calls that were never made are left out: there are many, and each has many lines."""
    for name, door in sorted(broker.runtime.meters.doors.items()):
        for call, histogram in sorted(door.calls.items()):
            if any(histogram.counts):
                yield (name, call), histogram


def _errors(broker: Broker) -> Samples:
    yield from sorted(ERRORS_SENT.items())


def _fsyncs(broker: Broker) -> Samples:
    yield (), broker.runtime.meters.fsyncs


def _gossip_peers(broker: Broker) -> Samples:
    for state, count in broker.runtime.meters.gossip.peers.items():
        yield (state,), count


def _gossip_packets(broker: Broker) -> Samples:
    for direction, count in broker.runtime.meters.gossip.packets.items():
        yield (direction,), count


def _gossip_bytes(broker: Broker) -> Samples:
    for direction, count in broker.runtime.meters.gossip.packets_bytes.items():
        yield (direction,), count


def _gossip_rejected(broker: Broker) -> Samples:
    for reason, count in sorted(broker.runtime.meters.gossip.rejected.items()):
        yield (reason,), count


def _gossip_health(broker: Broker) -> Samples:
    yield (), broker.runtime.meters.gossip.health


def _gossip_round_trips(broker: Broker) -> Samples:
    yield (), broker.runtime.meters.gossip.round_trips


def _links_open(broker: Broker) -> Samples:
    for broker_id, link in sorted(broker.runtime.meters.links.items()):
        yield (str(broker_id),), int(link.is_open)


def _link_calls(broker: Broker) -> Samples:
    for broker_id, link in sorted(broker.runtime.meters.links.items()):
        yield (str(broker_id),), link.calls


def _link_errors(broker: Broker) -> Samples:
    for broker_id, link in sorted(broker.runtime.meters.links.items()):
        for error, count in sorted(link.errors.items()):
            yield (str(broker_id), error), count


def _link_bytes(broker: Broker) -> Samples:
    for broker_id, link in sorted(broker.runtime.meters.links.items()):
        for direction, count in link.bytes.items():
            yield (str(broker_id), direction), count


def _link_round_trips(broker: Broker) -> Samples:
    for broker_id, link in sorted(broker.runtime.meters.links.items()):
        yield (str(broker_id),), link.round_trips


_TOPIC = ("topic",)
_PARTITION = ("topic", "partition")
_GROUP = ("group", "topic", "partition")
_DOOR = ("door",)
_DIRECTION = ("direction",)
_PEER = ("peer",)

FAMILIES = (
    Family(
        "penstock_build_info",
        MetricKind.GAUGE,
        ("version", "python", "node"),
        "Always 1; the labels are the versions in use and the node id.",
        _build,
    ),
    Family("penstock_uptime_seconds", MetricKind.GAUGE, (), "Time since the node was created.", _uptime),
    Family(
        "process_start_time_seconds",
        MetricKind.GAUGE,
        (),
        "When the node was created, as Unix time.",
        _start_time,
    ),
    Family("process_cpu_seconds_total", MetricKind.COUNTER, (), "CPU time used, user and system.", _cpu),
    Family(
        "process_resident_memory_bytes", MetricKind.GAUGE, (), "Resident memory of the process.", _resident
    ),
    Family(
        "penstock_topic_records_in_total",
        MetricKind.COUNTER,
        _TOPIC,
        "Records appended since the start, including transaction markers.",
        _per_topic(lambda one: one.traffic.in_records),
    ),
    Family(
        "penstock_topic_bytes_in_total",
        MetricKind.COUNTER,
        _TOPIC,
        "Bytes of batches appended since the start, as they are stored.",
        _per_topic(lambda one: one.traffic.in_bytes),
    ),
    Family(
        "penstock_topic_bytes_out_total",
        MetricKind.COUNTER,
        _TOPIC,
        "Bytes sent to readers since the start: batches as they are stored, or keys, values and headers where a"
        " protocol sends single messages.",
        _per_topic(lambda one: one.traffic.out_bytes),
    ),
    Family(
        "penstock_partition_start_offset",
        MetricKind.GAUGE,
        _PARTITION,
        "First offset that is still available.",
        _per_partition(lambda one: one.start_offset),
    ),
    Family(
        "penstock_partition_high_watermark",
        MetricKind.GAUGE,
        _PARTITION,
        "High watermark: readers see everything before this offset.",
        _per_partition(lambda one: one.high_watermark),
    ),
    Family(
        "penstock_partition_end_offset",
        MetricKind.GAUGE,
        _PARTITION,
        "Offset of the next record.",
        _per_partition(lambda one: one.end_offset),
    ),
    Family(
        "penstock_partition_size_bytes",
        MetricKind.GAUGE,
        _PARTITION,
        "Size of all segments.",
        _per_partition(lambda one: one.log.size()),
    ),
    Family(
        "penstock_partition_online",
        MetricKind.GAUGE,
        _PARTITION,
        "1 if online, 0 after a disk failure.",
        _per_partition(lambda one: int(one.failure is None)),
    ),
    Family("penstock_groups", MetricKind.GAUGE, ("kind", "state"), "Groups by kind and state.", _groups),
    Family(
        "penstock_group_committed_offset",
        MetricKind.GAUGE,
        _GROUP,
        "Committed offset of a group.",
        _per_group(lambda lag: lag.committed_offset),
    ),
    Family(
        "penstock_group_lag_records",
        MetricKind.GAUGE,
        _GROUP,
        "Lag of a group, in every partition of the topics in which it has committed offsets.",
        _per_group(lambda lag: lag.records if lag.error is None else None),
    ),
    Family("penstock_connections", MetricKind.GAUGE, _DOOR, "Open connections.", _connections),
    Family(
        "penstock_connections_opened_total",
        MetricKind.COUNTER,
        _DOOR,
        "Connections accepted.",
        _connections_opened,
    ),
    Family(
        "penstock_connections_refused_total",
        MetricKind.COUNTER,
        _DOOR,
        "Connections closed because of a limit.",
        _connections_refused,
    ),
    Family(
        "penstock_request_seconds",
        MetricKind.HISTOGRAM,
        ("door", "call"),
        "Time from the last byte of a request to its response, including waits for the disk and for data.",
        _requests,
    ),
    Family(
        "penstock_errors_total",
        MetricKind.COUNTER,
        ("door", "error"),
        "Errors sent to clients, by Penstock's name of the error.",
        _errors,
    ),
    Family(
        "penstock_fsync_seconds",
        MetricKind.HISTOGRAM,
        (),
        "Duration of one flush of a partition; all requests that wait for it share it.",
        _fsyncs,
    ),
    *CLUSTER_FAMILIES,
    *REPLICA_FAMILIES,
    *MOVE_FAMILIES,
    Family(
        "penstock_link_open",
        MetricKind.GAUGE,
        _PEER,
        "1 while the link to this broker is open. Links are opened on demand and closed when they are idle.",
        _links_open,
    ),
    Family(
        "penstock_link_calls_total",
        MetricKind.COUNTER,
        _PEER,
        "Calls to another broker.",
        _link_calls,
    ),
    Family(
        "penstock_link_errors_total",
        MetricKind.COUNTER,
        ("peer", "error"),
        "Calls that another broker did not answer: PeerUnavailable if they were not sent, TimedOut if their outcome is"
        " unknown, Throttled if too many were in flight.",
        _link_errors,
    ),
    Family(
        "penstock_link_bytes_total",
        MetricKind.COUNTER,
        ("peer", "direction"),
        "Bytes of requests sent to another broker and of its responses.",
        _link_bytes,
    ),
    Family(
        "penstock_link_round_trip_seconds",
        MetricKind.HISTOGRAM,
        _PEER,
        "Time from a call to another broker to its response, including the waits of that broker.",
        _link_round_trips,
    ),
    Family(
        "penstock_gossip_peers",
        MetricKind.GAUGE,
        ("state",),
        "Peers by state as this node sees them, itself included. A hint:"
        " the metadata log decides who is in the cluster.",
        _gossip_peers,
    ),
    Family(
        "penstock_gossip_packets_total",
        MetricKind.COUNTER,
        _DIRECTION,
        "Gossip packets received and sent.",
        _gossip_packets,
    ),
    Family(
        "penstock_gossip_bytes_total",
        MetricKind.COUNTER,
        _DIRECTION,
        "Bytes of gossip packets received and sent.",
        _gossip_bytes,
    ),
    Family(
        "penstock_gossip_rejected_total",
        MetricKind.COUNTER,
        ("reason",),
        "Gossip packets dropped: size, protocol, version, signature, cluster, malformed, replay, or rate if too many"
        " bad ones arrived.",
        _gossip_rejected,
    ),
    Family(
        "penstock_gossip_local_health",
        MetricKind.GAUGE,
        (),
        "0 if this node answers in time; up to 7 if its own slowness may be why it sees failures.",
        _gossip_health,
    ),
    Family(
        "penstock_gossip_probe_seconds",
        MetricKind.HISTOGRAM,
        (),
        "Time until a probe of a peer was answered, directly or through another peer.",
        _gossip_round_trips,
    ),
)
