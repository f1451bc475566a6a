"""A log that is right by construction, and its clients: valid histories from a seed. Never a broker, never a clock.

Sends, polls and transactions interleave at every step; some are left unknown or fail. Transactions hide behind a last
stable offset until their markers are written, as in the real thing; markers take offsets that nobody reads.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from checker.history import ASSIGN, CRASH, FAIL, INFO, INVOKE, OK, POLL, SEND, TXN, Event, merge

STEP_NS = 1000
POLL_RECORDS_MAX = 5
UNKNOWN_SHARE = 0.06
FAILED_SHARE = 0.06
ASSIGN_SHARE = 0.06
CRASH_SHARE = 0.01


@dataclass(slots=True)
class Record:
    offset: int
    value: int
    txn: int | None


@dataclass(slots=True)
class ModelLog:
    """One key. `records` holds no markers, but offsets count them."""

    records: list[Record] = field(default_factory=list)
    next_offset: int = 0

    def append(self, value: int, txn: int | None) -> int:
        self.records.append(Record(self.next_offset, value, txn))
        self.next_offset += 1
        return self.next_offset - 1


@dataclass(slots=True)
class Client:
    """One process and the operation that it is in the middle of."""

    process: int
    positions: dict[int, int] = field(default_factory=dict)
    invoked: Event | None = None
    todo: list[list[Any]] = field(default_factory=list)
    done: list[list[Any]] = field(default_factory=list)
    before: dict[int, int] = field(default_factory=dict)
    txn: int | None = None


class Model:
    """`Model(seed).history(ops)`: everything follows from the seed."""

    def __init__(self, seed: int, *, processes: int = 4, keys: int = 4, transactional: bool = False) -> None:
        self._rng = random.Random(seed)
        self._keys = range(keys)
        self._transactional = transactional
        self._logs = {key: ModelLog() for key in self._keys}
        self._open: set[int] = set()
        self._aborted: set[int] = set()
        self._stuck: list[int] = []
        self._txns = 0
        self._values = 0
        self._now_ns = 0
        self._events: list[Event] = []
        self._processes = processes
        self._clients = [Client(process) for process in range(processes)]

    def history(self, ops: int) -> list[Event]:
        """So many operations, then everybody reads everything from the beginning."""
        invoked = 0
        while invoked < ops:
            client = self._rng.choice(self._clients)
            if client.invoked is None:
                self._invoke(client)
                invoked += 1
            else:
                self._step(client)
        for client in self._clients:
            while client.invoked is not None:
                self._step(client)
        while self._stuck:
            self._end_txn(self._stuck.pop(), self._rng.random() < 0.5)
        for client in self._clients:
            self._read_all(client)
        return merge([self._events])

    def _record(self, client: Client, type_: str, f: str, value: Any, **more: Any) -> Event:
        self._now_ns += STEP_NS
        event = Event(client.process, self._now_ns, type_, f, value, **more)
        self._events.append(event)
        return event

    def _invoke(self, client: Client) -> None:
        chance = self._rng.random()
        if not client.positions or chance < ASSIGN_SHARE:
            self._assign(client, sorted(self._rng.sample(self._keys, self._rng.randint(1, len(self._keys)))))
            return
        if chance < ASSIGN_SHARE + CRASH_SHARE:
            self._record(client, INVOKE, CRASH, None)
            self._record(client, INFO, CRASH, None)
            self._renew(client)
            client.positions = {}
            return
        if self._transactional:
            f, mops = TXN, [self._mop(self._rng.random() < 0.5) for _ in range(self._rng.randint(1, 4))]
            self._txns += 1
            client.txn = self._txns
            self._open.add(client.txn)
        elif self._rng.random() < 0.5:
            f, mops = SEND, [self._mop(True) for _ in range(self._rng.randint(1, 3))]
        else:
            f, mops = POLL, [self._mop(False)]
        client.todo, client.done = list(mops), []
        client.before = dict(client.positions)
        client.invoked = self._record(client, INVOKE, f, mops)

    def _mop(self, is_send: bool) -> list[Any]:
        if not is_send:
            return [POLL]
        self._values += 1
        return [SEND, self._rng.choice(self._keys), self._values]

    def _assign(self, client: Client, keys: list[int], from_beginning: bool = False) -> None:
        self._record(client, INVOKE, ASSIGN, keys, from_beginning=from_beginning)
        kept = {} if from_beginning else client.positions
        client.positions = {key: kept.get(key, 0) for key in keys}
        self._record(client, OK, ASSIGN, keys, from_beginning=from_beginning)

    def _step(self, client: Client) -> None:
        """The next micro-operation of an open operation, or its end."""
        chance = self._rng.random()
        if client.todo and chance < UNKNOWN_SHARE / 2:
            self._leave_unknown(client)
        elif client.todo and not client.done and not self._transactional and chance < FAILED_SHARE:
            self._finish(client, FAIL, None)
        elif client.todo:
            client.done.append(self._do(client, client.todo.pop(0)))
        elif client.txn is not None and chance < FAILED_SHARE:
            self._end_txn(client.txn, False)
            client.positions = client.before
            self._finish(client, FAIL, client.done)
        elif chance < UNKNOWN_SHARE + FAILED_SHARE:
            self._leave_unknown(client)
        else:
            if client.txn is not None:
                self._end_txn(client.txn, True)
            self._finish(client, OK, client.done)

    def _leave_unknown(self, client: Client) -> None:
        """It may end either way, later. What was read counts, what was sent may carry its offset."""
        if client.txn is not None:
            self._stuck.append(client.txn)
        known = self._rng.random() < 0.5 and not client.todo
        self._finish(client, INFO, client.done if known else None)
        self._renew(client)
        if len(self._stuck) > self._rng.randint(0, 2):
            self._end_txn(self._stuck.pop(0), self._rng.random() < 0.5)

    def _finish(self, client: Client, type_: str, value: Any) -> None:
        assert client.invoked is not None
        self._record(client, type_, client.invoked.f, value)
        client.invoked, client.txn, client.todo, client.done = None, None, [], []

    def _renew(self, client: Client) -> None:
        """An unknown end is the end of a process; its client starts anew under another number."""
        client.process += self._processes
        client.positions = {}

    def _do(self, client: Client, mop: list[Any]) -> list[Any]:
        if mop[0] == SEND:
            _, key, value = mop
            return [SEND, key, [self._logs[key].append(value, client.txn), value]]
        return [POLL, self._poll(client)]

    def _poll(self, client: Client) -> dict[int, list[list[int]]]:
        read: dict[int, list[list[int]]] = {}
        for key in sorted(client.positions):
            log = self._logs[key]
            stable = min((r.offset for r in log.records if r.txn in self._open), default=log.next_offset)
            visible = [
                record
                for record in log.records
                if client.positions[key] <= record.offset < stable and record.txn not in self._aborted
            ][: self._rng.randint(1, POLL_RECORDS_MAX)]
            if visible:
                read[key] = [[record.offset, record.value] for record in visible]
                client.positions[key] = visible[-1].offset + 1
        return read

    def _end_txn(self, txn: int, commit: bool) -> None:
        self._open.discard(txn)
        if not commit:
            self._aborted.add(txn)
        for log in self._logs.values():
            if any(record.txn == txn for record in log.records):
                log.next_offset += 1

    def _read_all(self, client: Client) -> None:
        self._renew(client)
        self._assign(client, list(self._keys), from_beginning=True)
        while True:
            self._record(client, INVOKE, POLL, [[POLL]])
            read = self._poll(client)
            self._record(client, OK, POLL, [[POLL, read]])
            if not read:
                return
