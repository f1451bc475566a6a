"""Requests about quotas: results per entry, each applied as a whole, filters."""

from __future__ import annotations

import pytest

from penstock.core.errors import BrokerError, InvalidRequest, UnsupportedVersion
from penstock.core.machines.security import quotas
from penstock.core.machines.security.events import QuotaSaved
from penstock.core.machines.security.quotas import (
    QuotaAlteration,
    QuotaFilterPart,
    QuotaOp,
    decide_alter_quotas,
    describe_quotas,
)
from penstock.core.machines.security.state import SecurityState
from penstock.core.security.entry_error import EntryErrorCode
from penstock.core.security.quota import (
    QuotaEntity,
    client_entity,
    ip_entity,
    user_client_entity,
    user_entity,
)

RATE = "producer_byte_rate"


def state_of(*entities: QuotaEntity) -> SecurityState:
    state = SecurityState()
    for entity in entities:
        key = "connection_creation_rate" if entity.is_ip else RATE
        state.apply(QuotaSaved(entity, {key: 5.0}))
    return state


def alteration(entity: QuotaEntity, *ops: tuple[str, float | None]) -> QuotaAlteration:
    return QuotaAlteration(entity.parts, tuple(QuotaOp(*op) for op in ops))


ALICE = user_entity("alice")


def test_keys_are_set_and_removed_and_the_others_stay() -> None:
    state = state_of(ALICE)
    decision = decide_alter_quotas(state, [alteration(ALICE, ("request_percentage", 50.0))])
    assert decision == ([QuotaSaved(ALICE, {RATE: 5.0, "request_percentage": 50.0})], [None])
    for event in decision.events:
        state.apply(event)
    decision = decide_alter_quotas(state, [alteration(ALICE, (RATE, None), ("request_percentage", None))])
    assert decision.events == [QuotaSaved(ALICE, {})]


def test_what_changes_nothing_has_no_event() -> None:
    wanted = [alteration(ALICE, (RATE, 5.0), ("consumer_byte_rate", None)), alteration(user_entity("bob"))]
    assert decide_alter_quotas(state_of(ALICE), wanted) == ([], [None, None])


def test_an_entry_is_applied_as_a_whole_or_not_at_all() -> None:
    bob = user_entity("bob")
    wanted = [alteration(ALICE, (RATE, 9.0), ("no_such_rate", 1.0)), alteration(bob, (RATE, 1.0))]
    decision = decide_alter_quotas(state_of(ALICE), wanted)
    assert decision.events == [QuotaSaved(bob, {RATE: 1.0})]
    assert decision.results[0] is not None and decision.results[1] is None


def test_duplicates_are_refused() -> None:
    twice = [alteration(ALICE, (RATE, 1.0)), alteration(ALICE, (RATE, 2.0))]
    decision = decide_alter_quotas(SecurityState(), twice)
    assert decision.events == []
    assert {error and error.message for error in decision.results} == {
        "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})"
    }
    (error,) = decide_alter_quotas(SecurityState(), [alteration(ALICE, (RATE, 1.0), (RATE, None))]).results
    assert error is not None and error.message.startswith(f"Duplicate quota key {RATE}")


def test_an_invalid_entity_is_refused() -> None:
    (error,) = decide_alter_quotas(SecurityState(), [QuotaAlteration((), ())]).results
    assert error is not None and error.code is EntryErrorCode.INVALID_REQUEST


def test_the_number_of_entities_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "QUOTA_ENTITIES_MAX", 2)
    wanted = [alteration(user_entity(name), (RATE, 1.0)) for name in ("alice", "bob", "carol")]
    decision = decide_alter_quotas(state_of(ALICE), wanted)
    assert [error and error.code for error in decision.results] == [
        None,
        None,
        EntryErrorCode.POLICY_VIOLATION,
    ]
    swap = [alteration(ALICE, (RATE, None)), alteration(user_entity("dora"), (RATE, 1.0))]
    assert decide_alter_quotas(state_of(ALICE, user_entity("bob")), swap).results == [None, None]


BOTH, DEFAULT, CLIENT = user_client_entity("alice", None), user_entity(None), client_entity("app")
EXACT_ALICE, DEFAULT_USER = QuotaFilterPart("user", 0, "alice"), QuotaFilterPart("user", 1, None)
ANY_USER, ANY_CLIENT = QuotaFilterPart("user", 2, None), QuotaFilterPart("client-id", 2, None)


@pytest.mark.parametrize(
    ("parts", "strict", "selected"),
    [
        ([], False, [CLIENT, ip_entity("::1"), DEFAULT, ALICE, BOTH]),
        ([], True, []),
        ([EXACT_ALICE], False, [ALICE, BOTH]),
        ([EXACT_ALICE], True, [ALICE]),
        ([DEFAULT_USER], False, [DEFAULT]),
        ([ANY_USER], True, [DEFAULT, ALICE]),
        ([ANY_USER, ANY_CLIENT], True, [BOTH]),
        ([ANY_CLIENT], False, [CLIENT, BOTH]),
        ([QuotaFilterPart("ip", 0, "0:0:0:0:0:0:0:1")], True, [ip_entity("::1")]),
        ([QuotaFilterPart("ip", 1, None)], True, []),
    ],
)
def test_filters_select_entities(
    parts: list[QuotaFilterPart], strict: bool, selected: list[QuotaEntity]
) -> None:
    state = state_of(ALICE, BOTH, DEFAULT, CLIENT, ip_entity("::1"))
    assert [entity for entity, _ in describe_quotas(state, parts, strict=strict)] == selected


@pytest.mark.parametrize(
    ("parts", "error", "reason"),
    [
        ([QuotaFilterPart("", 0, "a")], InvalidRequest, "Invalid empty entity type."),
        ([EXACT_ALICE, ANY_USER], InvalidRequest, "cannot appear more than once"),
        ([QuotaFilterPart("tenant", 0, "a")], UnsupportedVersion, "Unsupported entity type tenant"),
        ([QuotaFilterPart("user", 9, "a")], InvalidRequest, "Unknown match type 9"),
        (
            [QuotaFilterPart("user", 0, None)],
            InvalidRequest,
            "MATCH_TYPE_EXACT, but set match string to null",
        ),
        ([QuotaFilterPart("user", 1, "a")], InvalidRequest, "MATCH_TYPE_DEFAULT, but also specified"),
        ([QuotaFilterPart("user", 2, "a")], InvalidRequest, "MATCH_TYPE_SPECIFIED, but also specified"),
        ([QuotaFilterPart("ip", 2, None), ANY_USER], InvalidRequest, "Invalid entity filter component"),
    ],
)
def test_invalid_filters_are_refused(
    parts: list[QuotaFilterPart], error: type[BrokerError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        describe_quotas(SecurityState(), parts, strict=False)
