"""Proposes other numbers of replicas for partitions. Changes nothing; the present replicas stay as far as they can.

Replicas are added where the ring puts them, on racks that have none first. They are removed from brokers that are away,
then from the rack that has most of them, then from the fullest broker; the preferred leader is the last to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.core.model import PartitionId
from penstock.core.placement.rebalance import Placements, ReplicaMove
from penstock.core.placement.ring import Ring, RingBroker, load_max, partition_point


def propose_factor(
    brokers: Iterable[RingBroker], placements: Placements, partitions: Sequence[PartitionId], factor: int
) -> list[ReplicaMove]:
    """Moves that give these partitions `factor` replicas; none for those that have as many.

    `brokers` are those that can take replicas. At least `factor` brokers must be among them and the present replicas of
    each partition.
    """
    ring = Ring(brokers)
    known = {one.broker_id: one for one in ring.brokers}
    counts = dict.fromkeys(known, 0)
    for replicas in placements.values():
        for broker_id in replicas:
            if broker_id in counts:
                counts[broker_id] += 1
    added = sum(max(0, factor - len(placements[one])) for one in partitions)
    count_max = load_max(sum(counts.values()) + added, len(known)) if known else 0
    moves = []
    for partition in partitions:
        before = placements[partition]
        chosen = [known.get(one, RingBroker(one, f"broker {one}")) for one in before]
        while len(chosen) < factor:
            chosen.append(ring.next_replica(partition_point(partition), chosen, counts, count_max))
            counts[chosen[-1].broker_id] += 1
        while len(chosen) > factor:
            dropped = _dropped(chosen, counts)
            chosen.remove(dropped)
            if dropped.broker_id in counts:
                counts[dropped.broker_id] -= 1
        after = tuple(one.broker_id for one in chosen)
        if after != before:
            moves.append(ReplicaMove(partition, before, after))
    return moves


def _dropped(chosen: Sequence[RingBroker], counts: dict[int, int]) -> RingBroker:
    racks = [one.rack for one in chosen]

    def rank(one: RingBroker) -> tuple[bool, bool, int, int, int]:
        return (
            one.broker_id not in counts,
            one is not chosen[0],
            racks.count(one.rack),
            counts.get(one.broker_id, 0),
            chosen.index(one),
        )

    return max(chosen, key=rank)
