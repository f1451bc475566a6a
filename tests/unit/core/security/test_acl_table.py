"""The table of ACLs: what a removal leaves, and how much of the table a lookup visits."""

from __future__ import annotations

from penstock.core.security.acl import Acl, AclFilter, AclOperation, AclResourceType, PatternType, Permission
from penstock.core.security.acl_table import AclTable

TOPIC = AclResourceType.TOPIC
READ = Acl(TOPIC, PatternType.LITERAL, "orders", "User:alice", "*", AclOperation.READ, Permission.ALLOW)
DENY = READ._replace(permission=Permission.DENY)


def test_removing_an_acl_leaves_all_others_a_deny_in_particular() -> None:
    prefixed = READ._replace(pattern=PatternType.PREFIXED)
    others = [DENY, READ._replace(host="::1"), READ._replace(principal="User:bob"), prefixed]
    table = AclTable([READ, *others])
    table.remove(READ)
    assert set(table) == set(others)
    assert DENY in table.applicable(TOPIC, "orders", "User:alice", "10.0.0.1")
    table.remove(READ._replace(pattern=PatternType.PREFIXED, permission=Permission.DENY))
    assert set(table.related(TOPIC, "orders-2")) == {prefixed}


def test_the_version_changes_with_the_table_only() -> None:
    table = AclTable()
    versions = [table.version]
    for change in (table.add, table.add, table.remove, table.remove):
        change(READ)
        versions.append(table.version)
    assert versions == [0, 1, 1, 2, 2]


def test_a_copy_is_independent() -> None:
    table = AclTable([READ])
    copied = table.copy()
    copied.add(DENY)
    assert set(table) == {READ} and set(copied) == {READ, DENY}
    assert copied.version == table.version + 1


def test_the_most_specific_pattern_comes_first() -> None:
    acls = [
        READ._replace(name="*"),
        READ._replace(pattern=PatternType.PREFIXED, name="o"),
        READ._replace(pattern=PatternType.PREFIXED, name="orde"),
        READ,
    ]
    table = AclTable(acls)
    assert list(table.applicable(TOPIC, "orders", "User:alice", "?")) == acls[::-1]
    assert list(table.applicable(AclResourceType.GROUP, "orders", "User:alice", "?")) == []


def test_hosts_are_compared_as_addresses() -> None:
    acl = READ._replace(host="0:0:0:0:0:0:0:1")
    table = AclTable([acl])
    assert list(table.applicable(TOPIC, "orders", "User:alice", "::1")) == [acl]
    assert list(table.applicable(TOPIC, "orders", "User:alice", "::1%lo")) == [acl]
    assert table.hosts_of(TOPIC, "User:alice") == {acl.host}
    table.remove(acl)
    assert len(table) == 0 and list(table.applicable(TOPIC, "orders", "User:alice", "::1")) == []


def test_a_lookup_does_not_depend_on_the_number_of_acls() -> None:
    table = AclTable(
        READ._replace(name=f"topic-{number:05}", principal=f"User:{number}") for number in range(2_000)
    )
    many = READ._replace(pattern=PatternType.PREFIXED)
    for number in range(2_000):
        table.add(many._replace(name=f"prefix-{number:05}"))
    assert len(list(table.related(TOPIC, "topic-00005"))) == 1
    assert len(list(table.related(TOPIC, "prefix-00007-x"))) == 1
    wanted = AclFilter(TOPIC, PatternType.MATCH, "topic-00005")
    assert [one.principal for one in table.matching(wanted)] == ["User:5"]
