"""Subscriptions that deliver at least once and settle once, and those that do not."""

from __future__ import annotations

import pytest

from checker import findings as kinds
from checker.analysis import analyse
from checker.history import INFO, INVOKE, NEMESIS, OK, POLL, RECEIPT, SEND, TAKE, Event, merge

KEY, RECORDS = 0, 4
ACCEPTED, REFUSED, UNKNOWN = "accepted", "refused", "unknown"


class Shop:
    """Four messages, and members that take them."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._events: list[Event] = []
        self._do(1000, SEND, [[SEND, KEY, [offset, 100 + offset]] for offset in range(RECORDS)])
        self._do(1001, POLL, [[POLL, {KEY: [[offset, 100 + offset] for offset in range(RECORDS)]}]])

    def _add(self, process: int, type_: str, f: str, value: object) -> None:
        self._now_ns += 1
        self._events.append(Event(process, self._now_ns, type_, f, value))

    def _do(self, process: int, f: str, value: object) -> None:
        self._add(process, INVOKE, f, None)
        self._add(process, OK, f, value)

    def take(
        self, process: int, offsets: range, outcome: str, *, value: int = 100, killed: bool = False
    ) -> None:
        rows = [[KEY, offset, value + offset, 1] for offset in offsets]
        self._add(process, INVOKE, TAKE, None)
        self._add(NEMESIS, INFO, RECEIPT, [process, rows])
        if not killed:
            type_ = INFO if outcome == UNKNOWN else OK
            self._add(process, type_, TAKE, [[*row, outcome] for row in rows])

    def judge(self) -> dict[str, int]:
        verdict = analyse(merge([self._events]))
        return {kind: verdict.findings.counts[kind] for kind in verdict.invalid_kinds}


def test_each_message_is_settled_once() -> None:
    shop = Shop()
    shop.take(1, range(2), ACCEPTED)
    shop.take(2, range(2, RECORDS), ACCEPTED)
    assert shop.judge() == {}


@pytest.mark.parametrize("outcome", [UNKNOWN, REFUSED])
def test_a_message_may_come_again_until_it_is_settled(outcome: str) -> None:
    shop = Shop()
    shop.take(1, range(RECORDS), outcome)
    shop.take(2, range(RECORDS), ACCEPTED)
    assert shop.judge() == {}


def test_a_late_acknowledgement_that_is_refused_does_no_harm() -> None:
    shop = Shop()
    shop.take(1, range(RECORDS), ACCEPTED)
    shop.take(2, range(1), REFUSED)
    assert shop.judge() == {}


def test_a_settled_message_that_comes_again_and_is_settled_again() -> None:
    shop = Shop()
    shop.take(1, range(RECORDS), ACCEPTED)
    shop.take(2, range(1), ACCEPTED)
    assert shop.judge() == {kinds.SETTLED_TWICE: 1}


def test_a_message_that_came_to_nobody() -> None:
    shop = Shop()
    shop.take(1, range(1, RECORDS), ACCEPTED)
    assert shop.judge() == {kinds.UNDELIVERED: 1}


def test_a_member_that_was_killed_has_noted_what_it_got() -> None:
    shop = Shop()
    shop.take(1, range(RECORDS), ACCEPTED, killed=True)
    assert shop.judge() == {}


def test_another_message_than_the_log_has() -> None:
    shop = Shop()
    shop.take(1, range(RECORDS), ACCEPTED, value=200)
    assert shop.judge() == {kinds.WRONG_MESSAGE: RECORDS}
