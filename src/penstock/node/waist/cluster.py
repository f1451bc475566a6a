"""Cluster verbs: brokers, features, quorum, disks, health and metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation, topic_resource
from penstock.core.errors import InvalidRequest, UnknownBroker
from penstock.core.features import FeatureUpdate
from penstock.core.machines.cluster.brokers import decide_unregister
from penstock.core.machines.cluster.health import last_known_of
from penstock.core.machines.cluster.values import KAFKA_LISTENER, BrokerRegistration
from penstock.core.model import PartitionId
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.connections.addresses import Address
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.changes import Changes
from penstock.node.waist.routes import Routes


class BrokerEndpoint(NamedTuple):
    """A broker and its advertised address."""

    id: int
    host: str
    port: int
    rack: str | None = None
    """Its failure domain; None if it has none of that name."""


class EligibleLeaders(NamedTuple):
    """Replicas of a partition that are not in sync and may lead it: those that left the ISR while it was below its
    minimum, and the last leader while there is none."""

    eligible_leader_replicas: list[int]
    last_known_elr: list[int]


class ClusterDescription(NamedTuple):
    """Id, controller and brokers of the cluster."""

    cluster_id: str
    controller_id: int
    brokers: list[BrokerEndpoint]


class FinalizedFeatures(NamedTuple):
    """The finalized feature levels; `epoch` increases when they change."""

    levels: Mapping[str, int]
    epoch: int


class Quorum(NamedTuple):
    """The state of the metadata log; its only voter leads it."""

    leader_id: int
    leader_epoch: int
    end_offset: int
    now_ms: int


class LogDirectory(NamedTuple):
    """The data directory and the space on its file system."""

    path: str
    total_bytes: int
    usable_bytes: int


class ReplicaSize(NamedTuple):
    """The size of a partition on this broker, and the records that it lacks while it is copied from another."""

    size_bytes: int
    lag: int


class Readiness(NamedTuple):
    """Whether topics can be created and used, and the offline partitions that the caller may describe."""

    is_online: bool
    offline_partitions: list[str]
    reason: str = ""
    """Why it is not online."""
    has_session: bool | None = None
    """Whether the metadata store knows that this broker is alive; None for a single broker."""


class ClusterVerbs:
    """Answers questions about the cluster."""

    def __init__(self, broker: Broker, authorization: Authorization, routes: Routes) -> None:
        self._broker = broker
        self._authorization = authorization
        self._routes = routes
        self._changes = Changes(broker)
        self.advertised = Address(broker.settings.host, broker.settings.port)
        """The advertised address; set by the Kafka door once it listens."""

    @property
    def has_suspects(self) -> bool:
        """Whether a broker that is called a leader may be dead."""
        controller = self._broker.controller
        return controller is not None and controller.probes.has_suspects

    async def suspense(self, session: Session) -> None:
        """Wait a moment until others lead instead of a broker that has just died. Clients that are told of the dead one
        may take a second before they ask again."""
        if self._broker.controller is not None:
            await self._broker.controller.probes.suspense()

    def describe(self, session: Session, *, with_leaving: bool = False) -> ClusterDescription:
        """No permission required: every client needs to know where to connect. `with_leaving` includes brokers that
        were fenced just now."""
        cluster_id, brokers = self._broker.identity.cluster_id, self._broker.catalog.cluster.brokers
        endpoints = [
            BrokerEndpoint(one.broker_id, *one.listeners[KAFKA_LISTENER], one.rack or None)
            for one in brokers
            if not one.is_fenced or (with_leaving and self._is_leaving(one))
        ]
        return ClusterDescription(cluster_id, self._broker.controller_id, endpoints or [self.endpoint])

    def _is_leaving(self, broker: BrokerRegistration) -> bool:
        controller = self._broker.controller
        return controller is not None and controller.is_leaving(broker)

    @property
    def endpoint(self) -> BrokerEndpoint:
        """This broker."""
        return BrokerEndpoint(
            self._broker.identity.node_id, *self.advertised, self._broker.settings.rack or None
        )

    def find(self, session: Session, broker_id: int) -> BrokerEndpoint | None:
        """A broker that is running; None if it is unknown or fenced."""
        if broker_id == self._broker.identity.node_id:
            return self.endpoint
        found = self._broker.catalog.cluster.find_broker(broker_id)
        if found is None or found.is_fenced:
            return None
        return BrokerEndpoint(broker_id, *found.listeners[KAFKA_LISTENER], found.rack or None)

    def eligible(self, session: Session, topic: str, index: int) -> EligibleLeaders:
        """Who may lead a partition although it is not in sync; nobody on a single node."""
        self._authorization.authorize_topic(session, Operation.DESCRIBE, topic)
        placed = self._broker.catalog.cluster.find_partition(
            PartitionId(self._broker.catalog.topic(topic).id, index)
        )
        if placed is None:
            return EligibleLeaders([], [])
        return EligibleLeaders(list(placed.elr), list(last_known_of(placed)))

    # -- features

    def features(self, session: Session) -> FinalizedFeatures:
        """No permission required: clients choose their protocol by the features."""
        return FinalizedFeatures(self._broker.catalog.features, self._broker.metadata_end)

    async def update_features(
        self, session: Session, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> None:
        """Change feature levels atomically."""
        self._authorization.authorize(session, Operation.ALTER, CLUSTER)
        node_id = self._broker.identity.node_id
        changed = await self._changes.commit(
            [lambda catalog: catalog.decide_update_features(updates, node_id)], validate_only=validate_only
        )
        (error,) = changed.errors
        if error is not None:
            raise error

    # -- quorum and members

    def quorum(self, session: Session) -> Quorum:
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        broker = self._broker
        now_ms = broker.runtime.clock.now_ms()
        return Quorum(broker.controller_id, broker.metadata_epoch, broker.metadata_end, now_ms)

    async def unregister(self, session: Session, broker_id: int) -> None:
        """Unregister a broker that is stopped and empty; the only one cannot be unregistered."""
        self._authorization.authorize(session, Operation.ALTER, CLUSTER)
        cluster, own_id = self._broker.catalog.cluster, self._broker.identity.node_id
        if broker_id not in ([one.broker_id for one in cluster.brokers] if cluster.has_brokers else [own_id]):
            raise UnknownBroker(f"Broker ID {broker_id} is not currently registered")
        if cluster.has_brokers:
            await self._broker.change(lambda catalog: decide_unregister(catalog.cluster, broker_id))
            return
        raise InvalidRequest(
            f"broker {broker_id} is the only broker of this cluster and cannot be unregistered"
        )

    # -- disks

    def log_directory(self, session: Session) -> LogDirectory:
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        return LogDirectory(self._broker.data_directory, *self._broker.runtime.files.space())

    def replica_size(self, session: Session, topic: str, index: int) -> ReplicaSize | None:
        """Size of a partition in the log directory; None if it is not stored here."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        found = self._broker.catalog.find(topic)
        held = None if found is None or index < 0 else self._broker.find_held(PartitionId(found.id, index))
        if held is None:
            return None
        replication = self._broker.replication
        lag = 0 if replication is None else replication.following.lag_of(PartitionId(held.topic_id, index))
        return ReplicaSize(held.log.size(), lag)

    # -- health

    def readiness(self, session: Session) -> Readiness:
        """No permission required: health checks are not authenticated."""
        offline = [
            str(one)
            for one in self._broker.partitions()
            if one.failure is not None
            and self._authorization.allows(session, Operation.DESCRIBE, topic_resource(one.topic))
        ]
        broker = self._broker
        has_session = None if broker.membership is None else broker.membership.has_session
        return Readiness(broker.is_online, offline, broker.unready_reason, has_session)

    def metrics(self, session: Session) -> Iterator[bytes]:
        """All metrics in Prometheus' text format, piece by piece."""
        from penstock.node.metrics.exposition import render

        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        return render(self._broker)
