"""One worker: takes the next step, does it with its stack, writes down invocation and completion. Never retries a step.

An unknown outcome ends a process: the worker goes on under the next number, and with a new client if the old one is
not to be trusted. Each line is in the file before the next thing happens, so kill -9 loses none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from checker.history import (
    ASSIGN,
    CRASH,
    FAIL,
    INFO,
    INTENT,
    INVOKE,
    NEMESIS,
    OK,
    POLL,
    POSITION_LOST,
    SEND,
    SUBSCRIBE,
    TXN,
    Event,
    topic_of,
)
from checker.workers.diary import Diary
from checker.workers.generator import Generator, Step
from checker.workers.stack import NotDone, Polled, PositionLost, Stack, Unknown

FINAL_QUIET_S = 5.0
"""Without a record for this long, the final reader tears its client down and starts from the beginning."""
PAUSE_S = 0.05
"""Between something that did not end well and the next try."""


class Worker:
    """Drives one stack. `process` counts up from the given number."""

    def __init__(self, make_stack: Callable[[], Stack], diary: Diary, process: int, *, grouped: bool) -> None:
        self._make_stack = make_stack
        self._diary = diary
        self._process = process
        self._grouped = grouped
        self._stack: Stack | None = None
        self._positions: dict[int, int] = {}
        self._assigned: list[int] = []
        self._reads = False
        """Whether the consumer has been told what to read."""

    def run(self, generator: Generator, is_over: Callable[[], bool]) -> None:
        """The load, until told to stop."""
        while not is_over():
            if self._stack is None and not self._reopen():
                generator.has_chosen = False
                continue
            step = generator.next() if self._reads else self._choose_again(generator)
            if not self._take(step, generator):
                time.sleep(PAUSE_S)

    def _choose_again(self, generator: Generator) -> Step:
        generator.has_chosen = False
        return generator.next()

    def read_all(self, targets: dict[int, int], until: Callable[[], bool]) -> bool:
        """The end of a run: from the beginning of every key to the last offset known of it, as often as it takes."""
        while not until():
            self._take(Step(CRASH), None)
            if not self._reopen():
                continue
            if not self._take(Step(ASSIGN, sorted(targets), from_beginning=True), None):
                continue
            moved_s = time.monotonic()
            while self._stack is not None and time.monotonic() - moved_s < FINAL_QUIET_S and not until():
                before = dict(self._positions)
                self._take(Step(POLL, [[POLL]]), None)
                if all(self._positions.get(key, 0) > offset for key, offset in targets.items()):
                    return True
                if self._positions != before:
                    moved_s = time.monotonic()
        return False

    def _reopen(self) -> bool:
        stack = self._make_stack()
        try:
            stack.open()
        except (Unknown, NotDone):
            stack.close()
            time.sleep(PAUSE_S)
            return False
        self._stack = stack
        return True

    def _drop(self) -> None:
        """The client is gone, and with it what it was reading."""
        if self._stack is not None:
            self._stack.close()
        self._stack, self._reads = None, False
        self._positions, self._assigned = {}, []

    def _write(self, type_: str, step: Step, value: Any, error: str = "") -> None:
        rebalanced = sorted(self._stack.rebalanced) if self._stack is not None and type_ != INVOKE else []
        self._diary.write(
            Event(
                self._process,
                time.monotonic_ns(),
                type_,
                step.f,
                value,
                from_beginning=step.from_beginning,
                rebalanced=rebalanced,
                error=error,
            )
        )

    def _take(self, step: Step, generator: Generator | None) -> bool:
        """Invoke, do, complete. True if it was ok."""
        if self._stack is not None:
            self._stack.rebalanced.clear()
        self._write(INVOKE, step, step.value)
        if step.f == CRASH:
            self._drop()
            self._write(INFO, step, None)
            self._process += 1
            return False
        assert self._stack is not None
        done: list[list[Any]] = []
        first: dict[int, int] = {}
        try:
            self._do(self._stack, step, generator, done, first)
        except NotDone as refusal:
            self._seek_back(first)
            self._write(FAIL, step, _whole(step, done), str(refusal))
            return False
        except Unknown as unknown:
            self._end_unknown(step, done, first, unknown)
            return False
        self._write(OK, step, done if step.f in (SEND, POLL, TXN) else step.value)
        return True

    def _end_unknown(
        self, step: Step, done: list[list[Any]], first: dict[int, int], unknown: Unknown
    ) -> None:
        if not unknown.is_fatal and self._stack is not None:
            self._seek_back(first)
        if isinstance(unknown, PositionLost):
            note = [self._process, str(unknown)]
            self._diary.write(Event(NEMESIS, time.monotonic_ns(), INFO, POSITION_LOST, note))
        self._write(INFO, step, _whole(step, done), str(unknown))
        self._process += 1
        if unknown.is_fatal:
            self._drop()

    def _seek_back(self, first: dict[int, int]) -> None:
        """What an operation read and did not keep is read again."""
        if not first or self._stack is None:
            return
        self._positions.update(first)
        try:
            self._stack.seek(first)
        except (Unknown, NotDone):
            self._drop()

    def _do(
        self,
        stack: Stack,
        step: Step,
        generator: Generator | None,
        done: list[list[Any]],
        first: dict[int, int],
    ) -> None:
        if step.f == ASSIGN:
            self._assign(stack, step)
        elif step.f == SUBSCRIBE:
            stack.subscribe(sorted({topic_of(key)[0] for key in step.value}))
            self._assigned, self._reads = step.value, True
        elif step.f == SEND:
            self._send(stack, step.value, done, generator)
        elif step.f == POLL:
            self._poll(stack, done, first, generator)
            if self._grouped and first and self._reads:
                stack.commit(self._intended(first))
        else:
            assert generator is not None
            self._transact(stack, step, generator, done, first)

    def _assign(self, stack: Stack, step: Step) -> None:
        kept = {} if step.from_beginning else self._positions
        positions = {key: kept.get(key, 0) for key in step.value}
        stack.assign(positions)
        self._positions, self._assigned, self._reads = positions, step.value, True

    def _send(
        self, stack: Stack, mops: list[list[Any]], done: list[list[Any]], generator: Generator | None
    ) -> None:
        """All at once; if some acknowledgements are missing, the whole is unknown and the rest keep their offsets."""
        offsets = stack.send([(key, value) for _, key, value in mops])
        done += [[SEND, key, [offset, value]] for (_, key, value), offset in zip(mops, offsets, strict=True)]
        if any(offset is None for offset in offsets):
            raise Unknown("no acknowledgement")
        if generator is not None:
            generator.saw([key for _, key, _ in mops], [])

    def _poll(
        self, stack: Stack, done: list[list[Any]], first: dict[int, int], generator: Generator | None
    ) -> None:
        polled: Polled = stack.poll()
        done.append([POLL, polled])
        for key, pairs in polled.items():
            first.setdefault(key, pairs[0][0])
            self._positions[key] = pairs[-1][0] + 1
        if generator is not None:
            generator.saw([], list(polled))

    def _transact(
        self,
        stack: Stack,
        step: Step,
        generator: Generator,
        done: list[list[Any]],
        first: dict[int, int],
    ) -> None:
        """Consume, transform, produce: reads become offsets of the same transaction as the sends."""
        stack.begin()
        try:
            for mop in step.value:
                if mop[0] == SEND:
                    self._send(stack, [mop], done, generator)
                else:
                    self._poll(stack, done, first, generator)
            if generator.wants_abort():
                raise NotDone("aborted on purpose")
            if first:
                stack.add_offsets(self._intended(first))
        except (Unknown, NotDone) as trouble:
            self._abort(stack, trouble)
        stack.commit_transaction()

    def _intended(self, first: dict[int, int]) -> dict[int, int]:
        """The positions to commit, noted before anything is asked: also of a worker that is killed it is known."""
        positions = {key: self._positions[key] for key in first}
        spans = {key: [first[key], position] for key, position in positions.items()}
        self._diary.write(Event(NEMESIS, time.monotonic_ns(), INFO, INTENT, [self._process, spans]))
        return positions

    def _abort(self, stack: Stack, trouble: Unknown | NotDone) -> None:
        """An abort that succeeds makes the transaction certainly not done; one that does not leaves it open."""
        if isinstance(trouble, Unknown) and trouble.is_fatal:
            raise trouble
        try:
            stack.abort_transaction()
        except (Unknown, NotDone) as worse:
            raise Unknown(f"{trouble}; then the abort: {worse}", is_fatal=True) from None
        raise NotDone(f"aborted: {trouble}") from None


def _whole(step: Step, done: list[list[Any]]) -> Any:
    """What is known of an operation that did not end well: what was done of it, then what was only asked."""
    if step.f not in (SEND, POLL, TXN):
        return step.value
    return done + step.value[len(done) :]
