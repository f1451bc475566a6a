"""How far readers were behind: since when was the next unread record acknowledged when a poll began? Never judges."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from checker.history import ASSIGN, OK, SUBSCRIBE, Op
from checker.versions import Versions


@dataclass(frozen=True, slots=True)
class Lag:
    """The worst lag, where it was, and how usual lags were."""

    polls: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    worst_ms: float = 0.0
    worst_process: int | None = None
    worst_key: int | None = None


def realtime_lag(ops: Iterable[Op], versions: Versions) -> Lag:
    """Over the polls of processes that were assigned their keys by hand: only they are sure what they ought to read."""
    stale_since = {key: _stale_since(key, versions) for key in versions.keys}
    assigned: dict[int, dict[int, int]] = {}
    lags: list[tuple[int, int, int]] = []
    for op in ops:
        if op.f == ASSIGN and op.type == OK:
            known = {} if op.from_beginning else assigned.get(op.process, {})
            assigned[op.process] = {key: known.get(key, -1) for key in op.keys}
        elif op.f == SUBSCRIBE:
            assigned.pop(op.process, None)
        elif op.type == OK and op.polls and op.process in assigned:
            lags += _lags_of(op, assigned[op.process], versions, stale_since)
    if not lags:
        return Lag()
    lags.sort()
    worst_ns, process, key = lags[-1]
    return Lag(len(lags), _ms(lags, 0.50), _ms(lags, 0.99), worst_ns / 1e6, process, key)


def _lags_of(
    op: Op, position: dict[int, int], versions: Versions, stale_since: dict[int, list[float]]
) -> list[tuple[int, int, int]]:
    lags = []
    for key in position:
        pairs = op.polls.get(key)
        if pairs:
            position[key] = versions.keys[key].first[pairs[-1][1]]
        since = stale_since.get(key, [])
        following = position[key] + 1
        lag_ns = op.invoked_ns - since[following] if following < len(since) else 0
        lags.append((max(0, int(lag_ns)) if lag_ns != -math.inf else 0, op.process, key))
    return lags


def _stale_since(key: int, versions: Versions) -> list[float]:
    """For each index: since when a record there or later is known to be acknowledged."""
    log = versions.keys[key]
    writers = versions.writer.get(key, {})
    since: list[float] = []
    earliest = math.inf
    for value in reversed(log.order):
        writer = writers.get(value)
        if writer is not None and writer.type == OK and writer.completed_ns is not None:
            earliest = min(earliest, writer.completed_ns)
        since.append(earliest)
    return since[::-1]


def _ms(lags: list[tuple[int, int, int]], share: float) -> float:
    return lags[min(len(lags) - 1, int(len(lags) * share))][0] / 1e6
