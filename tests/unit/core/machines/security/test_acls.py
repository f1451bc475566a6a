"""Requests about ACLs: results per entry, duplicates, limits, overlapping filters."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidRequest
from penstock.core.machines.security import acls
from penstock.core.machines.security.acls import (
    AclCreation,
    AclSelection,
    decide_create_acls,
    decide_delete_acls,
    describe_acls,
)
from penstock.core.machines.security.events import AclRemoved, AclSaved
from penstock.core.machines.security.state import SecurityState
from penstock.core.security.acl import Acl, AclOperation, AclResourceType, PatternType, Permission
from penstock.core.security.entry_error import EntryError, EntryErrorCode

READ = Acl(
    AclResourceType.TOPIC,
    PatternType.LITERAL,
    "orders",
    "User:alice",
    "*",
    AclOperation.READ,
    Permission.ALLOW,
)
DENY = READ._replace(permission=Permission.DENY)
EVERYTHING = AclSelection(1, 1, None, None, None, 1, 1)


def state_of(*given: Acl) -> SecurityState:
    state = SecurityState()
    for acl in given:
        state.apply(AclSaved(acl))
    return state


def test_valid_entries_are_created_and_the_others_refused() -> None:
    creations = [AclCreation(*READ), AclCreation(*READ._replace(name="")), AclCreation(*DENY)]
    decision = decide_create_acls(SecurityState(), creations)
    assert decision.events == [AclSaved(READ), AclSaved(DENY)]
    assert [error and error.code for error in decision.results] == [
        None,
        EntryErrorCode.INVALID_REQUEST,
        None,
    ]


def test_an_acl_that_exists_or_is_repeated_is_a_success_without_an_event() -> None:
    decision = decide_create_acls(
        state_of(READ), [AclCreation(*READ), AclCreation(*DENY), AclCreation(*DENY)]
    )
    assert decision.events == [AclSaved(DENY)]
    assert decision.results == [None, None, None]


@pytest.mark.parametrize("field", ["resource_type", "pattern", "operation", "permission"])
def test_unknown_numbers_are_refused(field: str) -> None:
    (error,) = decide_create_acls(SecurityState(), [AclCreation(*READ)._replace(**{field: 99})]).results
    assert error is not None and error.message.endswith("UNKNOWN")
    unknown = EVERYTHING._replace(**{field: 0})
    decision = decide_delete_acls(state_of(READ), [unknown, EVERYTHING])
    assert isinstance(decision.results[0], EntryError) and decision.results[1] == [READ]
    with pytest.raises(InvalidRequest, match="Unknown"):
        describe_acls(state_of(READ), unknown)


def test_the_number_of_acls_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "ACLS_MAX", 2)
    creations = [AclCreation(*READ._replace(name=name)) for name in ("orders", "a", "b")]
    decision = decide_create_acls(state_of(READ), creations)
    assert len(decision.events) == 1
    assert decision.results[:2] == [None, None]
    assert decision.results[2] is not None
    assert decision.results[2].code is EntryErrorCode.POLICY_VIOLATION


def test_a_filter_removes_what_it_selects_and_nothing_else() -> None:
    state = state_of(READ, DENY, READ._replace(principal="User:bob"))
    selection = AclSelection(2, 3, "orders", "User:alice", "*", int(AclOperation.READ), int(Permission.ALLOW))
    decision = decide_delete_acls(state, [selection])
    assert decision == ([AclRemoved(READ)], [[READ]])
    for event in decision.events:
        state.apply(event)
    assert set(state.acls) == {DENY, READ._replace(principal="User:bob")}


def test_filters_may_overlap_and_remove_once() -> None:
    decision = decide_delete_acls(state_of(READ, DENY), [EVERYTHING, EVERYTHING._replace(permission=2)])
    assert decision.results == [[READ, DENY], [DENY]]
    assert sorted(event.key for event in decision.events) == sorted(
        {AclRemoved(READ).key, AclRemoved(DENY).key}
    )


def test_too_many_removals_remove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "ACL_REMOVALS_MAX", 1)
    with pytest.raises(InvalidRequest, match="Cannot remove more than 1 acls"):
        decide_delete_acls(state_of(READ, DENY), [EVERYTHING])


def test_a_description_is_by_resource_pattern() -> None:
    other = READ._replace(name="bills")
    state = state_of(READ, other, DENY)
    assert describe_acls(state, EVERYTHING) == {READ[:3]: [READ, DENY], other[:3]: [other]}
    assert describe_acls(state, EVERYTHING._replace(name="bills")) == {other[:3]: [other]}
