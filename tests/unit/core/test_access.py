"""Permissions as values: every kind of resource has its operations and its refusal."""

from __future__ import annotations

import pytest

from penstock.core.access import CLUSTER, OPERATIONS, Operation, Resource, ResourceType, refusal
from penstock.core.errors import (
    ClusterForbidden,
    Forbidden,
    GroupForbidden,
    TopicForbidden,
    TransactionalIdForbidden,
)


def test_every_kind_of_resource_has_operations() -> None:
    assert OPERATIONS.keys() == set(ResourceType)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (ResourceType.TOPIC, TopicForbidden),
        (ResourceType.GROUP, GroupForbidden),
        (ResourceType.CLUSTER, ClusterForbidden),
        (ResourceType.TRANSACTIONAL_ID, TransactionalIdForbidden),
    ],
)
def test_a_refusal_names_principal_operation_and_resource(kind: ResourceType, error: type[Forbidden]) -> None:
    found = refusal("User:ann", Operation.DESCRIBE, Resource(kind, "orders"))
    assert type(found) is error
    assert str(found) == f"User:ann is not authorized to DESCRIBE {kind.name} 'orders'"


def test_the_cluster_has_kafkas_name() -> None:
    assert CLUSTER == (ResourceType.CLUSTER, "kafka-cluster")
