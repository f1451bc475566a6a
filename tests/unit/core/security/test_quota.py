"""Client quotas as values: valid entities and bounds, and which quota applies to a client."""

from __future__ import annotations

import math

import pytest

from penstock.core.security.entry_error import EntryError
from penstock.core.security.quota import (
    QuotaEntity,
    QuotaKey,
    QuotaTable,
    check_quota,
    client_entity,
    ip_entity,
    parse_entity,
    quota_user,
    user_client_entity,
    user_entity,
)

PRODUCE, CONSUME = QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE
PRECEDENCE = [
    user_client_entity("alice", "app"),
    user_client_entity("alice", None),
    user_entity("alice"),
    user_client_entity(None, "app"),
    user_client_entity(None, None),
    user_entity(None),
    client_entity("app"),
    client_entity(None),
]
"""From the entity that wins to the one that loses, for user alice and client id app."""


def test_the_most_specific_entity_wins() -> None:
    table = QuotaTable({entity: {PRODUCE: float(place + 1)} for place, entity in enumerate(PRECEDENCE)})
    for place, entity in enumerate(PRECEDENCE):
        applied = table.applied(PRODUCE, "alice", "app")
        assert applied is not None
        assert (applied.bound, applied.entity) == (place + 1, entity)
        table.put(entity, {})
    assert table.applied(PRODUCE, "alice", "app") is None


@pytest.mark.parametrize(
    ("entity", "meter"),
    [
        (user_client_entity(None, None), ("alice", "app")),
        (user_entity(None), ("alice", None)),
        (client_entity(None), (None, "app")),
    ],
)
def test_who_shares_a_default_quota(entity: QuotaEntity, meter: tuple[str | None, str | None]) -> None:
    applied = QuotaTable({entity: {PRODUCE: 1.0}}).applied(PRODUCE, "alice", "app")
    assert applied is not None and applied.meter == meter


def test_each_key_has_its_own_precedence() -> None:
    table = QuotaTable({user_entity("alice"): {CONSUME: 5.0}, client_entity("app"): {PRODUCE: 7.0}})
    produce, consume = table.applied(PRODUCE, "alice", "app"), table.applied(CONSUME, "alice", "app")
    assert produce is not None and consume is not None
    assert (produce.bound, consume.bound) == (7.0, 5.0)


def test_a_client_without_an_id_does_not_escape_the_default() -> None:
    table = QuotaTable({client_entity(None): {PRODUCE: 3.0}})
    for client_id in (None, ""):
        applied = table.applied(PRODUCE, "alice", client_id)
        assert applied is not None and applied.bound == 3.0


def test_a_change_takes_effect_at_once() -> None:
    table = QuotaTable()
    assert table.applied(PRODUCE, "alice", "app") is None
    table.put(user_entity("alice"), {PRODUCE: 1.0})
    assert table.applied(PRODUCE, "bob", "app") is None
    table.put(user_entity(None), {PRODUCE: 2.0})
    bobs = table.applied(PRODUCE, "bob", "app")
    assert bobs is not None and bobs.bound == 2.0
    copied = table.copy()
    copied.put(user_entity(None), {})
    assert copied.applied(PRODUCE, "bob", "app") is None
    assert table.applied(PRODUCE, "bob", "app") == bobs


def test_connection_rates_are_of_addresses() -> None:
    key = QuotaKey.CONNECTION_CREATION_RATE
    table = QuotaTable({ip_entity("::ffff:10.0.0.1"): {key: 5.0}, ip_entity(None): {key: 9.0}})
    assert table.connection_rate("10.0.0.1") == 5.0
    assert table.connection_rate("10.0.0.2") == 9.0
    assert QuotaTable().connection_rate("10.0.0.1") is None


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([], "Invalid empty client quota entity"),
        ([("tenant", "a")], "Unhandled client quota entity type: tenant"),
        ([("user", "a"), ("user", "b")], "duplicate entity entry user"),
        ([("client-id", "")], "Empty client-id not supported"),
        ([("ip", "10.0.0.1"), ("user", "a")], "Invalid quota entity combination"),
        ([("ip", "no host")], "no host is not a valid IP or resolvable host."),
        ([("user", "x" * 2_000)], "at most"),
    ],
)
def test_invalid_entities_are_refused(parts: list[tuple[str, str | None]], reason: str) -> None:
    error = parse_entity(parts)
    assert isinstance(error, EntryError) and reason in error.message


def test_entities_have_one_form() -> None:
    assert parse_entity([("client-id", "app"), ("user", None)]) == user_client_entity(None, "app")
    assert parse_entity([("ip", "0:0:0:0:0:0:0:1")]) == ip_entity("::1")
    assert str(user_client_entity(None, "app")) == "ClientQuotaEntity(entries={user=null, client-id=app})"


@pytest.mark.parametrize(
    ("entity", "key", "value", "reason"),
    [
        (user_entity("a"), "no_such_rate", 1.0, "Invalid configuration key no_such_rate"),
        (user_entity("a"), "connection_creation_rate", 1.0, "Invalid configuration key"),
        (ip_entity("::1"), "producer_byte_rate", 1.0, "Invalid configuration key"),
        (user_entity("a"), "producer_byte_rate", 0.0, "must be greater than 0"),
        (user_entity("a"), "request_percentage", math.nan, "must be greater than 0"),
        (user_entity("a"), "request_percentage", math.inf, "must be a finite number"),
        (user_entity("a"), "producer_byte_rate", 0.5, "cannot be a fractional value."),
        (user_entity("a"), "producer_byte_rate", math.inf, "is too large for a LONG."),
        (ip_entity(None), "connection_creation_rate", 2.0**31, "is too large for an INT."),
    ],
)
def test_invalid_quotas_are_refused(entity: QuotaEntity, key: str, value: float, reason: str) -> None:
    error = check_quota(entity, key, value)
    assert error is not None and reason in error.message


def test_valid_quotas_are_accepted() -> None:
    assert check_quota(user_entity("a"), "producer_byte_rate", 2.0**63 - 1) is None
    assert check_quota(client_entity(None), "request_percentage", 0.5) is None
    assert check_quota(ip_entity(None), "connection_creation_rate", 1.0) is None


def test_quotas_are_for_the_name_of_a_principal() -> None:
    assert quota_user("User:alice") == "alice"
    assert quota_user("User:CN=a:b") == "CN=a:b"
