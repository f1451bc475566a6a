"""The cluster as this broker sees it: brokers, partitions, ring and gossip. Read-only; for people and tools.

A single broker answers the same questions about itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import UnknownTopic
from penstock.core.gossip.peer import GossipPeer, controller_hint
from penstock.core.machines.cluster.health import (
    SINGLE_OFFLINE,
    SINGLE_ONLINE,
    PartitionHealth,
    health_of,
    isr_size_min_of,
    last_known_of,
)
from penstock.core.machines.cluster.values import KAFKA_LISTENER, NO_LEADER, BrokerRegistration
from penstock.core.model import Address, PartitionId
from penstock.core.placement.ring import SLACK_PERCENT, VNODES, BrokerLoad, Ring, RingBroker, load_max
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.runtime.slices import Sliced
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.cluster import ClusterVerbs
from penstock.node.waist.topics import PartitionState, TopicVerbs

PARTITIONS_PER_UNIT = 8
"""Partitions that can be counted in one unit of sliced work."""


class BrokerOverview(NamedTuple):
    """A registered broker."""

    id: int
    addresses: Mapping[str, Address]
    rack: str
    epoch: int
    is_fenced: bool
    is_stopping: bool
    is_draining: bool
    has_session: bool
    leaders: int
    """Partitions that it leads."""
    replicas: int


class ClusterOverview(NamedTuple):
    """The cluster at one metadata index."""

    cluster_id: str
    broker_id: int
    """Who says so."""
    controller_id: int
    controller_epoch: int
    metadata_index: int
    partitions: int
    offline_partitions: int
    under_replicated_partitions: int
    under_min_isr_partitions: int
    brokers: Sequence[BrokerOverview]


class HealthFilter(NamedTuple):
    """The partitions that are wanted: those with one of these problems, or all if none is named."""

    is_offline: bool = False
    is_under_replicated: bool = False
    is_under_min_isr: bool = False
    is_at_min_isr: bool = False

    def takes(self, health: PartitionHealth) -> bool:
        return not any(self) or any(wanted and found for wanted, found in zip(self, health, strict=True))


EVERY_HEALTH = HealthFilter()


class PlacedPartition(NamedTuple):
    """A partition, where its replicas are, and the changes in progress."""

    topic: str
    state: PartitionState
    health: PartitionHealth
    isr_size_min: int
    """In-sync replicas that writes with acks=all need."""
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    """Replicas that may lead although they left the ISR: it was below its minimum then."""
    last_known: tuple[int, ...] = ()
    """Who led last, while nobody does."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class RingShare(NamedTuple):
    """One broker on the ring. A broker that takes no new replicas has no share."""

    id: int
    rack: str
    share: float
    leaders: int
    """Partitions whose preferred leader it is."""
    replicas: int
    is_candidate: bool


class RingOverview(NamedTuple):
    """What the placement of new partitions counts with."""

    vnodes: int
    slack_percent: int
    leaders_max: int
    """The most that one broker should have."""
    replicas_max: int
    brokers: Sequence[RingShare]


class GossipOverview(NamedTuple):
    """What this broker hears of the others. Empty if gossip is off."""

    broker_id: int
    is_on: bool
    health: int
    controller_id: int
    peers: Sequence[GossipPeer]


class OverviewVerbs:
    """Describes the cluster."""

    def __init__(
        self, broker: Broker, authorization: Authorization, cluster: ClusterVerbs, topics: TopicVerbs
    ) -> None:
        self._broker = broker
        self._authorization = authorization
        self._cluster = cluster
        self._topics = topics

    def cluster(self, session: Session) -> Sliced[ClusterOverview]:
        """All brokers and how much each of them holds."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        broker, state = self._broker, self._broker.catalog.cluster
        leaders, replicas, total = dict[int, int](), dict[int, int](), 0
        counts = [0] * len(PartitionHealth._fields)
        for topic in list(broker.catalog.topics):
            placed, isr_size_min = state.partitions_of(topic.id), state.isr_size_min(topic.id)
            for one in placed:
                health = health_of(one, isr_size_min, state)
                counts = [count + found for count, found in zip(counts, health, strict=True)]
                if not health.is_offline:
                    leaders[one.leader] = leaders.get(one.leader, 0) + 1
                for broker_id in one.replicas:
                    replicas[broker_id] = replicas.get(broker_id, 0) + 1
            total += len(placed)
            yield 1 + len(placed) // PARTITIONS_PER_UNIT
        brokers = [self._registered(one, leaders, replicas) for one in state.brokers]
        if not brokers:
            held = broker.partitions()
            total, offline = len(held), sum(one.failure is not None for one in held)
            counts = [offline] * len(counts)
            brokers = [self._alone(total - offline, total)]
        offline, under_replicated, under_min_isr, _ = counts
        return ClusterOverview(
            broker.identity.cluster_id,
            broker.identity.node_id,
            broker.controller_id,
            broker.metadata_epoch,
            broker.metadata_end,
            total,
            offline,
            under_replicated,
            under_min_isr,
            brokers,
        )

    def _registered(
        self, one: BrokerRegistration, leaders: Mapping[int, int], replicas: Mapping[int, int]
    ) -> BrokerOverview:
        controller = self._broker.controller
        return BrokerOverview(
            one.broker_id,
            one.listeners,
            one.rack,
            one.epoch,
            one.is_fenced,
            one.is_stopping,
            one.is_draining,
            controller is not None and controller.has_session(one),
            leaders.get(one.broker_id, 0),
            replicas.get(one.broker_id, 0),
        )

    def _alone(self, leaders: int, replicas: int) -> BrokerOverview:
        broker = self._broker
        addresses = broker.listeners or {KAFKA_LISTENER: self._cluster.advertised}
        return BrokerOverview(
            broker.identity.node_id,
            addresses,
            broker.settings.rack,
            broker.identity.run_epoch,
            is_fenced=False,
            is_stopping=False,
            is_draining=False,
            has_session=True,
            leaders=leaders,
            replicas=replicas,
        )

    def partitions(
        self, session: Session, wanted: HealthFilter = EVERY_HEALTH, *, with_internal: bool = False
    ) -> Iterator[PlacedPartition]:
        """The partitions of all topics that the caller may describe, one by one. A topic that is deleted meanwhile is
        left out."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        topics = self._topics.all(session)
        names = [one.name for one in topics if with_internal or not one.internal]
        return (
            one for name in names for one in self._partitions_of(session, name) if wanted.takes(one.health)
        )

    def _partitions_of(self, session: Session, name: str) -> Iterator[PlacedPartition]:
        catalog = self._broker.catalog
        found = catalog.find(name)
        if found is None:
            return
        cluster, isr_size_min = catalog.cluster, catalog.cluster.isr_size_min(found.id)
        try:
            for state in self._topics.states(session, name):
                placed = cluster.find_partition(PartitionId(found.id, state.partition))
                if placed is None:
                    health = SINGLE_OFFLINE if state.leader_id == NO_LEADER else SINGLE_ONLINE
                    yield PlacedPartition(name, state, health, 1)
                    continue
                health = health_of(placed, isr_size_min, cluster)
                yield PlacedPartition(
                    name,
                    state,
                    health._replace(is_offline=state.leader_id == NO_LEADER),
                    isr_size_min_of(placed, isr_size_min),
                    placed.partition_epoch,
                    placed.elr,
                    last_known_of(placed),
                    placed.adding,
                    placed.removing,
                )
        except UnknownTopic:
            return

    def ring(self, session: Session) -> RingOverview:
        """Share, load and bound of every broker."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        broker, state = self._broker, self._broker.catalog.cluster
        load = state.load(b"")
        known, candidates = state.brokers, state.ring_brokers()
        racks = {one.broker_id: one.rack for one in known}
        if not known:
            own_id, held = broker.identity.node_id, len(broker.partitions())
            racks, candidates = {own_id: broker.settings.rack}, [RingBroker(own_id, broker.settings.rack)]
            load = BrokerLoad({own_id: held}, {own_id: held})
        shares = Ring(candidates).shares()

        def bound(counts: Mapping[int, int]) -> int:
            return load_max(sum(counts.get(one, 0) for one in shares), len(shares)) if shares else 0

        return RingOverview(
            VNODES,
            SLACK_PERCENT,
            bound(load.leaders),
            bound(load.replicas),
            [
                RingShare(
                    broker_id,
                    rack,
                    shares.get(broker_id, 0.0),
                    load.leaders.get(broker_id, 0),
                    load.replicas.get(broker_id, 0),
                    broker_id in shares,
                )
                for broker_id, rack in racks.items()
            ],
        )

    def gossip(self, session: Session) -> GossipOverview:
        """This broker's view of its peers, itself included. Hints: the metadata log decides who is in the cluster."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        broker = self._broker
        host = broker.gossip
        peers = [] if host is None else host.peers
        hint = controller_hint(peers)
        return GossipOverview(
            broker.identity.node_id,
            host is not None,
            broker.runtime.meters.gossip.health,
            NO_LEADER if hint is None else hint.id,
            peers,
        )
