"""The consistent hashing ring: proposes brokers for new partitions. What the metadata log stores is what counts.

Each broker owns `VNODES` points of a ring of 64-bit hashes. A partition starts at the hash of its topic id and number
and takes the next brokers clockwise that are below their load bound, each on another rack as long as there is one. The
proposal depends on the arguments only, not on their order or on the process. rebalance.py proposes moves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from penstock.core.model import PartitionId

VNODES = 128
"""Points per broker. With few partitions more of them do not help, only the load bound does."""

SLACK_PERCENT = 5
"""How far a broker may be above the mean before the next one on the ring is taken."""

POINTS = 2**64
"""Size of the ring."""

_POINT_BYTES = 8
_POINTS_PER_DIGEST = 8


class RingBroker(NamedTuple):
    """A broker that may hold replicas. Brokers of one rack fail together; by default the rack is the machine."""

    broker_id: int
    rack: str


@dataclass(slots=True)
class BrokerLoad:
    """Preferred leaders and replicas per broker, of all topics and of the topic that is placed."""

    leaders: dict[int, int] = field(default_factory=dict)
    replicas: dict[int, int] = field(default_factory=dict)
    topic_leaders: dict[int, int] = field(default_factory=dict)


def load_max(total: int, broker_count: int) -> int:
    """The most that one of `broker_count` brokers may hold of `total`.

    Exact while the slack is less than one per broker, so that a topic of ten partitions is spread evenly over five
    brokers.
    """
    if total * SLACK_PERCENT < 100 * broker_count:
        return -(-total // broker_count)
    return -(-total * (100 + SLACK_PERCENT) // (100 * broker_count))


def load_min(total: int, broker_count: int) -> int:
    """The least that one of `broker_count` brokers should hold of `total`; below it a rebalance gives it more."""
    if total * SLACK_PERCENT < 100 * broker_count:
        return total // broker_count
    return total * (100 - SLACK_PERCENT) // (100 * broker_count)


def partition_point(partition: PartitionId) -> int:
    """Where the partition starts on the ring."""
    block, place = divmod(partition.partition, _POINTS_PER_DIGEST)
    return _points(partition.topic_id + block.to_bytes(4, "big"))[place]


@lru_cache(maxsize=1024)
def broker_points(broker_id: int) -> tuple[int, ...]:
    """The points that a broker owns, sorted."""
    blocks = range(VNODES // _POINTS_PER_DIGEST)
    return tuple(sorted(point for block in blocks for point in _points(f"{broker_id}/{block}".encode())))


@lru_cache(maxsize=1024)
def _points(key: bytes) -> tuple[int, ...]:
    """Eight points from one digest, which costs as much as one."""
    digest = blake2b(key, digest_size=_POINT_BYTES * _POINTS_PER_DIGEST).digest()
    starts = range(0, len(digest), _POINT_BYTES)
    return tuple(int.from_bytes(digest[start : start + _POINT_BYTES], "big") for start in starts)


class Ring:
    """The points of some brokers."""

    def __init__(self, brokers: Iterable[RingBroker]) -> None:
        self.brokers = tuple(sorted(set(brokers)))
        owned = sorted(
            (point, broker) for broker in self.brokers for point in broker_points(broker.broker_id)
        )
        self._points = [point for point, _ in owned]
        self._owners = [broker for _, broker in owned]

    def walk(self, point: int) -> Iterator[RingBroker]:
        """All brokers, each once, in the order in which they follow the point."""
        start, seen = bisect_left(self._points, point), set[int]()
        for place in range(start, start + len(self._owners)):
            broker = self._owners[place % len(self._owners)]
            if broker.broker_id not in seen:
                seen.add(broker.broker_id)
                yield broker
                if len(seen) == len(self.brokers):
                    return

    def shares(self) -> dict[int, float]:
        """The part of the ring, from 0 to 1, whose points each broker is the first to follow."""
        owned = dict.fromkeys((broker.broker_id for broker in self.brokers), 0)
        for place, (point, broker) in enumerate(zip(self._points, self._owners, strict=True)):
            earlier = self._points[place - 1] if place else self._points[-1] - POINTS
            owned[broker.broker_id] += point - earlier
        return {broker_id: count / POINTS for broker_id, count in owned.items()}

    def propose(
        self, topic_id: bytes, indexes: Sequence[int], factor: int, load: BrokerLoad
    ) -> list[tuple[int, ...]]:
        """Replicas for new partitions of a topic, the preferred leader first; `load` counts them afterwards."""
        assert 1 <= factor <= len(self.brokers), (factor, len(self.brokers))
        points = [partition_point(PartitionId(topic_id, index)) for index in indexes]
        # Leaders first: followers can then make up for brokers that lead little, which is not possible the other way.
        leaders = self._propose_leaders(points, load)
        total = self._total(load.replicas)
        proposed = []
        for point, leader in zip(points, leaders, strict=True):
            replicas = [leader]
            # The bound grows with the replicas: brokers that are full early would leave too few for the last ones.
            total += factor - 1
            count_max = load_max(total, len(self.brokers))
            while len(replicas) < factor:
                replicas.append(self.next_replica(point, replicas, load.replicas, count_max))
            proposed.append(tuple(broker.broker_id for broker in replicas))
            for broker_id in proposed[-1][1:]:
                load.replicas[broker_id] = load.replicas.get(broker_id, 0) + 1
        return proposed

    def _propose_leaders(self, points: Sequence[int], load: BrokerLoad) -> list[RingBroker]:
        leaders_max = self._load_max(load.leaders, len(points))
        topic_max = self._load_max(load.topic_leaders, len(points))

        def has_room(broker: RingBroker) -> bool:
            is_below_topic = load.topic_leaders.get(broker.broker_id, 0) < topic_max
            return is_below_topic and load.leaders.get(broker.broker_id, 0) < leaders_max

        def rank(broker: RingBroker) -> tuple[bool, int]:
            is_full = load.topic_leaders.get(broker.broker_id, 0) >= topic_max
            return is_full, load.leaders.get(broker.broker_id, 0)

        leaders = []
        for point in points:
            leader = _first_with_room(self.walk(point), has_room, rank)
            for counts in (load.leaders, load.topic_leaders, load.replicas):
                counts[leader.broker_id] = counts.get(leader.broker_id, 0) + 1
            leaders.append(leader)
        return leaders

    def next_replica(
        self, point: int, chosen: Sequence[RingBroker], counts: Mapping[int, int], count_max: int
    ) -> RingBroker:
        """One more replica beside the chosen ones: on the rack that has the fewest of them, then by load."""
        taken = {broker.broker_id for broker in chosen}
        per_rack = dict.fromkeys((broker.rack for broker in self.brokers if broker.broker_id not in taken), 0)
        for broker in chosen:
            if broker.rack in per_rack:
                per_rack[broker.rack] += 1
        fewest = min(per_rack.values())
        return _first_with_room(
            (
                broker
                for broker in self.walk(point)
                if broker.broker_id not in taken and per_rack[broker.rack] == fewest
            ),
            lambda broker: counts.get(broker.broker_id, 0) < count_max,
            lambda broker: counts.get(broker.broker_id, 0),
        )

    def _load_max(self, counts: Mapping[int, int], added: int) -> int:
        return load_max(self._total(counts) + added, len(self.brokers))

    def _total(self, counts: Mapping[int, int]) -> int:
        return sum(counts.get(broker.broker_id, 0) for broker in self.brokers)


def _first_with_room(
    brokers: Iterable[RingBroker],
    has_room: Callable[[RingBroker], bool],
    rank: Callable[[RingBroker], tuple[int, ...] | int],
) -> RingBroker:
    """The first broker with room; if all are full, the one of the lowest rank, again the first of several."""
    passed = []
    for broker in brokers:
        if has_room(broker):
            return broker
        passed.append(broker)
    return min(passed, key=rank)
