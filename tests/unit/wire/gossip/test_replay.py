"""A packet counts once; memory is bounded."""

from __future__ import annotations

from penstock.wire.gossip.replay import WINDOW_PACKETS, WINDOWS_MAX, ReplayGuard


def test_a_packet_counts_once_even_if_overtaken() -> None:
    guard = ReplayGuard()
    assert [guard.is_new(1, 5, number) for number in (10, 12, 11, 12, 10, 13)] == [
        True, True, True, False, False, True,
    ]  # fmt: skip


def test_what_is_too_old_to_know_is_rejected() -> None:
    guard = ReplayGuard()
    guard.is_new(1, 5, 10_000)
    assert not guard.is_new(1, 5, 10_000 - WINDOW_PACKETS)
    assert guard.is_new(1, 5, 10_001 - WINDOW_PACKETS)


def test_each_process_counts_for_itself() -> None:
    guard = ReplayGuard()
    assert guard.is_new(1, 5, 10) and guard.is_new(1, 6, 1) and guard.is_new(2, 5, 1)
    assert not guard.is_new(1, 5, 10), "the run before is remembered"


def test_memory_is_bounded() -> None:
    guard = ReplayGuard()
    for run in range(WINDOWS_MAX + 10):
        guard.is_new(1, run, 1)
    assert len(guard) == WINDOWS_MAX
