"""ACL values: what filters select, the one form of hosts, and which ACLs are refused."""

from __future__ import annotations

import pytest

from penstock.core.access import Operation, ResourceType
from penstock.core.security.acl import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
    canonical_host,
    check_acl,
)
from penstock.core.security.security_limits import ACL_TEXT_CHARS_MAX

LITERAL = Acl(
    AclResourceType.TOPIC,
    PatternType.LITERAL,
    "orders",
    "User:alice",
    "*",
    AclOperation.READ,
    Permission.ALLOW,
)
PREFIXED = LITERAL._replace(pattern=PatternType.PREFIXED, name="ord")
EVERY = LITERAL._replace(name="*")


def test_numbers_are_those_of_the_operations_and_resources_that_the_broker_asks_about() -> None:
    assert {one.name: int(one) for one in Operation}.items() <= {
        one.name: int(one) for one in AclOperation
    }.items()
    assert {one.name: int(one) for one in ResourceType}.items() <= {
        one.name: int(one) for one in AclResourceType
    }.items()


@pytest.mark.parametrize(
    ("pattern", "name", "selected"),
    [
        (PatternType.ANY, None, {LITERAL, PREFIXED, EVERY}),
        (PatternType.ANY, "orders", {LITERAL}),
        (PatternType.MATCH, "orders", {LITERAL, PREFIXED, EVERY}),
        (PatternType.MATCH, "order", {PREFIXED, EVERY}),
        (PatternType.MATCH, "ord", {PREFIXED, EVERY}),
        (PatternType.LITERAL, "orders", {LITERAL}),
        (PatternType.LITERAL, "*", {EVERY}),
        (PatternType.PREFIXED, "ord", {PREFIXED}),
        (PatternType.PREFIXED, "orders", set()),
        (PatternType.PREFIXED, None, {PREFIXED}),
    ],
)
def test_filters_select_by_pattern(pattern: PatternType, name: str | None, selected: set[Acl]) -> None:
    wanted = AclFilter(AclResourceType.TOPIC, pattern, name)
    assert {one for one in (LITERAL, PREFIXED, EVERY) if wanted.matches(one)} == selected


def test_filters_select_by_every_other_field() -> None:
    assert AclFilter(principal="User:alice", host="*", operation=AclOperation.READ).matches(LITERAL)
    for other in (
        AclFilter(resource_type=AclResourceType.GROUP),
        AclFilter(principal="User:bob"),
        AclFilter(host="10.0.0.1"),
        AclFilter(operation=AclOperation.WRITE),
        AclFilter(permission=Permission.DENY),
    ):
        assert not other.matches(LITERAL)


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("FE80::1%eth0", "fe80::1"),
        ("*", "*"),
        ("?", "?"),
        ("", ""),
    ],
)
def test_an_address_has_one_form(host: str, canonical: str) -> None:
    assert canonical_host(host) == canonical


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"resource_type": AclResourceType.CLUSTER}, "The only valid name for the CLUSTER resource"),
        ({"name": ""}, "Invalid empty resource name"),
        ({"resource_type": AclResourceType.ANY}, "Invalid resourceType ANY"),
        ({"pattern": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
        ({"permission": Permission.ANY}, "Invalid permissionType ANY"),
        ({"principal": "alice"}, "no colon is present"),
        ({"principal": "User:"}, "needs a type and a name"),
        ({"host": "client.example.com"}, "neither an IP address nor '*'"),
        ({"host": ""}, "neither an IP address nor '*'"),
        ({"name": "x" * (ACL_TEXT_CHARS_MAX + 1)}, "at most"),
    ],
)
def test_an_acl_that_means_nothing_is_refused(change: dict[str, object], reason: str) -> None:
    error = check_acl(LITERAL._replace(**change))
    assert error is not None and reason in error.message


def test_acls_that_mean_something_are_accepted() -> None:
    for acl in (LITERAL, PREFIXED, EVERY, LITERAL._replace(operation=AclOperation.ALL, host="::1")):
        assert check_acl(acl) is None
    assert check_acl(LITERAL._replace(resource_type=AclResourceType.CLUSTER, name="kafka-cluster")) is None
    assert check_acl(LITERAL._replace(resource_type=AclResourceType.USER, name="alice")) is None


def test_text_is_safe_to_print() -> None:
    assert PREFIXED.text == "ALLOW READ on every TOPIC that starts with 'ord' for User:alice from any host"
    assert EVERY.text == "ALLOW READ on every TOPIC for User:alice from any host"
    assert LITERAL._replace(principal="User:\x1b[2J\n").text.isprintable()
