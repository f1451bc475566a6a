"""A partition that may be led by another broker, as a reader of single records sees it.

Batches are fetched over links, a bounded number ahead, and decoded as those of this node are: markers and, at
read_committed, aborted records are left out. While a fetch is in flight, a read is `is_opening`, like one that waits
for a worker. If leadership moves, the reader goes on at the new leader, which may be this node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from penstock.core.errors import (
    BrokerError,
    CorruptBatch,
    LeaderNotAvailable,
    NotNow,
    OffsetOutOfRange,
    UnknownTopic,
)
from penstock.core.limits import FORWARD_MS_MAX, FORWARDED_READ_BYTES_MAX, FORWARDED_READS_MAX
from penstock.core.machines.catalog.events import Topic
from penstock.core.model import Isolation, PartitionId, TopicPartition
from penstock.core.records.batch import BatchHeader, decode_header
from penstock.core.records.visibility import VisibleBatches
from penstock.node.peers.peer_calls import RemoteBatches, RemoteOffset, fetch
from penstock.node.peers.peer_queries import EARLIEST, LATEST, list_many_offsets
from penstock.node.remote.leaders import Leaders
from penstock.node.remote.watches import Watch, Watches
from penstock.node.replicas.damage import Damage
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.record_read import RecordRead
from penstock.node.replicas.sources import Run, Wanted, read_here
from penstock.node.runtime.payloads import Opened, Payload, PayloadKey
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks

FIRST_READ_BYTES = 1
"""A reader that wants one record gets the batch that contains it."""
NEXT_READ_BYTES = 64 << 10
"""The next attempt of such a reader, if nothing in that batch was visible; and what others read at least."""
PAUSE_S = 0.5
"""Pause of a patient reader before it looks for the leader again."""
PATIENT_MS = 1_000
"""Time limit of its attempts: a broker that hangs must not occupy the places of other partitions."""

FindLed = Callable[[str, int], Partition | None]
"""A partition by name, if this broker leads it. Raises UnknownTopic."""


class ReadAhead:
    """How many partitions one client may hold fetched records of."""

    def __init__(self, partitions_max: int) -> None:
        self._left = partitions_max
        self._waiting: deque[Opened] = deque()

    def take(self) -> bool:
        """Whether one more partition may hold records."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    def when_free(self, callback: Opened) -> None:
        """Call back once another partition may."""
        self._waiting.append(callback)

    def give(self) -> None:
        self._left += 1
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._waiting.popleft())


class _Fetched:
    """Batches that were fetched, and how far they are read."""

    def __init__(self, found: RemoteBatches, offset: int, isolation: Isolation) -> None:
        self.next_offset = offset
        self.isolation = isolation
        self._content = found.records
        self._position = 0
        self._visible = VisibleBatches(found.aborted)
        self._current: BatchHeader | None = None
        """The batch at the position, once it is known to be visible."""
        self._token = object()
        """Identifies the batches in the cache of payloads without keeping them in memory."""

    def take_into(self, read: RecordRead, damage: Damage) -> None:
        """Take what the read wants, from where the last one ended."""
        content = self._content
        while self._position < len(content) and read.wants_more:
            header = self._current or decode_header(content, self._position)
            raw = content[self._position : self._position + header.size]
            if len(raw) < header.size:
                raise CorruptBatch(f"the batch at offset {header.base_offset} is truncated")
            if self._current is None and not self._shows(raw, header, damage):
                read.pass_over(header)
            else:
                self._current = header
                read.take_batch((self._token, self._position), raw, header)
                if read.offset < header.next_offset:
                    break  # the rest of the batch is for the next read, or it is being decompressed
            self._current = None
            self._position += header.size
        self.next_offset = read.offset

    @property
    def is_exhausted(self) -> bool:
        return self._position >= len(self._content)

    def _shows(self, raw: memoryview, header: BatchHeader, damage: Damage) -> bool:
        try:
            return self._visible.shows(raw, header)
        except CorruptBatch as error:
            damage.skip(header.base_offset, header.next_offset, error)
            return False


class RemoteReads:
    """The reads of one broker from others. Shared by all doors and subscriptions."""

    def __init__(self, runtime: Runtime, leaders: Leaders, find_led: FindLed) -> None:
        self.runtime = runtime
        self.leaders = leaders
        self.find_led = find_led
        self.watches = Watches(leaders)
        self.tasks = Tasks()
        self.meter = runtime.meters.forwards
        self._turns: dict[int, asyncio.Semaphore] = {}

    def open(
        self, topic: Topic, index: int, ahead: ReadAhead, bytes_max: int, *, is_patient: bool
    ) -> RemoteSource:
        """One partition to read, about so many bytes at a time. `is_patient`: wait for a leader that is not available,
        instead of failing."""
        bytes_max = min(max(bytes_max, NEXT_READ_BYTES), FORWARDED_READ_BYTES_MAX)
        return RemoteSource(self, topic, index, ahead, bytes_max, is_patient=is_patient)

    async def fetch(
        self, partition: PartitionId, offset: int, bytes_max: int, isolation: Isolation, timeout_ms: int
    ) -> RemoteBatches | None:
        """Batches from an offset on, if there are any; None if this broker leads the partition."""

        async def call(broker_id: int, left_ms: int) -> RemoteBatches:
            turns = self._turns.setdefault(broker_id, asyncio.Semaphore(FORWARDED_READS_MAX))
            async with turns:
                self.meter.reads += 1
                return await fetch(
                    self.leaders.links,
                    broker_id,
                    partition,
                    offset,
                    bytes_max=bytes_max,
                    wait_ms=0,
                    timeout_ms=left_ms,
                    isolation=isolation,
                )

        return await self.leaders.read(partition, call, timeout_ms=timeout_ms)


class RemoteSource:
    """One reader's view of one partition. It has `damage` and `open_payload` for the records that it decodes."""

    def __init__(
        self,
        reads: RemoteReads,
        topic: Topic,
        index: int,
        ahead: ReadAhead,
        bytes_max: int,
        *,
        is_patient: bool,
    ) -> None:
        self._reads = reads
        self._topic = topic
        self.index = index
        self._id = PartitionId(topic.id, index)
        self._bytes_max = bytes_max
        self._ahead = ahead
        self._has_place = False
        """Whether this partition counts in `ahead`."""
        self._is_patient = is_patient
        self._listeners: dict[Callable[[], None], None] = {}
        self._local: Partition | None = None
        """The partition of this node that tells of changes, while it is led here."""
        self._watch: Watch | None = None
        self._fetched: _Fetched | None = None
        self._empty: tuple[int, Isolation] | None = None
        """Where the last fetch found nothing, until something may have come."""
        self._is_fetching = False
        """Whether a fetch is in flight, or the next one is delayed."""
        self._waiting: dict[Opened, None] = {}
        self._failure: tuple[int, BrokerError] | None = None
        """Why the last fetch failed, and from which offset on it was."""
        self.start_offset = 0
        self.high_watermark = 0
        """As far as the leader has told."""
        self._end_offset = 0
        self._is_second = False
        """Whether a fetch found nothing visible: the next one asks for more."""
        self.damage = Damage(topic.name, index)

    # -- read

    def read(self, wanted: Wanted, when_opened: Opened) -> Run:
        """See `Source.read`."""
        partition = self._find_led()
        self._follow(partition)
        if partition is not None:
            return read_here(partition, wanted, when_opened)
        failure, self._failure = self._failure, None
        if failure is not None and failure[0] == wanted.offset:
            raise failure[1].with_traceback(None)
        run = self._take(wanted, when_opened)
        if run is not None:
            return run
        if self._empty == (wanted.offset, wanted.isolation):
            return Run([], wanted.offset, self.start_offset, self._end_offset)
        self._start_fetch(wanted, when_opened)
        return Run(
            [], wanted.offset, self.start_offset, max(self._end_offset, wanted.offset), is_opening=True
        )

    def _find_led(self) -> Partition | None:
        """The partition, if this node leads it; a topic of the same name that was created later is another one."""
        partition = self._reads.find_led(self._topic.name, self.index)
        if partition is not None and partition.topic_id != self._topic.id:
            raise UnknownTopic(f"topic {self._topic.name!r} was deleted")
        return partition

    def _take(self, wanted: Wanted, when_opened: Opened) -> Run | None:
        """From what was fetched; None if that does not help."""
        fetched = self._fetched
        if fetched is None:
            return None
        if (fetched.next_offset, fetched.isolation) == (wanted.offset, wanted.isolation):
            read = RecordRead(self, wanted.offset, wanted.records_max, wanted.bytes_max, when_opened)
            fetched.take_into(read, self.damage)
            if read.records or read.is_opening or read.offset > wanted.offset:
                self._is_second = not read.records
                end_offset = max(self._end_offset, read.offset)
                if fetched.is_exhausted and read.offset >= end_offset:
                    self._reach_end(read.offset, wanted.isolation)
                return Run(read.records, read.offset, self.start_offset, end_offset, read.is_opening)
        self._fetched = None
        self._leave_place()
        return None

    def _reach_end(self, offset: int, isolation: Isolation) -> None:
        """There was nothing from this offset on when the leader was last asked."""
        self._fetched = None
        self._empty = (offset, isolation)
        if not self._is_fetching:
            self._leave_place()
        self._watch_if_needed()

    def open_payload(
        self, place: PayloadKey, raw: memoryview, header: BatchHeader, when_opened: Opened
    ) -> Payload | None:
        """The decompressed records of a fetched batch; see `Partition.open_payload`."""
        runtime = self._reads.runtime
        return runtime.payloads.open(runtime.workers, place, raw, header, header.size, when_opened)

    # -- fetch

    def _start_fetch(self, wanted: Wanted, when_opened: Opened) -> None:
        if self._is_fetching:
            self._waiting[when_opened] = None
            return
        if not self._has_place:
            if not self._ahead.take():
                self._ahead.when_free(when_opened)
                return
            self._has_place = True
        self._waiting[when_opened] = None
        self._is_fetching = True
        self._empty = None
        self._reads.tasks.spawn(
            self._fetch(wanted, self._fetch_bytes(wanted)), partial(self._crashed, wanted.offset)
        )

    def _fetch_bytes(self, wanted: Wanted) -> int:
        if wanted.records_max > 1:
            return self._bytes_max
        return NEXT_READ_BYTES if self._is_second else FIRST_READ_BYTES

    async def _fetch(self, wanted: Wanted, bytes_max: int) -> None:
        offset, isolation = wanted.offset, wanted.isolation
        try:
            found = await self._fetch_intact(offset, bytes_max, isolation)
            if found is None and self._find_led() is None:
                # Without an error the reader would ask again at once, and go on doing so until the role changes.
                name = self._reads.leaders.name(self._id)
                raise LeaderNotAvailable(f"{name} is about to be led by this broker; ask again")
        except OffsetOutOfRange:
            self._failure = offset, await self._out_of_range(offset)
        except BrokerError as error:
            if self._is_patient and isinstance(error, NotNow):
                self._leave_place()
                asyncio.get_running_loop().call_later(PAUSE_S, self._go_on)
                return
            self._failure = offset, error
        else:
            if found is not None:
                self._arrived(found, offset, isolation)
        self._go_on()

    async def _fetch_intact(self, offset: int, bytes_max: int, isolation: Isolation) -> RemoteBatches | None:
        """Fetch; if a damaged batch is in the way, only the one at the offset, which may be intact."""
        timeout_ms = PATIENT_MS if self._is_patient else FORWARD_MS_MAX
        try:
            return await self._reads.fetch(self._id, offset, bytes_max, isolation, timeout_ms)
        except CorruptBatch:
            if bytes_max == FIRST_READ_BYTES:
                raise
            return await self._reads.fetch(self._id, offset, FIRST_READ_BYTES, isolation, timeout_ms)

    def _crashed(self, offset: int, bug: BaseException) -> None:
        self._failure = offset, CorruptBatch(f"defect: {bug!r}")
        self._go_on()

    def _go_on(self) -> None:
        self._is_fetching = False
        if self._fetched is None:
            self._leave_place()
        waiting, self._waiting = self._waiting, {}
        for when_opened in waiting:
            when_opened()

    def _arrived(self, found: RemoteBatches, offset: int, isolation: Isolation) -> None:
        is_committed = isolation is Isolation.READ_COMMITTED
        self.start_offset, self.high_watermark = found.start_offset, found.high_watermark
        self._end_offset = found.last_stable_offset if is_committed else found.high_watermark
        if found.records:
            self._fetched = _Fetched(found, offset, isolation)
            self._empty = None
        else:
            self._reach_end(offset, isolation)

    async def _out_of_range(self, offset: int) -> BrokerError:
        """The error, once it is known where the partition starts: a reader that fell behind goes on there."""
        place = (self._topic.name, self.index)

        async def call(broker_id: int, left_ms: int) -> tuple[int, int]:
            asked = [(TopicPartition(*place), when) for when in (EARLIEST, LATEST)]
            start, end = await list_many_offsets(
                self._reads.leaders.links,
                broker_id,
                asked,
                isolation=Isolation.READ_UNCOMMITTED,
                timeout_ms=left_ms,
            )
            for one in (start, end):
                if isinstance(one, BrokerError):
                    raise one
            assert isinstance(start, RemoteOffset) and isinstance(end, RemoteOffset)
            return start.offset, end.offset

        try:
            bounds = await self._reads.leaders.read(self._id, call, timeout_ms=FORWARD_MS_MAX)
        except BrokerError as error:
            return error
        if bounds is not None:
            self.start_offset, self._end_offset = bounds
        name = self._reads.leaders.name(self._id)
        return OffsetOutOfRange(
            f"{name}: offset {offset} is not between {self.start_offset} and {self._end_offset}"
        )

    def _leave_place(self) -> None:
        """Nothing is held here any more: another partition of this reader may fetch."""
        if self._has_place:
            self._has_place = False
            self._ahead.give()

    # -- listeners

    def add_listener(self, listener: Callable[[], None]) -> None:
        """See `Source.add_listener`."""
        self._listeners[listener] = None
        if self._local is None:
            self._watch_if_needed()
        else:
            self._local.add_listener(self._notify)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        self._listeners.pop(listener, None)
        if self._listeners:
            return
        self._follow(None)
        if self._watch is not None:
            self._watch.end()
            self._watch = None

    def _notify(self) -> None:
        self._empty = None
        for listener in list(self._listeners):
            listener()

    def _follow(self, partition: Partition | None) -> None:
        """Listen to the partition while it is led here."""
        if partition is self._local:
            return
        if self._local is not None:
            self._local.remove_listener(self._notify)
        self._local = partition
        self._empty = None
        if partition is not None and self._listeners:
            partition.add_listener(self._notify)

    def _watch_if_needed(self) -> None:
        """Wait at the leader if somebody here waits for records."""
        if self._empty is None or not self._listeners or self._watch is not None:
            return
        try:
            self._watch = self._reads.watches.add(self._id, *self._empty, self._noticed)
        except BrokerError:
            asyncio.get_running_loop().call_later(PAUSE_S, self._notify)  # the next read reports it, or waits

    def _noticed(self, outcome: RemoteBatches | BrokerError) -> None:
        self._watch = None
        empty, self._empty = self._empty, None
        if (
            empty is not None
            and isinstance(outcome, RemoteBatches)
            and outcome.records
            and not self._is_fetching
            and (self._has_place or self._ahead.take())
        ):
            self._has_place = True
            self._arrived(outcome, *empty)
        self._notify()
