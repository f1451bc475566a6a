"""Anomalies of subscriptions: settled twice, never delivered, another message than the log has.

At least once: a message may come again until an acknowledgement of it was answered. Nothing is said about order.
"""

from __future__ import annotations

from collections.abc import Iterable

from checker import findings as kinds
from checker.findings import Findings
from checker.history import NEMESIS, RECEIPT, TAKE, Event, Op
from checker.versions import Versions

ACCEPTED = "accepted"


def find_queue_anomalies(events: Iterable[Event], ops: list[Op], versions: Versions, found: Findings) -> None:
    takes = [op for op in ops if op.f == TAKE]
    if not takes:
        return
    _settled_twice(takes, found)
    delivered: set[tuple[int, int]] = set()
    for event in events:
        if event.process == NEMESIS and event.f == RECEIPT:
            process, rows = event.value
            for key, offset, value, _ in rows:
                delivered.add((key, offset))
                written = versions.of(key).by_offset.get(offset)
                if written != value:
                    found.add(
                        kinds.WRONG_MESSAGE,
                        f"process {process} got {value} for key {key} offset {offset}, which holds {written}",
                    )
    for key, log in sorted(versions.keys.items()):
        acknowledged = versions.written_ok.get(key, set())
        for offset, value in sorted(log.by_offset.items()):
            if value in acknowledged and (key, offset) not in delivered:
                found.add(kinds.UNDELIVERED, f"key {key} value {value} at {offset} came to no member")


def _settled_twice(takes: Iterable[Op], found: Findings) -> None:
    settled: dict[tuple[int, int], Op] = {}
    for op in takes:
        for key, offset, _, delivery, outcome in op.taken:
            if outcome != ACCEPTED:
                continue
            earlier = settled.setdefault((key, offset), op)
            if earlier is not op:
                found.add(
                    kinds.SETTLED_TWICE,
                    f"key {key} offset {offset}: {earlier}, then {op} as delivery {delivery}",
                )
