"""The vocabulary of permissions: operations, resources, and which operations apply to which. Decides nothing.

Names and numbers are Kafka's, so that ACLs written for Kafka mean the same here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

from penstock.core.errors import (
    ClusterForbidden,
    Forbidden,
    GroupForbidden,
    TopicForbidden,
    TransactionalIdForbidden,
)


class Operation(IntEnum):
    """What a principal wants to do with a resource."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """Resource types that permissions are granted on. A subscription is a GROUP."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Resource(NamedTuple):
    """One resource that permissions are granted on."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")
"""The only cluster resource, by its name in ACLs."""

OPERATIONS: Mapping[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
"""The operations that apply to each kind of resource."""

_REFUSALS: Mapping[ResourceType, Callable[[str], Forbidden]] = {
    ResourceType.TOPIC: TopicForbidden,
    ResourceType.GROUP: GroupForbidden,
    ResourceType.CLUSTER: ClusterForbidden,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdForbidden,
}


def topic_resource(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def group_resource(group_id: str) -> Resource:
    return Resource(ResourceType.GROUP, group_id)


def transactional_id_resource(transactional_id: str) -> Resource:
    return Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)


def refusal(principal: str, operation: Operation, resource: Resource) -> Forbidden:
    """The error for a principal that lacks a permission."""
    return _REFUSALS[resource.type](
        f"{principal} is not authorized to {operation.name} {resource.type.name} {resource.name!r}"
    )
