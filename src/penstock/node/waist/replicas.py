"""What other brokers ask as replicas: fetches of those that copy partitions from this broker, and changes of the ISR
that leaders want. Only brokers that have proven the link key may ask."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import (
    BrokerError,
    ClusterForbidden,
    NotLeader,
    StaleBrokerEpoch,
    UnknownBroker,
    message_of,
)
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.partition_state import IsrChange as IsrChange
from penstock.core.machines.cluster.partition_state import IsrMember as IsrMember
from penstock.core.machines.cluster.partition_state import decide_change_isr
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.model import PartitionId, TopicRef
from penstock.core.replication.fetches import ReplicaFetch as ReplicaFetch
from penstock.core.replication.fetches import ReplicaIdentity as ReplicaIdentity
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.authorization import Authorization, require_peer
from penstock.node.waist.changes import Changes
from penstock.node.waist.routes import Routes

if TYPE_CHECKING:  # a single broker needs none of it
    from penstock.node.replicas.leading import ReplicaRead as ReplicaRead
    from penstock.node.replicas.leading import ReplicaSource as ReplicaSource


NO_MEMBER_EPOCH = -1
"""In place of the broker epoch of an ISR member: the leader does not know it, it is not checked."""


class IsrOutcome(NamedTuple):
    """A partition after a change of its ISR."""

    placed: PartitionReplicas
    is_deposed: bool
    """The change completed a reassignment, and another broker than the caller leads now."""


class ReplicaVerbs:
    """Serves replicas and leaders of partitions."""

    def __init__(self, broker: Broker, authorization: Authorization, routes: Routes) -> None:
        self._broker = broker
        self._authorization = authorization
        self._find = routes.partition
        self._changes = Changes(broker)

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

    async def change_isr(
        self, session: Session, sender: ReplicaIdentity, wanted: Sequence[IsrChange]
    ) -> list[IsrOutcome | BrokerError]:
        """Change ISRs for their leader; each has its own outcome. Raises StaleBrokerEpoch unless the caller is
        registered in this broker epoch."""
        self._authorization.authorize(session, Operation.CLUSTER_ACTION, CLUSTER)
        self.check(session, sender)
        cluster = self._broker.catalog.cluster
        try:
            cluster.broker(*sender)
        except UnknownBroker as error:
            raise StaleBrokerEpoch(message_of(error)) from error
        changed = await self._changes.commit([partial(_decide_isr, sender, one) for one in wanted])
        return [
            error or _outcome(changed.after.cluster.partition(one.partition), sender)
            for one, error in zip(wanted, changed.errors, strict=True)
        ]


def _decide_isr(sender: ReplicaIdentity, wanted: IsrChange, catalog: Catalog) -> Sequence[Event]:
    catalog.topic_by_id(wanted.partition.topic_id)
    members = []
    for one in wanted.isr:
        found = catalog.cluster.find_broker(one.broker_id)
        is_unstated = one.epoch == NO_MEMBER_EPOCH and found is not None
        members.append(one._replace(epoch=found.epoch) if is_unstated and found is not None else one)
    return decide_change_isr(catalog.cluster, *sender, wanted._replace(isr=members))


def _outcome(placed: PartitionReplicas, sender: ReplicaIdentity) -> IsrOutcome:
    return IsrOutcome(placed, is_deposed=placed.leader != sender.broker_id)
