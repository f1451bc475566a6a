"""The numbers of memberlist's LAN profile, and what follows from them."""

from __future__ import annotations

import math

import pytest

from penstock.core.gossip.health import LocalHealth
from penstock.core.gossip.profile import LAN
from penstock.core.gossip.suspicion import Suspicion


def test_a_suspicion_shortens_with_each_confirmation() -> None:
    assert LAN.confirmations(5) == 2
    assert LAN.suspicion_ms(5, 0) == 24_000
    assert LAN.suspicion_ms(5, 1) == pytest.approx(24_000 - math.log(2) / math.log(3) * 20_000)
    assert LAN.suspicion_ms(5, 2) == LAN.suspicion_ms(5, 9) == 4_000
    assert LAN.suspicion_ms(100, 2) == 8_000


def test_where_nobody_could_confirm_a_suspicion_is_short_at_once() -> None:
    assert LAN.confirmations(3) == 0
    assert LAN.suspicion_ms(3, 0) == 4_000


def test_the_same_accuser_counts_once_and_late_ones_do_not_count() -> None:
    suspicion = Suspicion(LAN, 1, 5, 100.0)
    assert suspicion.deadline_ms == 24_100
    assert [suspicion.confirm(accuser) for accuser in (1, 2, 2, 3, 4)] == [False, True, False, True, False]
    assert suspicion.deadline_ms == 4_100


def test_updates_are_passed_on_more_often_in_larger_clusters() -> None:
    assert [LAN.retransmits(count) for count in (1, 5, 9, 10, 99, 100)] == [4, 4, 4, 8, 8, 12]


def test_scaling_changes_times_only() -> None:
    fast = LAN.scaled(0.1)
    assert (fast.probe_ms, fast.suspicion_factor) == (100, LAN.suspicion_factor)
    assert fast.suspicion_ms(5, 0) == 2_400


def test_local_health_stays_between_0_and_7_and_stretches_times() -> None:
    health = LocalHealth()
    health.change(-1)
    assert health.stretched_ms(500) == 500
    health.change(20)
    assert (health.score, health.stretched_ms(500)) == (7, 4_000)
    health.change(-1)
    assert health.score == 6
