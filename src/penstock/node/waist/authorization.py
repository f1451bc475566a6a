"""The permission check: every verb of the waist calls it before it does anything.

Without an authorizer everything is allowed, at the cost of one comparison. Each verb requires the operation that Kafka
requires for the same call, so that ACLs written for Kafka have the same effect here. Brokers of the cluster may do
everything: whoever forwards a call has checked its caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from penstock.core.access import (
    CLUSTER,
    OPERATIONS,
    Operation,
    Resource,
    group_resource,
    refusal,
    topic_resource,
    transactional_id_resource,
)
from penstock.core.errors import ClusterForbidden
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Topic
from penstock.core.model import TopicRef
from penstock.core.session import Session


class Authorizer(Protocol):
    """Decides whether a session may perform an operation on a resource."""

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool: ...


class Authorization:
    """The permissions of one node. Verbs on hot paths check `authorizer` themselves."""

    __slots__ = ("_catalog", "authorizer")

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.authorizer: Authorizer | None = None

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        authorizer = self.authorizer
        return authorizer is None or session.is_broker or authorizer.allows(session, operation, resource)

    def authorize(self, session: Session, operation: Operation, resource: Resource) -> None:
        """Raise the Forbidden error of that kind of resource unless the caller has the permission."""
        if not self.allows(session, operation, resource):
            raise refusal(session.principal, operation, resource)

    def authorize_topic(self, session: Session, operation: Operation, topic: TopicRef) -> None:
        """The same for a topic by name or id; an unknown id raises UnknownTopicId."""
        if self.authorizer is not None:
            name = topic if isinstance(topic, str) else self._catalog.topic_by_id(topic).name
            self.authorize(session, operation, topic_resource(name))

    def authorize_group(self, session: Session, operation: Operation, group_id: str) -> None:
        """The same for a group."""
        if self.authorizer is not None:
            self.authorize(session, operation, group_resource(group_id))

    def authorize_transactional_id(
        self, session: Session, operation: Operation, transactional_id: str
    ) -> None:
        """The same for a transactional id."""
        if self.authorizer is not None:
            self.authorize(session, operation, transactional_id_resource(transactional_id))

    def authorize_creation(self, session: Session, topic: str) -> None:
        """Raise unless the caller may create any topic, or this one."""
        if not self.allows(session, Operation.CREATE, CLUSTER):
            self.authorize(session, Operation.CREATE, topic_resource(topic))

    def allowed_topics(self, session: Session, operation: Operation, topics: list[Topic]) -> list[Topic]:
        """The topics on which the caller may perform the operation."""
        if self.authorizer is None:
            return topics
        return [one for one in topics if self.allows(session, operation, topic_resource(one.name))]

    def allowed_operations(self, session: Session, resource: Resource) -> Iterable[Operation]:
        """All operations that the caller may perform on a resource; none for the cluster if the caller may not
        describe it."""
        if resource == CLUSTER and not self.allows(session, Operation.DESCRIBE, CLUSTER):
            return ()
        return (one for one in OPERATIONS[resource.type] if self.allows(session, one, resource))


def require_peer(session: Session) -> None:
    """Raise ClusterForbidden unless the caller is a broker of this cluster: for calls that only brokers may make.

    Unlike a permission it is required without an authorizer too.
    """
    if not session.is_broker:
        raise ClusterForbidden(
            f"{session.principal} at {session.address} is not a broker of this cluster: only brokers that have proven"
            " the cluster's link key may make this call"
        )
