"""The cluster as clients see it: its brokers, features, quorum, disks, health and metrics. A cluster of one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation, topic_resource
from penstock.core.errors import InvalidRequest, UnknownBroker, UnknownTopic
from penstock.core.features import FeatureUpdate
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.connections.addresses import Address
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.changes import Changes
from penstock.node.waist.routes import Routes


class BrokerEndpoint(NamedTuple):
    """A broker and where clients reach it."""

    id: int
    host: str
    port: int


class ClusterDescription(NamedTuple):
    """Who is in the cluster."""

    cluster_id: str
    controller_id: int
    brokers: list[BrokerEndpoint]


class FinalizedFeatures(NamedTuple):
    """The levels of features that are in force; `epoch` goes up when they change."""

    levels: Mapping[str, int]
    epoch: int


class Quorum(NamedTuple):
    """The state of the metadata log. Its only voter leads it."""

    leader_id: int
    leader_epoch: int
    end_offset: int
    now_ms: int


class LogDirectory(NamedTuple):
    """The data directory and the space on its file system."""

    path: str
    total_bytes: int
    usable_bytes: int


class Readiness(NamedTuple):
    """Whether topics can be created and used, and the partitions that are offline, as far as the caller may know."""

    is_online: bool
    offline_partitions: list[str]


class ClusterVerbs:
    """Answers questions about the cluster."""

    def __init__(self, broker: Broker, authorization: Authorization, routes: Routes) -> None:
        self._broker = broker
        self._authorization = authorization
        self._routes = routes
        self._changes = Changes(broker)
        self.advertised = Address(broker.settings.host, broker.settings.port)
        """Where clients are told to connect to; the Kafka door says so once it listens."""

    def describe(self, session: Session) -> ClusterDescription:
        """Open to every client: it has to know where to connect to."""
        identity = self._broker.identity
        return ClusterDescription(identity.cluster_id, identity.node_id, [self.endpoint])

    @property
    def endpoint(self) -> BrokerEndpoint:
        """This broker."""
        return BrokerEndpoint(self._broker.identity.node_id, *self.advertised)

    # -- features

    def features(self, session: Session) -> FinalizedFeatures:
        """Open to every client: it chooses its protocol by them."""
        return FinalizedFeatures(self._broker.catalog.features, self._broker.metadata_end)

    async def update_features(
        self, session: Session, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> None:
        """Choose levels of features, all of them or none."""
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
        broker, identity = self._broker, self._broker.identity
        now_ms = broker.runtime.clock.now_ms()
        return Quorum(identity.node_id, broker.metadata_epoch, broker.metadata_end, now_ms)

    def unregister(self, session: Session, broker_id: int) -> None:
        """Remove a broker from the cluster; the only one stays."""
        self._authorization.authorize(session, Operation.ALTER, CLUSTER)
        if broker_id != self._broker.identity.node_id:
            raise UnknownBroker(f"Broker ID {broker_id} is not currently registered")
        raise InvalidRequest(f"broker {broker_id} is the only broker of this cluster, so it stays registered")

    # -- disks

    def log_directory(self, session: Session) -> LogDirectory:
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        return LogDirectory(self._broker.data_directory, *self._broker.runtime.files.space())

    def partition_bytes(self, session: Session, topic: str, index: int) -> int | None:
        """What a partition takes up in the log directory; None if there is no such partition."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        try:
            return self._routes.partition(topic, index).log.size()
        except UnknownTopic:
            return None

    # -- health

    def readiness(self, session: Session) -> Readiness:
        """Open to every client: what watches a broker has no identity."""
        offline = [
            str(one)
            for one in self._broker.partitions()
            if one.failure is not None
            and self._authorization.allows(session, Operation.DESCRIBE, topic_resource(one.topic))
        ]
        return Readiness(self._broker.is_online, offline)

    def metrics(self, session: Session) -> Iterator[bytes]:
        """All metrics in Prometheus' text format, piece by piece."""
        from penstock.node.metrics.exposition import render

        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        return render(self._broker)
