"""Anomalies of order: skips and steps back, inside one operation and from one to the next of a process."""

from __future__ import annotations

from collections.abc import Iterable

from checker import findings as kinds
from checker.findings import Findings
from checker.history import ASSIGN, DATA, FAIL, OK, SUBSCRIBE, Op
from checker.versions import Versions


def find_order_anomalies(ops: Iterable[Op], versions: Versions, found: Findings) -> None:
    by_process: dict[int, list[Op]] = {}
    for op in ops:
        by_process.setdefault(op.process, []).append(op)
        if op.f in DATA:
            _within_polls(op, versions, found)
            _within_sends(op, versions, found)
    for row in by_process.values():
        _between_polls(row, versions, found)
        _between_sends(row, versions, found)


def _within_polls(op: Op, versions: Versions, found: Findings) -> None:
    for key, pairs in op.polls.items():
        if key in op.rebalanced:
            continue
        first = versions.of(key).first
        before = -1
        for place, (_, value) in enumerate(pairs):
            index = first[value]
            if place and index != before + 1:
                kind = kinds.INT_POLL_SKIP if index > before else kinds.INT_NONMONOTONIC_POLL
                found.add(kind, _step(op, key, pairs[place - 1][1], before, value, index))
            before = index


def _within_sends(op: Op, versions: Versions, found: Findings) -> None:
    before: dict[int, tuple[int, int]] = {}
    for key, _, value in op.sends:
        index = versions.of(key).first.get(value)
        if index is None:
            continue
        if key in before and index != before[key][1] + 1:
            kind = kinds.INT_SEND_SKIP if index > before[key][1] else kinds.INT_NONMONOTONIC_SEND
            found.add(kind, _step(op, key, *before[key], value, index))
        before[key] = value, index


def _between_polls(row: list[Op], versions: Versions, found: Findings) -> None:
    """The last value read of a key, then the first one of the next operation that reads it."""
    last: dict[int, tuple[int, int]] = {}
    for op in row:
        if op.f in (ASSIGN, SUBSCRIBE):
            last = {} if op.from_beginning else {key: last[key] for key in op.keys if key in last}
        if op.type != OK:
            continue
        for key in op.rebalanced:
            last.pop(key, None)
        for key, pairs in op.polls.items():
            if not pairs:
                continue
            first = versions.of(key).first
            value = pairs[0][1]
            index = first[value]
            if key in last and index != last[key][1] + 1:
                kind = kinds.POLL_SKIP if index > last[key][1] else kinds.NONMONOTONIC_POLL
                found.add(kind, _step(op, key, *last[key], value, index))
            last[key] = pairs[-1][1], first[pairs[-1][1]]


def _between_sends(row: list[Op], versions: Versions, found: Findings) -> None:
    last: dict[int, tuple[int, int]] = {}
    for op in row:
        if op.type == FAIL:
            continue
        newest: dict[int, tuple[int, int]] = {}
        for key, _, value in op.sends:
            index = versions.of(key).first.get(value)
            if index is None:
                continue
            if key in last and key not in newest and index < last[key][1] + 1:
                found.add(kinds.NONMONOTONIC_SEND, _step(op, key, *last[key], value, index))
            newest[key] = value, index
        last.update(newest)


def _step(op: Op, key: int, before: int, before_index: int, value: int, index: int) -> str:
    return f"{op}: key {key} value {before} (index {before_index}), then {value} (index {index})"
