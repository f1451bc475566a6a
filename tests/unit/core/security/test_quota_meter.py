"""Usage against quotas: who shares a meter, what is throttled and for how long, and how many meters there are."""

from __future__ import annotations

from penstock.core.security.quota import (
    QuotaKey,
    QuotaTable,
    client_entity,
    ip_entity,
    user_client_entity,
    user_entity,
)
from penstock.core.security.quota_meter import QuotaMeter

START_MS = 1_000_000


def meter_of(*quotas: tuple[object, QuotaKey, float], meters_max: int = 100) -> QuotaMeter:
    return QuotaMeter(QuotaTable({entity: {key: bound} for entity, key, bound in quotas}), meters_max)


def test_without_a_quota_nothing_is_tracked() -> None:
    meter = meter_of((user_entity("bob"), QuotaKey.PRODUCER_BYTE_RATE, 1.0))
    assert meter.produced("alice", "app", 10**9, START_MS) == 0
    assert meter.fetched("bob", "app", 10**9, START_MS) == 0
    assert meter.fetch_bytes_max("bob", "app") is None
    assert meter.meter_count == 0


def test_a_user_quota_counts_all_clients_of_the_user() -> None:
    meter = meter_of((user_entity("alice"), QuotaKey.PRODUCER_BYTE_RATE, 1_000.0))
    assert meter.produced("alice", "one", 10_000, START_MS) == 0
    assert meter.produced("alice", "two", 10_000, START_MS) == 10_000
    assert meter.meter_count == 1


def test_a_default_for_clients_counts_each_by_itself() -> None:
    meter = meter_of((user_client_entity(None, None), QuotaKey.PRODUCER_BYTE_RATE, 1_000.0))
    assert meter.produced("alice", "one", 10_000, START_MS) == 0
    assert meter.produced("alice", "two", 10_000, START_MS) == 0
    assert meter.produced("alice", "one", 1, START_MS) > 0


def test_a_throttled_fetch_does_not_count_because_it_is_empty() -> None:
    meter = meter_of((client_entity("app"), QuotaKey.CONSUMER_BYTE_RATE, 1_000.0))
    assert meter.fetch_bytes_max("alice", "app") == 10_000
    assert meter.fetched("alice", "app", 8_000, START_MS) == 0
    assert meter.fetched("alice", "app", 4_000, START_MS) == 2_000
    assert meter.fetched("alice", "app", 2_000, START_MS) == 0


def test_request_time_is_throttled_for_a_window_at_most() -> None:
    meter = meter_of((user_entity("alice"), QuotaKey.REQUEST_PERCENTAGE, 10.0))
    assert meter.requested("alice", "app", 1_000_000_000, START_MS) == 0
    assert meter.requested("alice", "app", 20_000_000, START_MS) == 200
    assert meter.requested("alice", "app", 9_000_000_000, START_MS) == 1_000


def test_connections_of_an_address_are_limited() -> None:
    meter = meter_of((ip_entity(None), QuotaKey.CONNECTION_CREATION_RATE, 2.0))
    throttled = [meter.connected("10.0.0.1", START_MS) for _ in range(22)]
    assert throttled[:20] == [0] * 20 and throttled[20] == throttled[21] == 500
    assert meter.connected("::ffff:10.0.0.1", START_MS) == 500
    assert meter.connected("10.0.0.2", START_MS) == 0


def test_mutations_are_refused_while_the_bucket_is_overdrawn() -> None:
    meter = meter_of((user_entity("alice"), QuotaKey.CONTROLLER_MUTATION_RATE, 1.0))
    assert meter.mutation_throttle_ms("alice", "app", START_MS) == 0
    assert meter.mutated("alice", "app", 14, START_MS) == 3_000
    assert meter.mutation_throttle_ms("alice", "app", START_MS + 1_000) == 2_000
    assert meter.mutation_throttle_ms("alice", "app", START_MS + 3_000) == 0
    assert meter.mutated("bob", "app", 1_000, START_MS) == 0


def test_a_new_bound_applies_to_the_usage_so_far() -> None:
    quotas = QuotaTable({user_entity("alice"): {QuotaKey.PRODUCER_BYTE_RATE: 1_000.0}})
    meter = QuotaMeter(quotas)
    assert meter.produced("alice", None, 20_000, START_MS) == 10_000
    quotas.put(user_entity("alice"), {QuotaKey.PRODUCER_BYTE_RATE: 4_000.0})
    assert meter.produced("alice", None, 0, START_MS) == 0


def test_the_number_of_meters_is_bounded() -> None:
    meter = meter_of((user_client_entity(None, None), QuotaKey.PRODUCER_BYTE_RATE, 10.0), meters_max=5)
    for number in range(100):
        meter.produced("alice", "busy", 1_000, START_MS)
        meter.produced("alice", f"client-{number}", 1, START_MS)
        assert meter.meter_count <= 5
    assert meter.produced("alice", "busy", 0, START_MS) > 1_000_000, "an active client is not forgotten"


def test_a_throttle_time_fits_into_a_response() -> None:
    meter = meter_of((user_entity("alice"), QuotaKey.PRODUCER_BYTE_RATE, 1.0))
    assert meter.produced("alice", "app", 2**62, START_MS) == 2**31 - 1
