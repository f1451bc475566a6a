"""Counters and histograms that the node updates in place, on the loop, without locks.

An observation takes less than half a microsecond; hot paths cache their histogram.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from penstock.core.errors import BrokerError
from penstock.core.log.log import Log

REQUEST_BOUNDS_S = (
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
FSYNC_BOUNDS_S = (
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
)  # fmt: skip

ERRORS_SENT: Counter[tuple[str, str]] = Counter()
"""(door, error) → how often it was sent to clients since the process started. Global like the doors' translation
tables, not per node."""


def count_error(door: str, error: BrokerError) -> None:
    """Count an error sent to a client. Called only where a door translates errors."""
    ERRORS_SENT[door, error.code] += 1


class Histogram:
    """Counts of observations by bucket, and their sum."""

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        """Per bucket, not cumulative; the last bucket is unbounded."""
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds_s, seconds)] += 1
        self.sum_s += seconds


class Traffic:
    """Bytes and records in and out of one partition since it was opened. Input is derived from the log's own
    counters."""

    __slots__ = ("_log", "_opened_bytes", "_opened_offset", "out_bytes")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._opened_bytes = log.written_bytes
        self._opened_offset = log.end_offset
        self.out_bytes = 0

    @property
    def in_bytes(self) -> int:
        return self._log.written_bytes - self._opened_bytes

    @property
    def in_records(self) -> int:
        """Assigned offsets, including transaction markers."""
        return self._log.end_offset - self._opened_offset


class DoorMeter:
    """Connections and request times of one door."""

    __slots__ = ("calls", "connections", "opened", "refused")

    def __init__(self) -> None:
        self.connections = 0
        self.opened = 0
        self.refused = 0
        self.calls: dict[str, Histogram] = {}

    def call(self, name: str) -> Histogram:
        """The histogram of one kind of call; look it up once and cache it."""
        found = self.calls.get(name)
        if found is None:
            found = self.calls[name] = Histogram(REQUEST_BOUNDS_S)
        return found


class GossipMeter:
    """Packets of the gossip protocol, and the membership as this node sees it."""

    __slots__ = ("health", "packets", "packets_bytes", "peers", "rejected", "round_trips")

    def __init__(self) -> None:
        self.packets = {"in": 0, "out": 0}
        self.packets_bytes = {"in": 0, "out": 0}
        self.rejected: Counter[str] = Counter()
        """Reason → packets dropped."""
        self.round_trips = Histogram(REQUEST_BOUNDS_S)
        self.peers: dict[str, int] = {}
        """State → peers; empty while gossip is not running."""
        self.health = 0


class LinkMeter:
    """Calls of this node to one other broker."""

    __slots__ = ("bytes", "calls", "errors", "is_open", "round_trips")

    def __init__(self) -> None:
        self.is_open = False
        self.calls = 0
        self.errors: Counter[str] = Counter()
        """Error → calls that failed before the peer answered, by Penstock's name of the error."""
        self.bytes = {"in": 0, "out": 0}
        self.round_trips = Histogram(REQUEST_BOUNDS_S)


class ForwardMeter:
    """What the doors of this node publish to and read from other brokers for their clients."""

    __slots__ = ("batches", "reads", "records", "retries", "waiting_bytes")

    def __init__(self) -> None:
        self.batches = 0
        self.records = 0
        """Those that were acknowledged."""
        self.retries = 0
        self.reads = 0
        self.waiting_bytes = 0
        """Of records that are not acknowledged yet."""


class EtcdMeter:
    """Calls of this node to one endpoint of etcd."""

    __slots__ = ("failures", "is_up", "round_trips")

    def __init__(self) -> None:
        self.is_up = False
        """Whether the last call was answered."""
        self.failures = 0
        self.round_trips = Histogram(REQUEST_BOUNDS_S)


class Meters:
    """All meters of one node."""

    def __init__(self) -> None:
        self.forwards = ForwardMeter()
        self.gossip = GossipMeter()
        self.fsyncs = Histogram(FSYNC_BOUNDS_S)
        self.doors: dict[str, DoorMeter] = {}
        self.links: dict[int, LinkMeter] = {}
        self.copied_bytes = 0
        """Bytes of partitions that were copied from other brokers because replicas were added here."""
        self.replicated_bytes = 0
        """Bytes that this broker has fetched as a follower of other partitions."""
        self.replica_fetches = 0
        """Fetches that this broker has sent as a follower."""
        self.handovers = Histogram(REQUEST_BOUNDS_S)
        """How long partitions accepted no records because they were handed over to other brokers."""
        self.isr_expands = 0
        """How often a replica joined the ISR of a partition that this broker leads."""
        self.isr_shrinks = 0
        self.scrubbed_bytes = 0
        """Bytes of led partitions that were compared with the other replicas."""
        self.scrub_differences = 0
        """Replicas that were found to be damaged or different, in partitions that this broker leads."""
        self.replica_repairs = 0
        """Failed replicas of this broker that were opened again, to copy what is missing from their leaders."""
        self.etcd: dict[str, EtcdMeter] = {}
        """By endpoint."""

    def door(self, name: str) -> DoorMeter:
        return self.doors.setdefault(name, DoorMeter())

    def link(self, broker_id: int) -> LinkMeter:
        """The meter of the calls to one broker."""
        return self.links.setdefault(broker_id, LinkMeter())
