"""Access decisions: who wins, what implies what, and how a decision is explained."""

from __future__ import annotations

import pytest

from penstock.core.access import CLUSTER, Operation, ResourceType, group_resource, topic_resource
from penstock.core.security.acl import Acl, AclOperation, AclResourceType, PatternType, Permission
from penstock.core.security.acl_table import AclTable
from penstock.core.security.decision import (
    AccessReason,
    AccessRequest,
    decide_access,
    decide_any_access,
    explain_access,
    related_acls,
)
from penstock.core.security.security_limits import RELATED_ACLS_MAX

ALICE = "User:alice"
HOST = "10.0.0.1"
ORDERS = topic_resource("orders")
READ = Acl(
    AclResourceType.TOPIC, PatternType.LITERAL, "orders", ALICE, "*", AclOperation.READ, Permission.ALLOW
)
DENY = READ._replace(permission=Permission.DENY)


def ask(*acls: Acl, operation: Operation = Operation.READ, **changes: object) -> AccessReason:
    request = AccessRequest(ALICE, HOST, operation, ORDERS)._replace(**changes)
    decision = decide_access(AclTable(acls), {"User:root"}, request)
    assert decision.is_allowed == (decision.reason in (AccessReason.SUPER_USER, AccessReason.ALLOWED_BY_ACL))
    return decision.reason


def test_what_is_not_allowed_is_denied() -> None:
    assert ask() is AccessReason.NO_ACL
    assert ask(READ) is AccessReason.ALLOWED_BY_ACL
    assert ask(READ, operation=Operation.WRITE) is AccessReason.NO_ACL
    assert ask(READ, principal="User:bob") is AccessReason.NO_ACL
    assert ask(READ, resource=group_resource("orders")) is AccessReason.NO_ACL
    assert ask(READ, resource=topic_resource("orders-2")) is AccessReason.NO_ACL


def test_a_deny_wins_wherever_it_comes_from() -> None:
    everything = DENY._replace(name="*", principal="User:*", operation=AclOperation.ALL)
    prefixed = DENY._replace(pattern=PatternType.PREFIXED, name="o", host=HOST)
    for deny in (DENY, everything, prefixed):
        assert ask(READ, deny) is AccessReason.DENIED_BY_ACL
    assert ask(READ, prefixed._replace(host="10.0.0.2")) is AccessReason.ALLOWED_BY_ACL


def test_super_users_may_do_everything() -> None:
    deny = DENY._replace(principal="User:*", operation=AclOperation.ALL)
    assert ask(deny, principal="User:root") is AccessReason.SUPER_USER
    assert ask(deny, principal="User:*") is AccessReason.DENIED_BY_ACL


@pytest.mark.parametrize(
    ("granted", "asked"),
    [
        (AclOperation.READ, Operation.DESCRIBE),
        (AclOperation.WRITE, Operation.DESCRIBE),
        (AclOperation.DELETE, Operation.DESCRIBE),
        (AclOperation.ALTER, Operation.DESCRIBE),
        (AclOperation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS),
        (AclOperation.ALL, Operation.ALTER),
    ],
)
def test_an_allow_implies_and_a_deny_does_not(granted: AclOperation, asked: Operation) -> None:
    acl = READ._replace(operation=granted)
    assert ask(acl, operation=asked) is AccessReason.ALLOWED_BY_ACL
    deny = acl._replace(permission=Permission.DENY)
    everything = READ._replace(operation=AclOperation.ALL)
    is_denied = granted is AclOperation.ALL
    expected = AccessReason.DENIED_BY_ACL if is_denied else AccessReason.ALLOWED_BY_ACL
    assert ask(everything, deny, operation=asked) is expected


@pytest.mark.parametrize("operation", [AclOperation.CREATE, AclOperation.ALTER_CONFIGS])
def test_other_operations_imply_no_describe(operation: AclOperation) -> None:
    assert ask(READ._replace(operation=operation), operation=Operation.DESCRIBE) is AccessReason.NO_ACL


def test_any_resource_counts_unless_a_deny_covers_the_whole_pattern() -> None:
    write = READ._replace(operation=AclOperation.WRITE)
    deny = write._replace(permission=Permission.DENY)
    prefixed = write._replace(pattern=PatternType.PREFIXED)
    every, none = write._replace(name="*"), deny._replace(name="*")
    deny_prefix = deny._replace(pattern=PatternType.PREFIXED, name="ord")

    def may(*acls: Acl, principal: str = ALICE) -> AccessReason:
        table = AclTable(acls)
        return decide_any_access(
            table, {"User:root"}, principal, HOST, Operation.WRITE, ResourceType.TOPIC
        ).reason

    assert may() is may(READ) is AccessReason.NO_ACL
    for allowed in ((write,), (prefixed,), (every,), (prefixed, deny), (every, deny_prefix), (every, deny)):
        assert may(*allowed) is AccessReason.ALLOWED_BY_ACL
    for denied in ((write, deny), (write, deny_prefix), (prefixed, deny_prefix), (every, none), (none,)):
        assert may(*denied) is AccessReason.DENIED_BY_ACL
    assert may(none, principal="User:root") is AccessReason.SUPER_USER
    assert may(write._replace(host="10.0.0.2")) is AccessReason.NO_ACL


def test_a_decision_names_the_acl_that_decided() -> None:
    prefixed = READ._replace(pattern=PatternType.PREFIXED, name="ord")
    request = AccessRequest(ALICE, HOST, Operation.READ, ORDERS)
    decision = decide_access(AclTable([READ._replace(name="*"), prefixed, READ]), (), request)
    assert decision.acl == READ
    assert explain_access(request, decision) == (
        "User:alice may READ TOPIC 'orders': ALLOW READ on TOPIC 'orders' for User:alice from any host"
    )


def test_explanations_without_an_acl() -> None:
    request = AccessRequest("User:\n", HOST, Operation.ALTER, CLUSTER)
    table = AclTable([READ._replace(principal="User:bob"), READ])
    denied = explain_access(request, decide_access(table, (), request))
    assert "may not ALTER CLUSTER 'kafka-cluster': no ACL allows it" in denied and denied.isprintable()
    assert "is a super user" in explain_access(request, decide_access(table, {"User:\n"}, request))
    about = AccessRequest(ALICE, HOST, Operation.WRITE, ORDERS)
    assert [one.principal for one in related_acls(table, about)] == [ALICE, "User:bob"]
    crowd = AclTable([*(READ._replace(principal=f"User:a{number}") for number in range(50)), READ])
    assert len(related_acls(crowd, about)) == RELATED_ACLS_MAX
    assert related_acls(crowd, about)[0] == READ
