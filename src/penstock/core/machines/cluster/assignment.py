"""The first replicas of new partitions: as the client assigns them, else as the ring proposes. Checks as Kafka does."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import InvalidAssignment, InvalidReplication
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.core.machines.cluster.state import ClusterState, ring_broker
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.placement.ring import Ring, RingBroker, partition_point


def decide_assign(
    cluster: ClusterState,
    topic_id: bytes,
    indexes: range,
    factor: int,
    assignments: Sequence[Sequence[int]] | None = None,
) -> list[PartitionSaved]:
    """Place new partitions of a topic. With explicit assignments `factor` is what the others of the topic have, or 0.

    None on a single node, where no broker is registered.
    """
    if not cluster.has_brokers:
        return []
    if assignments is None:
        replicas = _proposed(cluster, topic_id, indexes, factor)
    else:
        replicas = _assigned(cluster, indexes, factor, assignments)
    return [
        PartitionSaved(_new_partition(cluster, topic_id, index, one))
        for index, one in zip(indexes, replicas, strict=True)
    ]


def check_replicas(cluster: ClusterState, broker_ids: Sequence[int]) -> None:
    """Raise unless these are registered brokers, each once."""
    if not broker_ids:
        raise InvalidAssignment("The manual partition assignment includes an empty replica list.")
    for broker_id in sorted(broker_ids):
        if cluster.find_broker(broker_id) is None:
            raise InvalidAssignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if broker_ids.count(broker_id) > 1:
            raise InvalidAssignment(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )


def _assigned(
    cluster: ClusterState, indexes: range, factor: int, assignments: Sequence[Sequence[int]]
) -> list[tuple[int, ...]]:
    if len(assignments) != len(indexes):
        raise InvalidAssignment(f"{len(assignments)} partitions are assigned, but {len(indexes)} are added")
    for index, broker_ids in zip(indexes, assignments, strict=True):
        check_replicas(cluster, broker_ids)
        factor = factor or len(broker_ids)
        if len(broker_ids) != factor:
            raise InvalidAssignment(
                f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is"
                f" not consistent with previous partitions, which have {factor} replica(s)."
            )
        if not any(map(cluster.can_lead, broker_ids)):
            raise InvalidAssignment(
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in"
                " controlled shutdown."
            )
    return [tuple(broker_ids) for broker_ids in assignments]


def _proposed(cluster: ClusterState, topic_id: bytes, indexes: range, factor: int) -> list[tuple[int, ...]]:
    """As the ring proposes. Where too few brokers are available, fenced ones get the remaining replicas and catch up
    when they are back, so that a topic can be created while a broker restarts."""
    if factor < 1:
        raise InvalidReplication(f"the replication factor is {factor}: it must be larger than 0")
    available = cluster.ring_brokers()
    away = [
        ring_broker(one)
        for one in cluster.brokers
        if not cluster.can_lead(one.broker_id) and not one.is_draining
    ]
    if factor > len(available) + len(away):
        raise InvalidReplication(
            f"The target replication factor of {factor} cannot be reached because only"
            f" {len(available) + len(away)} broker(s) are registered and not drained."
        )
    if not available:
        raise InvalidReplication("All brokers are currently fenced, stopping or drained; start one.")
    load = cluster.load(topic_id)
    proposed = Ring(available).propose(topic_id, indexes, min(factor, len(available)), load)
    if factor <= len(available):
        return proposed
    ring, known = Ring([*available, *away]), {one.broker_id: one for one in [*available, *away]}
    return [
        _filled(ring, [known[one] for one in replicas], PartitionId(topic_id, index), factor, load.replicas)
        for index, replicas in zip(indexes, proposed, strict=True)
    ]


def _filled(
    ring: Ring, chosen: list[RingBroker], partition: PartitionId, factor: int, counts: dict[int, int]
) -> tuple[int, ...]:
    while len(chosen) < factor:
        one = ring.next_replica(partition_point(partition), chosen, counts, 0)
        counts[one.broker_id] = counts.get(one.broker_id, 0) + 1
        chosen.append(one)
    return tuple(one.broker_id for one in chosen)


def _new_partition(
    cluster: ClusterState, topic_id: bytes, index: int, replicas: tuple[int, ...]
) -> PartitionReplicas:
    isr = tuple(one for one in replicas if cluster.can_lead(one))
    return PartitionReplicas(topic_id, index, replicas, isr, leader=isr[0])
