"""The whole judgement of a history: anomalies, what of them is allowed, figures. Never reads a file or a clock."""

from __future__ import annotations

from dataclasses import dataclass

from checker import findings as kinds
from checker.commits import find_commit_anomalies
from checker.cycles import find_cycles
from checker.findings import Findings, allowed_kinds
from checker.history import INFO, NEMESIS, OK, POSITION_LOST, SUBSCRIBE, WORK, Event, Op, operations
from checker.lag import Lag, realtime_lag
from checker.queue import find_queue_anomalies
from checker.sequences import find_order_anomalies
from checker.values import find_value_anomalies
from checker.versions import Versions


@dataclass(frozen=True, slots=True)
class Counts:
    """How much happened: a history in which nothing did proves nothing."""

    ops: int
    ok: int
    info: int
    fail: int
    acked: int
    """Values whose sending was acknowledged."""
    polled: int
    """Different values that were read."""


@dataclass(frozen=True, slots=True)
class Verdict:
    counts: Counts
    findings: Findings
    allowed: frozenset[str]
    lag: Lag

    @property
    def invalid_kinds(self) -> list[str]:
        return self.findings.outside(self.allowed)

    @property
    def is_valid(self) -> bool:
        return not self.invalid_kinds


def analyse(events: list[Event], *, ww_edges: bool = False) -> Verdict:
    """`ww_edges` adds the order of versions to the graph, which makes cycles through it visible and allowed."""
    ops = operations(events)
    versions = Versions(ops)
    found = Findings()
    find_value_anomalies(versions, found)
    find_order_anomalies(ops, versions, found)
    find_commit_anomalies(events, ops, versions, found)
    find_queue_anomalies(events, ops, versions, found)
    _find_resets(events, found)
    find_cycles(versions, found, ww_edges=ww_edges)
    subscribes = any(op.f == SUBSCRIBE for op in ops)
    return Verdict(
        _counts(ops, versions),
        found,
        allowed_kinds(subscribes=subscribes, ww_edges=ww_edges),
        realtime_lag(ops, versions),
    )


def _find_resets(events: list[Event], found: Findings) -> None:
    """Nothing is ever deleted, so a consumer that goes on where it was never has to start anywhere else."""
    for event in events:
        if event.process == NEMESIS and event.f == POSITION_LOST:
            process, error = event.value
            found.add(kinds.OFFSET_RESET, f"process {process}: {error}")


def _counts(ops: list[Op], versions: Versions) -> Counts:
    data = [op for op in ops if op.f in WORK]
    ok = sum(op.type == OK for op in data)
    info = sum(op.type == INFO for op in data)
    return Counts(
        ops=len(data),
        ok=ok,
        info=info,
        fail=len(data) - ok - info,
        acked=sum(len(values) for values in versions.written_ok.values()),
        polled=sum(len(values) for values in versions.read_ok.values()),
    )
