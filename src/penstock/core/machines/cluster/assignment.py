"""The first replicas of new partitions: as the client assigns them, else as the ring proposes. Checks as Kafka does."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import InvalidAssignment, InvalidReplication
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.core.machines.cluster.state import ClusterState, ring_broker
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.placement.ring import Ring, RingBroker, partition_point

AUTOMATIC_FACTOR = 0
"""The configured replication factor that leaves the choice to the cluster."""
FACTOR_MAX = 3
"""The highest replication factor that the cluster chooses by itself."""


def default_factor(cluster: ClusterState, configured: int) -> int:
    """The replication factor of topics that are created without one: as configured, else one replica per rack, at most
    three. More replicas on one machine would protect from the end of a process only."""
    if configured != AUTOMATIC_FACTOR:
        return configured
    racks = {ring_broker(one).rack for one in cluster.brokers if not one.is_draining}
    return min(FACTOR_MAX, max(1, len(racks)))


def shares_rack(cluster: ClusterState, replicas: Sequence[int]) -> bool:
    """Whether several of these replicas are on one machine, or in another common failure domain."""
    racks = [ring_broker(one).rack for one in map(cluster.find_broker, replicas) if one is not None]
    return len(set(racks)) < len(racks)


def more_replicas(
    cluster: ClusterState, partitions: Sequence[PartitionReplicas], factor: int
) -> list[tuple[PartitionReplicas, tuple[int, ...]]]:
    """Of these partitions of one topic, those that can get more replicas on available brokers, up to this factor, and
    their replicas then."""
    available = cluster.ring_brokers()
    sizes = {
        one.partition: min(factor, len({*one.target, *(broker.broker_id for broker in available)}))
        for one in partitions
    }
    partitions = [one for one in partitions if len(one.target) < sizes[one.partition]]
    if not partitions:
        return []
    ring, counts = Ring(available), cluster.load(partitions[0].topic_id).replicas
    found = []
    for one in partitions:
        present = [ring_broker(cluster.broker(broker_id)) for broker_id in one.target]
        found.append((one, _filled(ring, present, one.id, sizes[one.partition], counts)))
    return found


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
