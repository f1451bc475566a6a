"""Looks up the coordinators of groups and transactions. The first lookup creates their topic."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from penstock.core.access import CLUSTER, Operation, Resource, group_resource, transactional_id_resource
from penstock.core.errors import CoordinatorUnavailable
from penstock.core.model import PartitionId
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.coordinators.shard_host import ShardHost
from penstock.node.coordinators.transactions import TOPIC as TRANSACTIONS_TOPIC
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.cluster import BrokerEndpoint, ClusterVerbs


class CoordinatorKind(Enum):
    """Kinds of coordinators."""

    GROUP = "group"
    TRANSACTION = "transaction"
    SHARE = "share"


TOPICS = {CoordinatorKind.GROUP: GROUPS_TOPIC, CoordinatorKind.TRANSACTION: TRANSACTIONS_TOPIC}


class CoordinatorVerbs:
    """Finds and opens coordinators."""

    def __init__(self, broker: Broker, authorization: Authorization, cluster: ClusterVerbs) -> None:
        self._broker = broker
        self._authorization = authorization
        self._cluster = cluster
        self._hosts: dict[CoordinatorKind, ShardHost[Any]] = {
            CoordinatorKind.GROUP: broker.group_coordinator.groups.host,
            CoordinatorKind.TRANSACTION: broker.transactions.host,
        }

    def are_ready(self, session: Session, kind: CoordinatorKind) -> bool:
        """Whether the coordinator's topic exists, so that `find` can tell where it is."""
        host = self._hosts.get(kind)
        return host is None or host.is_open

    async def open(self, session: Session, kind: CoordinatorKind, keys: Iterable[str]) -> None:
        """Create the coordinator's topic if the caller may look up the coordinator of any of these keys."""
        if not self.are_ready(session, kind) and any(self._allows(session, kind, key) for key in keys):
            await self._hosts[kind].open()

    def find(self, session: Session, kind: CoordinatorKind, key: str) -> BrokerEndpoint:
        """The broker that coordinates a group or a transactional id. Raises CoordinatorUnavailable."""
        self._authorization.authorize(session, *_permission(kind, key))
        catalog, host = self._broker.catalog, self._hosts.get(kind)
        if not catalog.cluster.has_brokers or host is None:
            return self._cluster.endpoint
        topic, placed = catalog.find(TOPICS[kind]), None
        if topic is not None:
            placed = catalog.cluster.find_partition(PartitionId(topic.id, host.index_of(key)))
        found = None if placed is None else self._cluster.find(session, placed.leader)
        if found is None:
            raise CoordinatorUnavailable(f"no broker coordinates the {kind.value} {key!r} at the moment")
        return found

    def _allows(self, session: Session, kind: CoordinatorKind, key: str) -> bool:
        return self._authorization.allows(session, *_permission(kind, key))


def _permission(kind: CoordinatorKind, key: str) -> tuple[Operation, Resource]:
    if kind is CoordinatorKind.GROUP:
        return Operation.DESCRIBE, group_resource(key)
    if kind is CoordinatorKind.TRANSACTION:
        return Operation.DESCRIBE, transactional_id_resource(key)
    return Operation.CLUSTER_ACTION, CLUSTER
