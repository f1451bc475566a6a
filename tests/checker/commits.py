"""Anomalies of a group's committed offsets: one that cannot be the last, and records that they pass over.

A worker notes which offsets it is about to commit; the operation around it says what came of that. At the end the
committed offsets are read once, when nobody commits any more.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from checker import findings as kinds
from checker.findings import Findings
from checker.history import COMMITTED, FAIL, INTENT, NEMESIS, OK, SUBSCRIBE, TXN, Event, Op
from checker.versions import Versions


@dataclass(frozen=True, slots=True)
class Commit:
    """An attempt to commit `offset`, having read from `first` on. It took effect at some time between the two moments,
    if at all."""

    key: int
    first: int
    offset: int
    since_ns: int
    until_ns: float
    op: Op

    @property
    def is_sure(self) -> bool:
        return self.op.type == OK


def find_commit_anomalies(
    events: Iterable[Event], ops: list[Op], versions: Versions, found: Findings
) -> None:
    notes = [event for event in events if event.process == NEMESIS and event.f in (INTENT, COMMITTED)]
    attempts: dict[int, list[Commit]] = {}
    for commit in _commits(notes, ops):
        attempts.setdefault(commit.key, []).append(commit)
    subscribes = any(op.f == SUBSCRIBE for op in ops)
    for event in notes:
        if event.f == COMMITTED:
            for key, offset in sorted((int(key), offset) for key, offset in event.value.items()):
                _check_last(key, offset, attempts.get(key, []), found)
                if subscribes:
                    _check_read(key, offset, attempts.get(key, []), versions, found)


def _commits(notes: Iterable[Event], ops: list[Op]) -> Iterator[Commit]:
    """All that may have taken effect. A refused commit of a group's member may, too: a client that gets no answer asks
    again, and the second answer may be a refusal. A transaction that was aborted must not."""
    rows: dict[int, list[Op]] = {}
    for op in ops:
        rows.setdefault(op.process, []).append(op)
    for event in notes:
        if event.f != INTENT:
            continue
        process, positions = event.value
        row = rows[process]
        op = row[bisect_right(row, event.time_ns, key=lambda one: one.invoked_ns) - 1]
        if op.type == FAIL and op.f == TXN:
            continue
        until_ns = op.completed_ns if op.type == OK and op.completed_ns is not None else math.inf
        for key, (first, offset) in positions.items():
            yield Commit(int(key), first, offset, event.time_ns, until_ns, op)


def _check_last(key: int, offset: int, attempts: list[Commit], found: Findings) -> None:
    newest = max((one for one in attempts if one.is_sure), key=lambda one: one.since_ns, default=None)
    if (
        newest is None and offset <= 0
    ):  # groups start with the offset 0, which nobody in the history committed
        return
    since_ns = -1 if newest is None else newest.since_ns
    if not any(one.offset == offset and one.until_ns >= since_ns for one in attempts):
        last = "nobody committed any" if newest is None else f"{newest.op} committed {newest.offset}"
        found.add(kinds.WRONG_COMMIT, f"key {key} has the committed offset {offset}, and {last}")


def _check_read(key: int, offset: int, attempts: list[Commit], versions: Versions, found: Findings) -> None:
    """What lies before the committed offset was read by a member that may have committed it."""
    read = versions.read_ok.get(key, set())
    for place, value in sorted(versions.of(key).by_offset.items()):
        if place >= offset:
            return
        if value in read and not any(one.first <= place < one.offset for one in attempts):
            found.add(
                kinds.GROUP_SKIP,
                f"key {key} value {value} at {place} is before the committed offset {offset}, and no member got it",
            )
