"""When messages are due."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.apps.bench.load.send_schedule import NS_PER_S, SendSchedule


@given(
    rate=st.floats(min_value=0.1, max_value=1e6),
    started_ns=st.integers(0, 10**15),
    number=st.integers(0, 10**7),
)
def test_a_message_is_due_by_its_number_and_not_by_what_happened(
    rate: float, started_ns: int, number: int
) -> None:
    schedule = SendSchedule(rate, started_ns)
    due = schedule.due_ns(number, now_ns=10**18)
    assert abs((due - started_ns) - number / rate * NS_PER_S) < 1_000 + number / rate
    assert schedule.due_ns(number + 1, 0) >= due


def test_without_a_rate_a_message_is_due_when_it_can_be_sent() -> None:
    schedule = SendSchedule(None, 5)
    assert not schedule.is_open
    assert schedule.due_ns(7, now_ns=123) == 123
