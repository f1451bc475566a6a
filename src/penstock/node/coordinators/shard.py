"""One partition of an internal topic and its machine: persists events, replays them, and calls back once they are
durable.

    RESIGNED ── lead(epoch) ──▶ REPLAYING ──▶ RESUMING ──▶ LEADING ── resign() ──▶ RESIGNED

Every change takes the same steps: the machine decides, the shard appends the events, the machine applies them, and the
caller is answered once they are durable. Recovery is replay. There is no rollback: a shard that resigns discards its
machine. Subclasses decide and answer, one for each kind of machine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from penstock.core.errors import BrokerError, Loading, NotCoordinator, Offline
from penstock.core.machine import Records
from penstock.core.model import NO_EPOCH, NewRecord
from penstock.core.records.batch import decode_header
from penstock.core.records.build import build_batch, open_batch
from penstock.node.replicas.offset_waits import Settled
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced
from penstock.node.runtime.tasks import resolver

REPLAY_BYTES = 1 << 16
"""Bytes of the partition read at a time during replay."""
READ_UNITS = 16
"""Cost of reading and verifying that many bytes, see SLICE_UNITS."""
RECORD_UNITS = 2
"""Cost of decoding and applying one record."""
YIELD_UNITS = 64
"""Units of a replay between two yields: a yield for every batch, most of which are small, would cost too much."""


class Machine(Protocol):
    """A state machine that a shard hosts."""

    def apply(self, event: Any) -> None: ...


MachineT = TypeVar("MachineT", bound=Machine)


class Stage(IntEnum):
    """Lifecycle of a shard; see the diagram above."""

    RESIGNED = 0
    REPLAYING = 1
    RESUMING = 2
    """The replay is complete and unfinished work is resumed; calls are not served yet."""
    LEADING = 3


class Shard(Generic[MachineT]):
    """Created for each partition of the topic. Serves no calls until `lead`."""

    def __init__(
        self, partition: Partition, make_machine: Callable[[], MachineT], records: Records, runtime: Runtime
    ) -> None:
        self.partition = partition
        self.machine = make_machine()
        self.epoch = NO_EPOCH
        """The coordinator epoch: stamped on transaction markers, it fences those of earlier coordinators."""
        self.stage = Stage.RESIGNED
        self.end_offset = 0
        """The offset that must be committed for everything persisted so far to be durable."""
        self._make_machine = make_machine
        self._records = records
        self._runtime = runtime
        self._term = 0
        """Incremented with every change of leadership: work of an earlier term must not touch the current machine."""
        self._offsets: dict[str, int] = {}
        """Key → the offset that must be durable before a reply may report the state of that key."""
        self._waits: deque[tuple[int, str | int, Settled]] = deque()
        """(offset, what, callback) in order of arrival, which is mostly offset order."""
        self._is_waiting = False
        """The partition calls back once the first of them is durable."""
        self._loads: list[asyncio.Future[None]] = []

    # -- leadership

    def lead(self, epoch: int) -> None:
        """Take over this partition: replay it in slices, then serve. Until then callers get Loading.

        A stale call, with an epoch below the current one, changes nothing.
        """
        if epoch < self.epoch or (epoch == self.epoch and self.stage is not Stage.RESIGNED):
            return
        self.resign(f"{self.partition} is being replayed for coordinator epoch {epoch}")
        self.epoch = epoch
        self.stage = Stage.REPLAYING
        self._term += 1
        # Events that an earlier term appended may still become durable after this. The replay reads up to the high
        # watermark only, so starting before they are committed would leave them out of this machine for good.
        self.partition.when_committed(self.partition.end_offset, partial(self._start, self._term))

    def _start(self, term: int, error: BrokerError | None) -> None:
        if error is not None:
            self._taken_over(term, None)
        elif self._term == term:
            self._runtime.slices.go(self._take_over(term), partial(self._taken_over, term))

    def _take_over(self, term: int) -> Sliced[None]:
        # The term is checked after every slice: resign() and a newer lead() swap the machine while this is suspended.
        for work, stage in ((self._replay, Stage.RESUMING), (self._resume, Stage.LEADING)):
            for units in work():
                yield units
                if self._term != term:
                    return
            self.stage = stage

    def _taken_over(self, term: int, outcome: object) -> None:
        """End the replay. Undecodable records take the partition offline: partially replayed state must not be
        served."""
        if self._term != term:
            return
        if isinstance(outcome, BrokerError):
            self.partition.fail(outcome)
        elif isinstance(outcome, Exception):
            self.partition.fail(Offline(f"defect: {outcome!r}"))
        self._end_loads()

    def _replay(self) -> Sliced[None]:
        """Replay the partition up to the high watermark.

        Reads by offset, one chunk at a time: compaction may replace segments between two slices.
        """
        offset, units = self.partition.start_offset, 0
        decode, apply = self._records.decode, self.machine.apply
        while (found := self.partition.read(offset, REPLAY_BYTES)) is not None:
            content, position = memoryview(found.read()), 0
            yield units + READ_UNITS
            units = 0
            while position < len(content):
                header = decode_header(content, position)
                batch = content[position : position + header.size]
                position += header.size
                if header.is_control:
                    continue
                for record in open_batch(batch, header):
                    event = decode(record.key, record.value)
                    if event is not None:
                        apply(event)
                    units += RECORD_UNITS
                    if units >= YIELD_UNITS:
                        yield units
                        units = 0
            offset = found.end_offset

    def _resume(self) -> Sliced[None]:
        """Resume what an earlier coordinator left unfinished, before calls are served. For subclasses."""
        yield 0

    async def loaded(self) -> None:
        """Wait until the replay has ended, successfully or not; returns immediately if none is running."""
        if self.is_loading:
            self._loads.append(asyncio.get_running_loop().create_future())
            await self._loads[-1]

    @property
    def is_loading(self) -> bool:
        return Stage.RESIGNED < self.stage < Stage.LEADING and self.partition.failure is None

    @property
    def is_ready(self) -> bool:
        return self.stage is Stage.LEADING and self.partition.failure is None

    def check_ready(self) -> None:
        """Raises NotCoordinator, Loading or Offline unless the shard serves calls."""
        if self.stage is Stage.LEADING and self.partition.failure is None:
            return
        if self.stage is Stage.RESIGNED:
            raise NotCoordinator(f"{self.partition} is not coordinated here")
        self.partition.check_online()
        raise Loading(f"{self.partition} is still being replayed")

    def resign(self, why: str = "") -> None:
        """Stop immediately: waiting callers get NotCoordinator, and the machine is discarded."""
        if self.stage is Stage.RESIGNED:
            return
        self.stage = Stage.RESIGNED
        self._term += 1
        error = NotCoordinator(why or f"{self.partition} is no longer coordinated here")
        waits, self._waits, self._is_waiting = self._waits, deque(), False
        self._offsets.clear()
        self.end_offset = 0
        self._on_resign(error)
        self.machine = self._make_machine()
        while waits:
            waits.popleft()[2](error)
        self._end_loads()

    def _on_resign(self, error: NotCoordinator) -> None:
        """Answer every call that the subclass holds, and cancel its timers and tasks. For subclasses."""

    def _end_loads(self) -> None:
        loads, self._loads = self._loads, []
        for load in loads:
            if not load.done():
                load.set_result(None)

    # -- changes

    def persist(self, events: Sequence[Any], *keys: str) -> int:
        """Append the persistent events as one batch, then apply all events.

        Returns the offset that must be durable before a caller is answered; `when_persisted` accepts it or any of the
        keys. Raises, with nothing applied, if they cannot be appended.
        """
        end_offset = self._append(events, keys)
        self._apply(events)
        return end_offset

    def _append(self, events: Sequence[Any], keys: Iterable[str]) -> int:
        self._check_whole()
        encode = self._records.encode
        stored = [NewRecord(*encode(event)) for event in events if self._records.is_persisted(event)]
        if stored:
            batch = build_batch(stored, self._runtime.clock.now_ms())
            self.end_offset = self.partition.append_own(batch).end_offset
            for key in keys:
                self._offsets[key] = self.end_offset
        return self.end_offset

    def _check_whole(self) -> None:
        """Raises unless the machine may be changed: only a shard that leads or resumes writes."""
        if self.stage < Stage.RESUMING or self.partition.failure is not None:
            self.check_ready()

    def _apply(self, events: Iterable[Any]) -> None:
        apply = self.machine.apply
        for event in events:
            apply(event)

    # -- waits

    def when_persisted(self, what: str | int, settled: Settled) -> None:
        """Call back once everything persisted under a key, or before an offset, is durable; immediately if it is."""
        if self.stage is Stage.RESIGNED:
            settled(NotCoordinator(f"{self.partition} is not coordinated here"))
            return
        offset = self._offsets.get(what) if isinstance(what, str) else what
        if offset is None:
            settled(None)
            return
        if offset <= self.partition.high_watermark and self.partition.failure is None:
            self._forget(what, offset)
            settled(None)
            return
        self._waits.append((offset, what, settled))
        if not self._is_waiting:
            self._wait()

    def _wait(self) -> None:
        """Wait for the first offset: one flush makes many durable, and only the first needs a wait of the partition."""
        self._is_waiting = True
        self.partition.when_committed(self._waits[0][0], partial(self._settle, self._term))

    def _settle(self, term: int, error: BrokerError | None) -> None:
        if self._term != term:
            return  # resign() has answered them
        waits, durable_offset = self._waits, self.partition.high_watermark
        try:
            while waits and (waits[0][0] <= durable_offset or error is not None):
                offset, what, settled = waits.popleft()
                if error is None:
                    self._forget(what, offset)
                settled(error)
        finally:  # a defect in one callback must not block the others
            if self._term == term:
                self._is_waiting = False
                if waits:
                    self._wait()

    def _forget(self, what: str | int, durable_offset: int) -> None:
        """Drop the offset of a key, unless more was persisted under it meanwhile."""
        if isinstance(what, str) and self._offsets.get(what) == durable_offset:
            del self._offsets[what]

    async def persisted(self, what: str | int) -> None:
        """Like `when_persisted`, for coroutines; raises the error. Also if the shard has resigned before the coroutine
        could go on: its machine is another one then."""
        term = self._term
        done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self.when_persisted(what, resolver(done))
        error = await done
        if error is not None:
            raise error
        if self._term != term:
            raise NotCoordinator(f"{self.partition} is no longer coordinated here")
