"""Committed offsets that cannot be, and those that can although somebody else committed another one."""

from __future__ import annotations

import pytest

from checker import findings as kinds
from checker.analysis import analyse
from checker.history import (
    ASSIGN,
    COMMITTED,
    FAIL,
    INFO,
    INTENT,
    INVOKE,
    NEMESIS,
    OK,
    POLL,
    SEND,
    SUBSCRIBE,
    TXN,
    Event,
    merge,
)

KEY, RECORDS = 0, 10


class Group:
    """Ten records, members that read and commit them, and what the group has at the end."""

    def __init__(self, f: str = POLL, how: str = SUBSCRIBE) -> None:
        self._f = f
        self._how = how
        self._now_ns = 0
        self._events: list[Event] = []
        sent = [[SEND, KEY, [offset, offset]] for offset in range(RECORDS)]
        self._add(1000, INVOKE, SEND, [[SEND, KEY, offset] for offset in range(RECORDS)])
        self._add(1000, OK, SEND, sent)

    def _add(self, process: int, type_: str, f: str, value: object, **more: object) -> None:
        self._now_ns += 1
        self._events.append(Event(process, self._now_ns, type_, f, value, **more))  # type: ignore[arg-type]

    def begin(self, process: int, first: int, offset: int) -> None:
        """Read, and ask for the commit."""
        self._add(process, INVOKE, self._how, [KEY])
        self._add(process, OK, self._how, [KEY])
        self._add(process, INVOKE, self._f, [[POLL]])
        self._add(NEMESIS, INFO, INTENT, [process, {str(KEY): [first, offset]}])

    def end(self, process: int, first: int, offset: int, type_: str = OK) -> None:
        read = [[place, place] for place in range(first, offset)]
        self._add(process, type_, self._f, [[POLL, {KEY: read}]])

    def commit(self, process: int, first: int, offset: int, type_: str = OK) -> None:
        self.begin(process, first, offset)
        self.end(process, first, offset, type_)

    def judge(self, committed: int) -> list[str]:
        self._add(NEMESIS, INFO, COMMITTED, {str(KEY): committed})
        self._add(2000, INVOKE, ASSIGN, [KEY], from_beginning=True)
        self._add(2000, OK, ASSIGN, [KEY], from_beginning=True)
        self._add(2000, INVOKE, POLL, [[POLL]])
        self._add(2000, OK, POLL, [[POLL, {KEY: [[place, place] for place in range(RECORDS)]}]])
        return analyse(merge([self._events])).invalid_kinds


def test_the_last_commit_is_right() -> None:
    group = Group()
    group.commit(1, 0, 4)
    group.commit(2, 4, 7)
    assert group.judge(7) == []


@pytest.mark.parametrize("committed", [4, 6, -1001])
def test_an_older_or_invented_or_forgotten_one_is_not(committed: int) -> None:
    group = Group()
    group.commit(1, 0, 4)
    group.commit(2, 4, 7)
    assert group.judge(committed) == [kinds.WRONG_COMMIT]


@pytest.mark.parametrize("committed", [4, 7])
def test_of_two_at_the_same_time_either_may_be_last(committed: int) -> None:
    group = Group()
    group.begin(1, 0, 4)
    group.begin(2, 0, 7)
    group.end(2, 0, 7)
    group.end(1, 0, 4)
    assert group.judge(committed) == []


@pytest.mark.parametrize("committed", [4, 7])
def test_an_unknown_one_may_have_come_late(committed: int) -> None:
    group = Group()
    group.commit(1, 0, 4, INFO)
    group.commit(2, 0, 7)
    assert group.judge(committed) == []


def test_a_worker_that_was_killed_may_have_committed() -> None:
    group = Group()
    group.begin(1, 0, 4)
    assert group.judge(4) == []


def test_a_refusal_may_be_that_of_a_repeated_request() -> None:
    group = Group()
    group.commit(1, 0, 4, FAIL)
    assert group.judge(4) == []


def test_an_aborted_transaction_commits_nothing() -> None:
    group = Group(TXN, ASSIGN)
    group.commit(1, 0, 2)
    group.commit(2, 0, 4, FAIL)
    assert group.judge(4) == [kinds.WRONG_COMMIT]


def test_nobody_committed_and_there_is_nothing() -> None:
    assert Group().judge(-1001) == []
    assert Group().judge(3) == [kinds.WRONG_COMMIT]


def test_records_that_no_member_got() -> None:
    group = Group()
    group.commit(1, 0, 4)
    group.commit(2, 5, 7)
    assert group.judge(7) == [kinds.GROUP_SKIP]


def test_readers_by_hand_begin_where_they_like() -> None:
    group = Group(TXN, ASSIGN)
    group.commit(1, 5, 7)
    assert group.judge(7) == []
