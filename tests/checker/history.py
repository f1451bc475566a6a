"""A history: one JSON line per event, and the operations that the events pair up to. Never judges what it holds.

    {"index": 7, "process": 3, "time_ns": 123, "type": "ok", "f": "send", "value": [["send", 4, [17, 1001]]]}

`take` carries [key, offset, value, delivery, accepted | refused | unknown] for each message of a subscription.
`type` is invoke, then ok, info (nobody knows) or fail (certainly not done). Key k is partition k mod 2 of topic
t{k div 2}.
A micro-operation is ["send", k, v], completed ["send", k, [offset or null, v]], or ["poll"], completed
["poll", {k: [[offset, v], …]}]. `assign` and `subscribe` carry their keys, and `from_beginning` if they seek there.
Processes below zero are the nemesis and notes: they are not operations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INVOKE, OK, INFO, FAIL = "invoke", "ok", "info", "fail"
TYPES = (INVOKE, OK, INFO, FAIL)
SEND, POLL, TXN, ASSIGN, SUBSCRIBE, CRASH = "send", "poll", "txn", "assign", "subscribe", "crash"
TAKE = "take"
DATA = frozenset((SEND, POLL, TXN))
WORK = DATA | {TAKE}
DEBUG = "debug-topic-partitions"
RECEIPT = "receipt"
"""A note: [process, [[key, offset, value, delivery], …]] before a member of a subscription acknowledges them."""
INTENT, COMMITTED = "intent", "committed"
"""Notes about offsets: [process, {key: [first offset read, offset to commit]}] before a worker commits them, and
{key: offset} as a group has them at the end, below zero if it has none."""
POSITION_LOST = "position-lost"
"""A note: [process, error] of a consumer whose offset the broker does not have."""
NEMESIS = -1
PARTITIONS_PER_TOPIC = 2

Pair = tuple[int, int]
"""Offset and value."""


class MalformedHistory(ValueError):
    """The file is not a history: the line is named."""


def topic_of(key: int) -> tuple[str, int]:
    """The topic and the partition of a key."""
    return f"t{key // PARTITIONS_PER_TOPIC}", key % PARTITIONS_PER_TOPIC


def key_of(topic: str, partition: int) -> int:
    return int(topic.removeprefix("t")) * PARTITIONS_PER_TOPIC + partition


@dataclass(slots=True)
class Event:
    """One line of a history."""

    process: int
    time_ns: int
    type: str
    f: str
    value: Any = None
    index: int = -1
    from_beginning: bool = False
    rebalanced: list[int] = field(default_factory=list)
    error: str = ""

    def encode(self) -> str:
        line: dict[str, Any] = {
            "index": self.index,
            "process": self.process,
            "time_ns": self.time_ns,
            "type": self.type,
            "f": self.f,
            "value": self.value,
        }
        if self.from_beginning:
            line["from_beginning"] = True
        if self.rebalanced:
            line["rebalanced"] = self.rebalanced
        if self.error:
            line["error"] = self.error
        return json.dumps(line, separators=(",", ":"))


def decode(line: str) -> Event:
    try:
        event = Event(**json.loads(line))
    except (TypeError, ValueError) as error:
        raise MalformedHistory(f"not an event: {line[:200]!r}: {error}") from None
    if event.type not in TYPES:
        raise MalformedHistory(f"type {event.type!r} is none of {TYPES}: {line[:200]!r}")
    return event


def read_history(path: Path) -> list[Event]:
    with path.open(encoding="utf-8") as lines:
        return [decode(line) for line in lines]


def read_diary(path: Path) -> list[Event]:
    """A history whose writer may still be at it, or was killed: a last line without its end does not count."""
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [decode(line) for line in whole.splitlines()]


def write_history(path: Path, events: Iterable[Event]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(event.encode() + "\n" for event in events)


def merge(parts: Iterable[list[Event]]) -> list[Event]:
    """One history from those of several processes on one machine: ordered by time, numbered anew."""
    events = sorted((event for part in parts for event in part), key=lambda event: event.time_ns)
    for index, event in enumerate(events):
        event.index = index
    return events


@dataclass(slots=True, eq=False)
class Op:
    """An invocation with its completion. `completed` is None when nobody knows when, or whether, it ended."""

    process: int
    f: str
    type: str
    invoked: int
    """Place of the invocation in the history."""
    completed: int | None
    invoked_ns: int
    completed_ns: int | None
    sends: list[tuple[int, int | None, int]] = field(default_factory=list)
    """Key, offset if known, value, in the order of sending."""
    polls: dict[int, list[Pair]] = field(default_factory=dict)
    """What was read of each key, in the order of reading, over all polls of the operation."""
    keys: list[int] = field(default_factory=list)
    taken: list[list[Any]] = field(default_factory=list)
    """Messages of subscriptions: key, offset, value, delivery, and what came of the acknowledgement."""
    from_beginning: bool = False
    rebalanced: frozenset[int] = frozenset()
    error: str = ""

    def __str__(self) -> str:
        return f"#{self.invoked} {self.type} {self.f} of process {self.process}"


def operations(events: list[Event]) -> list[Op]:
    """Pair invocations with completions, in the order of invocation. What never completed is info."""
    found: list[Op] = []
    open_ops: dict[int, tuple[Event, Op]] = {}
    for place, event in enumerate(events):
        if event.process < 0:
            continue
        if event.type == INVOKE:
            if event.process in open_ops:
                raise MalformedHistory(f"process {event.process} invokes twice, at {place}")
            op = Op(event.process, event.f, INFO, place, None, event.time_ns, None)
            _fill(op, event.value, event)
            open_ops[event.process] = event, op
            found.append(op)
            continue
        if event.process not in open_ops:
            raise MalformedHistory(f"process {event.process} completes nothing, at {place}")
        invocation, op = open_ops.pop(event.process)
        if invocation.f != event.f:
            raise MalformedHistory(f"{event.f} completes {invocation.f}, at {place}")
        _complete(op, event, place)
    return found


def _complete(op: Op, event: Event, place: int) -> None:
    op.type = event.type
    op.error = event.error
    op.rebalanced = frozenset(event.rebalanced)
    if event.type != INFO:
        op.completed, op.completed_ns = place, event.time_ns
    if event.value is not None:
        op.sends, op.polls, op.keys = [], {}, []
        _fill(op, event.value, event)


def _fill(op: Op, value: Any, event: Event) -> None:
    if op.f in DATA:
        for mop in value or ():
            _add_mop(op, mop)
    elif op.f == TAKE:
        op.taken = list(value or ())
    elif op.f in (ASSIGN, SUBSCRIBE):
        op.keys = list(value or ())
        op.from_beginning = op.from_beginning or event.from_beginning


def _add_mop(op: Op, mop: list[Any]) -> None:
    if mop[0] == SEND:
        _, key, sent = mop
        offset, value = sent if isinstance(sent, (list, tuple)) else (None, sent)
        op.sends.append((key, offset, value))
    elif len(mop) > 1:
        for key, pairs in mop[1].items():
            op.polls.setdefault(int(key), []).extend(pairs)


def data_operations(ops: Iterable[Op]) -> Iterator[Op]:
    return (op for op in ops if op.f in DATA)
