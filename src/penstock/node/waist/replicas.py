"""Fetches of other brokers that copy partitions from this one. Only brokers that have proven the link key may fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.errors import ClusterForbidden, NotLeader
from penstock.core.model import PartitionId, TopicRef
from penstock.core.replication.fetches import ReplicaFetch as ReplicaFetch
from penstock.core.replication.fetches import ReplicaIdentity as ReplicaIdentity
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.authorization import require_peer
from penstock.node.waist.routes import Routes

if TYPE_CHECKING:  # a single broker needs none of it
    from penstock.node.replicas.leading import ReplicaRead as ReplicaRead


class ReplicaVerbs:
    """Serves batches to replicas."""

    def __init__(self, broker: Broker, routes: Routes) -> None:
        self._broker = broker
        self._find = routes.partition

    def check(self, session: Session, replica: ReplicaIdentity) -> None:
        """Raise ClusterForbidden unless the caller is the broker that it says it is."""
        require_peer(session)
        if session.broker_id != replica.broker_id:
            raise ClusterForbidden(
                f"broker {session.broker_id} fetches as a replica of broker {replica.broker_id}: a broker fetches for"
                " itself only"
            )

    def read(
        self,
        session: Session,
        replica: ReplicaIdentity,
        topic: TopicRef,
        wanted: ReplicaFetch,
    ) -> ReplicaRead:
        """Batches from an offset to the end of the log. The offset tells what the replica has."""
        self.check(session, replica)
        partition = self._find(topic, wanted.partition.partition)
        replication = self._broker.replication
        if replication is None:
            raise NotLeader(f"{partition}: this broker is alone, nobody holds another replica")
        own = PartitionId(partition.topic_id, partition.index)
        return replication.leading.read(replica, partition, wanted._replace(partition=own))
