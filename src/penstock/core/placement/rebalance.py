"""Proposes moves of replicas: for a rebalance, for a broker that joins, for a broker that is drained. Changes nothing.

A move replaces a broker in a partition's replicas, or only changes their order, which moves no data. Proposals contain
as few moves as the load bounds allow and never reduce the number of racks of a partition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from penstock.core.model import PartitionId
from penstock.core.placement.ring import (
    POINTS,
    Ring,
    RingBroker,
    broker_points,
    load_max,
    load_min,
    partition_point,
)

Placements = Mapping[PartitionId, tuple[int, ...]]
"""The replicas of every partition, the preferred leader first."""


class ReplicaMove(NamedTuple):
    """New replicas of a partition."""

    partition: PartitionId
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def added(self) -> list[int]:
        """The brokers that must copy the partition."""
        return [broker_id for broker_id in self.after if broker_id not in self.before]


def propose_rebalance(brokers: Iterable[RingBroker], placements: Placements) -> list[ReplicaMove]:
    """Moves after which every broker is within the load bounds, as far as racks allow.

    `brokers` are those that can take part. Replicas on others stay: a broker that is down comes back with its data.
    """
    board = _Board(brokers, placements)
    board.fill(board.broker_ids)
    board.spread_leaders()
    return board.moves()


def propose_join(brokers: Iterable[RingBroker], placements: Placements, broker_id: int) -> list[ReplicaMove]:
    """Moves that give a broker its share: those that the ring assigns to it, from brokers that have most."""
    board = _Board(brokers, placements)
    board.fill([broker_id])
    return board.moves()


def propose_drain(brokers: Iterable[RingBroker], placements: Placements, broker_id: int) -> list[ReplicaMove]:
    """Moves that empty a broker. A partition for which no other broker is left keeps its replica there."""
    board = _Board((one for one in brokers if one.broker_id != broker_id), placements)
    board.empty(broker_id)
    return board.moves()


class _Board:
    """The placements while moves are tried."""

    def __init__(self, brokers: Iterable[RingBroker], placements: Placements) -> None:
        self._ring = Ring(brokers)
        self._brokers = {one.broker_id: one for one in self._ring.brokers}
        self.broker_ids = list(self._brokers)
        self._before = placements
        self._after = dict(sorted(placements.items()))
        self._replicas = dict.fromkeys(self._brokers, 0)
        self._leaders = dict.fromkeys(self._brokers, 0)
        self._held: dict[int, dict[bytes, int]] = {one: {} for one in self._brokers}
        """Replicas per broker and topic."""
        for partition, replicas in self._after.items():
            self._count(partition, replicas, 1)

    def _count(self, partition: PartitionId, replicas: tuple[int, ...], change: int) -> None:
        if replicas[0] in self._leaders:
            self._leaders[replicas[0]] += change
        for broker_id in replicas:
            if broker_id in self._brokers:
                self._replicas[broker_id] += change
                held = self._held[broker_id]
                held[partition.topic_id] = held.get(partition.topic_id, 0) + change

    def _place(self, partition: PartitionId, replicas: tuple[int, ...]) -> None:
        self._count(partition, self._after[partition], -1)
        self._after[partition] = replicas
        self._count(partition, replicas, 1)

    def moves(self) -> list[ReplicaMove]:
        return [
            ReplicaMove(partition, self._before[partition], replicas)
            for partition, replicas in self._after.items()
            if replicas != self._before[partition]
        ]

    # -- balance

    def fill(self, receivers: Collection[int]) -> None:
        """Move replicas from the fullest brokers to the emptiest receivers until all are within the bounds."""
        if not self._brokers:
            return
        total, count = sum(self._replicas.values()), len(self._brokers)
        low, high = load_min(total, count), load_max(total, count)
        exchanges: dict[tuple[int, int], _Exchange] = {}
        while True:
            for giver, receiver in self._pairs(receivers, low, high):
                if (giver, receiver) not in exchanges:
                    exchanges[giver, receiver] = _Exchange(self, giver, receiver)
                partition = exchanges[giver, receiver].next_partition()
                if partition is not None:
                    self._place(partition, self._replaced(partition, giver, receiver))
                    break
            else:
                return

    def _pairs(self, receivers: Collection[int], low: int, high: int) -> Iterator[tuple[int, int]]:
        """Pairs that a move brings closer to the bounds, the most unequal ones first."""
        counts = self._replicas
        givers = sorted(counts, key=lambda one: (-counts[one], one))
        for receiver in sorted(receivers, key=lambda one: (counts[one], one)):
            for giver in givers:
                if counts[giver] - counts[receiver] < 2:
                    break
                if counts[giver] > high or counts[receiver] < low:
                    yield giver, receiver

    def candidates(self, giver: int, receiver: int) -> dict[bytes, list[PartitionId]]:
        """The partitions that may move, by topic; last the one that the ring puts closest to the receiver."""
        points = broker_points(receiver)
        found: dict[bytes, list[tuple[int, PartitionId]]] = {}
        for partition in self._after:
            if self.is_movable(partition, giver, receiver):
                point = partition_point(partition)
                following = points[bisect_left(points, point) % len(points)]
                found.setdefault(partition.topic_id, []).append(((following - point) % POINTS, partition))
        return {topic: [one for _, one in sorted(some, reverse=True)] for topic, some in found.items()}

    def is_movable(self, partition: PartitionId, giver: int, receiver: int) -> bool:
        replicas = self._after[partition]
        if giver not in replicas or receiver in replicas:
            return False
        after = self._replaced(partition, giver, receiver)
        return self._rack_count(after) >= self._rack_count(replicas)

    def surplus(self, topic_id: bytes, giver: int, receiver: int) -> int:
        """How many more replicas of a topic the giver has than the receiver."""
        return self._held[giver].get(topic_id, 0) - self._held[receiver].get(topic_id, 0)

    def _rack_count(self, replicas: tuple[int, ...]) -> int:
        """Distinct racks; a broker that does not take part counts as a rack of its own."""
        return len({self._brokers[one].rack if one in self._brokers else one for one in replicas})

    def _replaced(self, partition: PartitionId, giver: int, receiver: int) -> tuple[int, ...]:
        return tuple(receiver if one == giver else one for one in self._after[partition])

    # -- drain

    def empty(self, broker_id: int) -> None:
        """Replace the broker in every partition that it holds."""
        leaving = [partition for partition, replicas in self._after.items() if broker_id in replicas]
        if not self._brokers:
            return
        count_max = load_max(sum(self._replicas.values()) + len(leaving), len(self._brokers))
        for partition in leaving:
            others = [one for one in self._after[partition] if one != broker_id]
            chosen = [self._brokers.get(one, RingBroker(one, f"broker {one}")) for one in others]
            if any(one not in others for one in self._brokers):
                successor = self._ring.next_replica(
                    partition_point(partition), chosen, self._replicas, count_max
                )
                self._place(partition, self._replaced(partition, broker_id, successor.broker_id))

    # -- leaders

    def spread_leaders(self) -> None:
        """Change the order of replicas where their first broker leads too much; moves no data."""
        if not self._brokers:
            return
        high = load_max(sum(self._leaders.values()), len(self._brokers))
        for partition, replicas in list(self._after.items()):
            leader = replicas[0]
            if self._leaders.get(leader, 0) <= high:
                continue
            others = [one for one in replicas[1:] if one in self._leaders]
            if not others:
                continue
            heir = min(others, key=lambda one: (self._leaders[one], one))
            if self._leaders[heir] + 1 < self._leaders[leader]:
                rest = tuple(one for one in replicas if one != heir)
                self._place(partition, (heir, *rest))


class _Exchange:
    """The partitions that may move between two brokers, those of the most unequal topic first.

    While the giver only gives and the receiver only receives, the surplus of a topic shrinks: an entry of the heap is
    an upper bound and is checked when it comes up.
    """

    def __init__(self, board: _Board, giver: int, receiver: int) -> None:
        self._board, self._giver, self._receiver = board, giver, receiver
        self._by_topic = board.candidates(giver, receiver)
        self._heap = [(-board.surplus(topic, giver, receiver), topic) for topic in self._by_topic]
        heapify(self._heap)

    def next_partition(self) -> PartitionId | None:
        """The next partition to move; None if none is left."""
        while self._heap:
            bound, topic_id = heappop(self._heap)
            surplus = self._board.surplus(topic_id, self._giver, self._receiver)
            partitions = self._by_topic[topic_id]
            if -bound > surplus:
                heappush(self._heap, (-surplus, topic_id))
                continue
            while partitions:
                partition = partitions.pop()
                if self._board.is_movable(partition, self._giver, self._receiver):
                    heappush(self._heap, (bound, topic_id))
                    return partition
        return None
