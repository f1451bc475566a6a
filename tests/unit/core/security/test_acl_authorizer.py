"""The authorizer: cached decisions follow the table at once, and the cache is bounded."""

from __future__ import annotations

import pytest

from penstock.core.access import Operation, ResourceType, topic_resource
from penstock.core.errors import InvalidConfig
from penstock.core.security.acl import Acl, AclOperation, AclResourceType, PatternType, Permission
from penstock.core.security.acl_authorizer import AclAuthorizer, parse_super_users
from penstock.core.security.acl_table import AclTable
from penstock.core.security.decision import AccessReason
from penstock.core.session import Session

SESSION = Session("kafka", "User:alice", "10.0.0.1")
WRITE = Acl(
    AclResourceType.TOPIC,
    PatternType.PREFIXED,
    "orders",
    "User:alice",
    "10.0.0.1",
    AclOperation.WRITE,
    Permission.ALLOW,
)


def test_a_change_takes_effect_at_once() -> None:
    table = AclTable()
    authorizer = AclAuthorizer(table, ["User:root"])

    def allowed() -> list[bool]:
        resource = topic_resource("orders-1")
        return [
            authorizer.allows(SESSION, Operation.WRITE, resource),
            authorizer.decide_any(SESSION, Operation.WRITE, ResourceType.TOPIC).is_allowed,
        ]

    assert allowed() == allowed() == [False, False]
    table.add(WRITE)
    assert allowed() == allowed() == [True, True]
    table.add(WRITE._replace(permission=Permission.DENY))
    assert allowed() == allowed() == [False, False]
    table.remove(WRITE._replace(permission=Permission.DENY))
    assert allowed() == allowed() == [True, True]


def test_decisions_are_cached_by_everything_that_they_depend_on() -> None:
    authorizer = AclAuthorizer(AclTable([WRITE]), ["User:root"])
    orders = topic_resource("orders")
    for _ in range(2):
        assert authorizer.allows(SESSION, Operation.WRITE, orders)
        assert not authorizer.allows(SESSION, Operation.READ, orders)
        assert not authorizer.allows(SESSION, Operation.WRITE, topic_resource("other"))
        assert not authorizer.allows(SESSION.with_principal("User:bob"), Operation.WRITE, orders)
        assert not authorizer.allows(Session("kafka", "User:alice", "10.0.0.2"), Operation.WRITE, orders)
        assert authorizer.allows(SESSION.with_principal("User:root"), Operation.WRITE, orders)
    assert authorizer.decide(SESSION, Operation.WRITE, orders).acl == WRITE


def test_a_small_cache_decides_as_a_large_one() -> None:
    authorizer = AclAuthorizer(AclTable([WRITE]), decisions_max=2)
    for _ in range(3):
        for number in range(20):
            decision = authorizer.decide(SESSION, Operation.WRITE, topic_resource(f"orders-{number}"))
            assert decision.reason is AccessReason.ALLOWED_BY_ACL


def test_super_users_are_written_as_in_kafka() -> None:
    text = " User:alice; User:CN=bob,O=example;;"
    assert parse_super_users(text) == {"User:alice", "User:CN=bob,O=example"}
    assert parse_super_users("") == frozenset()


@pytest.mark.parametrize("text", ["alice", "User:", ":alice", "User:alice;User:*"])
def test_super_users_that_name_nobody_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="super users"):
        parse_super_users(text)
