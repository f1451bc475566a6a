"""One partition of an internal topic and the machine on it: persists events, replays them, tells when they are durable.

    RESIGNED ── lead(epoch) ──▶ REPLAYING ──▶ RESUMING ──▶ LEADING ── resign() ──▶ RESIGNED

The order of a change is always the same: the machine decides, the shard appends the events, the machine applies them,
and the answer goes out once they are durable. Recovery is replay. There is no rollback: a shard that resigns throws
its machine away. Deciding and answering are left to the subclasses, one for each kind of machine.
"""

from __future__ import annotations

import asyncio
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
from penstock.node.runtime.slices import Sliced, chunks
from penstock.node.runtime.tasks import resolver

REPLAY_BYTES = 1 << 16
"""How much of the partition is read at a time while it is replayed."""
READ_UNITS = 16
"""What it costs to read and check so much, see SLICE_UNITS."""
RECORD_UNITS = 2
"""What it costs to decode and apply one record."""


class Machine(Protocol):
    """What a shard hosts."""

    def apply(self, event: Any) -> None: ...


MachineT = TypeVar("MachineT", bound=Machine)


class Stage(IntEnum):
    """How far a shard has come; see the module."""

    RESIGNED = 0
    REPLAYING = 1
    RESUMING = 2
    """The machine is whole and work that was left undone is taken up; nobody else is served yet."""
    LEADING = 3


class Shard(Generic[MachineT]):
    """Made for each partition of the topic. Serves nobody until it is told to lead."""

    def __init__(
        self, partition: Partition, make_machine: Callable[[], MachineT], records: Records, runtime: Runtime
    ) -> None:
        self.partition = partition
        self.machine = make_machine()
        self.epoch = NO_EPOCH
        """The coordinator epoch: it is written into transaction markers, and fences those of earlier coordinators."""
        self.stage = Stage.RESIGNED
        self.end_offset = 0
        """What must be durable before all that was persisted so far is."""
        self._make_machine = make_machine
        self._records = records
        self._runtime = runtime
        self._term = 0
        """Goes up with every change of leadership: work of an earlier term must not touch the present machine."""
        self._offsets: dict[str, int] = {}
        """Key → the offset that must be durable before anything more is said about what the key names."""
        self._waiting: dict[int, Settled] = {}
        self._waits_made = 0
        self._loads: list[asyncio.Future[None]] = []

    # -- leading

    def lead(self, epoch: int) -> None:
        """Coordinate what lives on this partition: replay it in slices, then serve. Until then callers get Loading.

        An order that was overtaken, with an epoch before the present one, changes nothing.
        """
        if epoch < self.epoch or (epoch == self.epoch and self.stage is not Stage.RESIGNED):
            return
        self.resign(f"{self.partition} is being read again by the coordinator of epoch {epoch}")
        self.epoch = epoch
        self.stage = Stage.REPLAYING
        self._term += 1
        # What an earlier term appended counts once it is durable: replaying before that would miss it for good.
        self.partition.when_committed(self.partition.end_offset, partial(self._start, self._term))

    def _start(self, term: int, error: BrokerError | None) -> None:
        if error is not None:
            self._taken_over(term, None)
        elif self._term == term:
            self._runtime.slices.go(self._take_over(term), partial(self._taken_over, term))

    def _take_over(self, term: int) -> Sliced[None]:
        for work, stage in ((self._replay, Stage.RESUMING), (self._resume, Stage.LEADING)):
            for units in work():
                yield units
                if self._term != term:
                    return
            self.stage = stage

    def _taken_over(self, term: int, outcome: object) -> None:
        """Bytes that cannot be understood take the partition offline: state half read must not be served."""
        if self._term != term:
            return
        if isinstance(outcome, BrokerError):
            self.partition.fail(outcome)
        elif isinstance(outcome, Exception):
            self.partition.fail(Offline(f"defect: {outcome!r}"))
        self._end_loads()

    def _replay(self) -> Sliced[None]:
        """Bring the machine to the high watermark.

        Read by offset, chunk by chunk: compaction may replace segments while this waits for its next turn.
        """
        offset = self.partition.start_offset
        while (found := self.partition.read(offset, REPLAY_BYTES)) is not None:
            content, position = memoryview(found.read()), 0
            yield READ_UNITS
            while position < len(content):
                header = decode_header(content, position)
                batch = content[position : position + header.size]
                position += header.size
                if header.is_control:
                    continue
                for records in chunks(open_batch(batch, header)):
                    for record in records:
                        event = self._records.decode(record.key, record.value)
                        if event is not None:
                            self.machine.apply(event)
                    yield RECORD_UNITS * len(records)
            offset = found.end_offset

    def _resume(self) -> Sliced[None]:
        """Take up what an earlier coordinator left undone, before anybody is served. For subclasses."""
        yield 0

    async def loaded(self) -> None:
        """Wait until the replay has ended, well or not; returns at once when none is under way."""
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
        """Raises unless calls can be served here now."""
        if self.stage is Stage.LEADING and self.partition.failure is None:
            return
        if self.stage is Stage.RESIGNED:
            raise NotCoordinator(f"{self.partition} is not coordinated here")
        self.partition.check_online()
        raise Loading(f"{self.partition} is still being read")

    def resign(self, why: str = "") -> None:
        """Stop at once: whoever waits is told NotCoordinator, and the machine is thrown away."""
        if self.stage is Stage.RESIGNED:
            return
        self.stage = Stage.RESIGNED
        self._term += 1
        error = NotCoordinator(why or f"{self.partition} is no longer coordinated here")
        waiting, self._waiting = self._waiting, {}
        self._offsets.clear()
        self.end_offset = 0
        self._on_resign(error)
        self.machine = self._make_machine()
        for settled in waiting.values():
            settled(error)
        self._end_loads()

    def _on_resign(self, error: NotCoordinator) -> None:
        """Answer every call that the subclass holds, and end its timers and tasks. For subclasses."""

    def _end_loads(self) -> None:
        loads, self._loads = self._loads, []
        for load in loads:
            if not load.done():
                load.set_result(None)

    # -- changing

    def persist(self, events: Sequence[Any], *keys: str) -> int:
        """Append the events that have a record form as one batch, then apply all of them.

        Returns the offset that must be durable before anything is said about them; `when_persisted` knows it by each of
        the keys. Raises, with nothing applied, when they cannot be appended.
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
        """Raises unless the machine may be changed: only a shard that leads, or is about to, writes."""
        if self.stage < Stage.RESUMING:
            self.check_ready()
        self.partition.check_online()

    def _apply(self, events: Iterable[Any]) -> None:
        apply = self.machine.apply
        for event in events:
            apply(event)

    # -- waiting

    def when_persisted(self, what: str | int, settled: Settled) -> None:
        """Call back once all that was persisted under a key, or before an offset, is durable; at once, if it is."""
        if self.stage is Stage.RESIGNED:
            settled(NotCoordinator(f"{self.partition} is not coordinated here"))
            return
        offset = self._offsets.get(what) if isinstance(what, str) else what
        if offset is None:
            settled(None)
            return
        self._waits_made += 1
        self._waiting[self._waits_made] = settled
        self.partition.when_committed(offset, partial(self._settle, self._waits_made, what, offset))

    def _settle(self, number: int, what: str | int, offset: int, error: BrokerError | None) -> None:
        settled = self._waiting.pop(number, None)
        if settled is None:
            return  # it was answered when the shard resigned
        if error is None and isinstance(what, str) and self._offsets.get(what) == offset:
            del self._offsets[what]
        settled(error)

    async def persisted(self, what: str | int) -> None:
        """Wait for the same; raises what went wrong."""
        done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self.when_persisted(what, resolver(done))
        error = await done
        if error is not None:
            raise error
