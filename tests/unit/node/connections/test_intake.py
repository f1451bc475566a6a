"""Frames out of bytes, however they are cut; memory only for what arrives, and only within the budget."""

from __future__ import annotations

import pytest

from penstock.core.errors import Malformed, TooLarge
from penstock.node.connections.framing import LengthPrefixed
from penstock.node.connections.intake import AT_ONCE_BYTES, FIRST_BYTES, ORDINARY_BYTES, Budget, Intake

PLENTY = 1 << 30
FRAME_BYTES_MAX = 100 << 20


def frame(size: int, fill: int = 0x41) -> bytes:
    return size.to_bytes(4, "big") + bytes([fill]) * size


def feed(intake: Intake, content: bytes) -> list[bytes]:
    """Receive as a socket does, as much at a time as there is room for; returns the frames."""
    frames = []
    while content:
        room = intake.room()
        assert len(room) > 0
        count = min(len(room), len(content))
        room[:count] = content[:count]
        intake.received(count)
        content = content[count:]
        while (found := intake.take()) is not None:
            frames.append(bytes(found))
        assert intake.make_room()
    return frames


def test_frames_are_the_same_wherever_the_bytes_are_cut() -> None:
    content = frame(3, 1) + frame(0) + frame(300, 2) + frame(1, 3)
    whole = [b"\1" * 3, b"", b"\2" * 300, b"\3"]
    for at in range(len(content) + 1):
        intake = Intake(Budget(PLENTY), FRAME_BYTES_MAX, LengthPrefixed())
        assert feed(intake, content[:at]) + feed(intake, content[at:]) == whole
        assert intake.held_bytes == 0


def test_frames_byte_by_byte_across_the_end_of_the_buffer() -> None:
    intake = Intake(Budget(PLENTY), FRAME_BYTES_MAX, LengthPrefixed())
    content = b"".join(frame(size, size % 251) for size in (FIRST_BYTES - 10, 100, 7, 3_000))
    frames = [found for byte in content for found in feed(intake, bytes([byte]))]
    assert [len(found) for found in frames] == [FIRST_BYTES - 10, 100, 7, 3_000]


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_length_is_malformed(size: int) -> None:
    with pytest.raises(Malformed):
        feed(Intake(Budget(PLENTY), FRAME_BYTES_MAX, LengthPrefixed()), size.to_bytes(4, "big", signed=True))


def test_a_length_over_the_limit_is_refused_before_any_room_is_made_for_it() -> None:
    budget = Budget(PLENTY)
    with pytest.raises(TooLarge):
        feed(Intake(budget, 1_000, LengthPrefixed()), frame(1_001)[:4])
    assert budget.fits(PLENTY)


def test_a_limit_beyond_the_whole_budget_means_the_budget() -> None:
    with pytest.raises(TooLarge):
        feed(Intake(Budget(50_000), FRAME_BYTES_MAX, LengthPrefixed()), frame(50_001)[:4])
    assert feed(Intake(Budget(50_000), FRAME_BYTES_MAX, LengthPrefixed()), frame(50_000)) == [b"A" * 50_000]


def test_a_large_claim_gets_memory_only_as_its_bytes_come() -> None:
    budget = Budget(PLENTY)
    intake = Intake(budget, FRAME_BYTES_MAX, LengthPrefixed())
    feed(intake, frame(90 << 20)[:5])
    assert budget._used_bytes < AT_ONCE_BYTES
    feed(intake, bytes(3 << 20))
    assert budget._used_bytes < 8 << 20


def test_when_memory_is_tight_even_small_claims_get_it_only_as_their_bytes_come() -> None:
    budget = Budget(10 * AT_ONCE_BYTES)
    claims = [Intake(budget, FRAME_BYTES_MAX, LengthPrefixed()) for _ in range(100)]
    for intake in claims:
        feed(intake, frame(AT_ONCE_BYTES - 4)[:4])
    assert budget._used_bytes <= 6 * AT_ONCE_BYTES, "the other half is for those who send"
    assert feed(Intake(budget, FRAME_BYTES_MAX, LengthPrefixed()), frame(200_000)) == [b"A" * 200_000]


def test_over_the_budget_there_is_no_room_until_somebody_gives_some_back() -> None:
    budget = Budget(100_000)
    first, second = (
        Intake(budget, FRAME_BYTES_MAX, LengthPrefixed()),
        Intake(budget, FRAME_BYTES_MAX, LengthPrefixed()),
    )
    feed(first, frame(100_000)[:60_000])
    again: list[str] = []
    second.room()[:4] = frame(90_000)[:4]
    second.received(4)
    assert second.take() is None
    while second.make_room() and len(second.room()) > 5_000:
        room = second.room()
        room[:] = bytes(len(room))
        second.received(len(room))
        assert second.take() is None
    assert not second.make_room()
    callback = lambda: again.append("tried")  # noqa: E731
    budget.wait(callback)
    budget.wait(callback)
    first.close()
    assert again == ["tried"], "once, however often it asked"
    assert second.make_room()


def test_a_busy_sender_gets_an_ordinary_buffer_and_a_quiet_one_gives_it_back() -> None:
    budget = Budget(PLENTY)
    intake = Intake(budget, FRAME_BYTES_MAX, LengthPrefixed())
    intake.widen()
    assert len(intake.room()) == ORDINARY_BYTES
    feed(intake, b"\0")
    intake.shrink()
    assert len(intake.room()) == ORDINARY_BYTES - 1, "half a frame is not thrown away"
    assert feed(intake, frame(70_000)[1:]) == [b"A" * 70_000]
    intake.shrink()
    assert len(intake.room()) == FIRST_BYTES
    assert budget._used_bytes == 0


def test_nobody_is_widened_when_memory_is_tight_and_large_buffers_are_given_back() -> None:
    budget = Budget(4 * ORDINARY_BYTES)
    large = Intake(budget, FRAME_BYTES_MAX, LengthPrefixed())
    feed(large, frame(3 * ORDINARY_BYTES)[:-1])
    assert budget.is_tight
    other = Intake(budget, FRAME_BYTES_MAX, LengthPrefixed())
    other.widen()
    assert len(other.room()) == FIRST_BYTES
    assert feed(large, b"A") == [b"A" * 3 * ORDINARY_BYTES]
    assert not budget.is_tight


def test_closing_gives_everything_back() -> None:
    budget = Budget(PLENTY)
    for size in (5, 100_000, 5 << 20):
        intake = Intake(budget, FRAME_BYTES_MAX, LengthPrefixed())
        feed(intake, frame(size)[:-1])
        intake.close()
        assert budget._used_bytes == 0


def test_a_dead_connection_keeps_no_memory_and_owes_none() -> None:
    budget = Budget(PLENTY)
    for size in (5, 100_000):
        intake = Intake(budget, FRAME_BYTES_MAX, LengthPrefixed())
        feed(intake, frame(size)[:-1])
        intake.drop()
        assert len(intake.room()) == 0
        assert intake.held_bytes == 0
        intake.shrink()
        assert budget._used_bytes == 0
