"""A partition that another broker leads, as a subscription reads it: fetched over a link, one chunk ahead at most.

Reads do not wait: a read of what is not here yet asks for it and ends as if a batch were still being decompressed; the
reader is called when it can continue. Members see committed records only, as they do of a partition that is led here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.events import Topic
from penstock.core.model import PartitionId, TopicPartition
from penstock.core.records.batch import BatchHeader, decode_header
from penstock.core.records.visibility import AbortedProducer, VisibleBatches
from penstock.node.peers.peer_calls import RemoteBatches
from penstock.node.replicas.committed_records import RECORDS_MAX, FoundRecords
from penstock.node.replicas.damage import Damage
from penstock.node.replicas.record_read import RecordRead
from penstock.node.runtime.payloads import Opened, Payload, PayloadKey
from penstock.node.runtime.runtime import Runtime


class RemoteChunk:
    """Consecutive batches of one response, read from the front."""

    def __init__(self, offset: int, batches: RemoteBatches) -> None:
        self.offset = offset
        """The next offset to read."""
        self._content = batches.records
        self._position = 0
        self._visible = VisibleBatches(AbortedProducer(*one) for one in batches.aborted)
        self._header: BatchHeader | None = None
        """The batch at the position, once it is known to be visible: a run must be asked about each batch once."""
        self._key = object()
        """Identifies this response in the cache of decompressed batches."""

    @property
    def is_used_up(self) -> bool:
        return self._position >= len(self._content)

    def take(self, read: RecordRead) -> None:
        """Pass the next records to a read, as many as it wants."""
        while read.wants_more and not self.is_used_up:
            header = self._header or decode_header(self._content, self._position)
            batch = self._content[self._position : self._position + header.size]
            if self._header is None and not self._visible.shows(batch, header):
                read.pass_over(header)
            else:
                self._header = header
                read.take_batch((self._key, self._position), batch, header)
                if read.is_opening or read.offset < header.next_offset:
                    break
            self._header = None
            self._position += header.size
        self.offset = read.offset


class RemoteReader(Protocol):
    """Fetches what partitions of other brokers are asked for; see `feed_fetcher`."""

    def want(self, partition: RemoteFeed) -> None:
        """Fetch from the wanted offset once there are records: ends with `arrive`, `set_start` or `fail`."""

    def unwant(self, partition: RemoteFeed) -> None:
        """The outcome is not needed any more."""

    def look_up(self, partition: RemoteFeed, offset: int, bytes_max: int) -> None:
        """Fetch the batches at one offset now: ends with `found`, `set_start` or `fail`."""

    async def read_now(self, partition: RemoteFeed, offset: int, bytes_max: int) -> RemoteBatches:
        """The batches at an offset, of which there is at least one. Raises BrokerError."""


class RemoteFeed:
    """One partition for one subscription."""

    def __init__(
        self, runtime: Runtime, reader: RemoteReader, topic: Topic, index: int, bytes_max: int
    ) -> None:
        self._runtime = runtime
        self._reader = reader
        self._batch_bytes_max = bytes_max
        self.place = TopicPartition(topic.name, index)
        self.id = PartitionId(topic.id, index)
        self.index = index
        self.damage = Damage(topic.name, index)
        self.start_offset = 0
        """As far as this broker knows; so is the high watermark."""
        self.high_watermark = 0
        self.wanted_offset = -1
        self._wake: Opened = _nobody
        """Called when the reader can continue."""
        self._ahead: RemoteChunk | None = None
        self._again: RemoteChunk | None = None
        """What was found at the offset that was looked up last."""
        self._error: BrokerError | None = None

    def __str__(self) -> str:
        return f"{self.place.topic}-{self.index}"

    # -- listeners

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Nothing to do: a read that finds nothing calls its reader when there are records."""

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """Nobody reads any more: stop to fetch."""
        self._wake = _nobody
        self._reader.unwant(self)

    # -- told by the reader

    def arrive(self, offset: int, batches: RemoteBatches) -> None:
        """Records from the wanted offset on."""
        self.note_offsets(batches)
        self._ahead = RemoteChunk(offset, batches)
        self._wake()

    def note_offsets(self, batches: RemoteBatches) -> None:
        """Learn where the partition starts and ends."""
        self.high_watermark = max(self.high_watermark, batches.high_watermark)
        self.start_offset = max(self.start_offset, batches.start_offset)

    def set_start(self, offset: int) -> None:
        """Records before this offset were deleted, the wanted ones among them."""
        self.start_offset = max(self.start_offset, offset)
        self._wake()

    def fail(self, error: BrokerError) -> None:
        """The next read raises the error; the one after it asks again."""
        self._error = error
        self._wake()

    def found(self, offset: int, batches: RemoteBatches) -> None:
        """What was looked up at an offset."""
        self.note_offsets(batches)
        self._again = RemoteChunk(offset, batches)
        self._wake()

    # -- reads

    def read_ahead(
        self, offset: int, bytes_max: int, when_opened: Opened, records_max: int = RECORDS_MAX
    ) -> FoundRecords:
        """The next records of a reader that reads everything in order."""
        self._raise_error()
        chunk = self._ahead
        if chunk is None or chunk.is_used_up or chunk.offset != offset:
            self._ahead = None
            self._wake = when_opened
            self.wanted_offset = offset
            self._reader.want(self)
            return FoundRecords([], offset, True)
        return self._take(chunk, offset, bytes_max, when_opened, records_max)

    def read_again(
        self, offset: int, bytes_max: int, when_opened: Opened, records_max: int = RECORDS_MAX
    ) -> FoundRecords:
        """Records from an offset that was read before."""
        self._raise_error()
        chunk = self._again
        if chunk is None or chunk.offset != offset:
            self._wake = when_opened
            self._reader.look_up(self, offset, bytes_max)
            return FoundRecords([], offset, True)
        found = self._take(chunk, offset, bytes_max, when_opened, records_max)
        if not found.is_opening:
            self._again = None  # returned messages are scattered: the rest is seldom needed
        return found

    async def read_opened(self, offset: int, bytes_max: int, records_max: int = RECORDS_MAX) -> FoundRecords:
        """Some committed records from an offset on; waits if a batch must be opened in a worker. Raises BrokerError."""
        batches = await self._reader.read_now(self, offset, bytes_max)
        self.note_offsets(batches)
        chunk = RemoteChunk(offset, batches)
        while True:
            opened = asyncio.Event()
            found = self._take(chunk, chunk.offset, bytes_max, opened.set, records_max)
            if found.records or not found.is_opening:
                return found
            await opened.wait()

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _take(
        self, chunk: RemoteChunk, offset: int, bytes_max: int, when_opened: Opened, records_max: int
    ) -> FoundRecords:
        read = RecordRead(self, offset, records_max, bytes_max, when_opened)
        chunk.take(read)
        return FoundRecords(read.records, read.offset, read.is_opening)

    def open_payload(
        self, place: PayloadKey, raw: memoryview, header: BatchHeader, when_opened: Opened
    ) -> Payload | None:
        """See `Partition.open_payload`."""
        runtime = self._runtime
        return runtime.payloads.open(runtime.workers, place, raw, header, self._batch_bytes_max, when_opened)


def _nobody() -> None:
    """Nobody reads."""
