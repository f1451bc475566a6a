"""Looks up the coordinators of groups and transactions: this node, for all of them. The first lookup opens it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from penstock.core.access import CLUSTER, Operation, Resource, group_resource, transactional_id_resource
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.cluster import BrokerEndpoint, ClusterVerbs


class CoordinatorKind(Enum):
    """Kinds of coordinators."""

    GROUP = "group"
    TRANSACTION = "transaction"
    SHARE = "share"


class CoordinatorVerbs:
    """Finds and opens coordinators."""

    def __init__(self, broker: Broker, authorization: Authorization, cluster: ClusterVerbs) -> None:
        self._group_coordinator = broker.group_coordinator
        self._authorization = authorization
        self._cluster = cluster

    @property
    def are_ready(self) -> bool:
        return self._group_coordinator.is_open

    async def open(self, session: Session, kind: CoordinatorKind, keys: Iterable[str]) -> None:
        """Open the coordinator if the caller may look up the coordinator of any of these keys."""
        if not self.are_ready and any(self._allows(session, kind, key) for key in keys):
            await self._group_coordinator.open()

    def find(self, session: Session, kind: CoordinatorKind, key: str) -> BrokerEndpoint:
        """The broker that coordinates a group or a transactional id."""
        self._authorization.authorize(session, *_permission(kind, key))
        return self._cluster.endpoint

    def _allows(self, session: Session, kind: CoordinatorKind, key: str) -> bool:
        return self._authorization.allows(session, *_permission(kind, key))


def _permission(kind: CoordinatorKind, key: str) -> tuple[Operation, Resource]:
    if kind is CoordinatorKind.GROUP:
        return Operation.DESCRIBE, group_resource(key)
    if kind is CoordinatorKind.TRANSACTION:
        return Operation.DESCRIBE, transactional_id_resource(key)
    return Operation.CLUSTER_ACTION, CLUSTER
