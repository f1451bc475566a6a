"""A partition that another broker leads, as one subscription reads it. Members see committed records only.

There are two readers: one reads everything in order, the other goes back to returned messages. Both wait for a leader
that is not available; the subscription is called when they can continue.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.errors import LeaderNotAvailable
from penstock.core.machines.catalog.events import Topic
from penstock.core.model import TopicPartition
from penstock.node.coordinators.subscription_feed import READ_AGAIN_BYTES, READ_BYTES
from penstock.node.remote.remote_source import ReadAhead, RemoteReads, RemoteSource
from penstock.node.replicas.committed_records import RECORDS_MAX, FoundRecords
from penstock.node.replicas.sources import Run, Wanted, read_waiting
from penstock.node.runtime.payloads import Opened


class RemoteFeed:
    """One partition for one subscription."""

    def __init__(self, reads: RemoteReads, topic: Topic, index: int) -> None:
        self._reads = reads
        self._topic = topic
        self.place = TopicPartition(topic.name, index)
        self.index = index
        self._ahead = self._open(READ_BYTES, is_patient=True)
        self._again = self._open(READ_AGAIN_BYTES, is_patient=True)
        self._seen_end = 0

    def _open(self, bytes_max: int, *, is_patient: bool) -> RemoteSource:
        return self._reads.open(self._topic, self.index, ReadAhead(1), bytes_max, is_patient=is_patient)

    def __str__(self) -> str:
        return f"{self.place.topic}-{self.index}"

    @property
    def start_offset(self) -> int:
        """As far as this broker knows; so is the high watermark."""
        return max(self._ahead.start_offset, self._again.start_offset)

    @property
    def high_watermark(self) -> int:
        return max(self._seen_end, self._ahead.high_watermark, self._again.high_watermark)

    def note_end(self, offset: int) -> None:
        """The leader has told its high watermark."""
        self._seen_end = max(self._seen_end, offset)

    # -- listeners

    def add_listener(self, listener: Callable[[], None]) -> None:
        self._ahead.add_listener(listener)
        self._again.add_listener(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        self._ahead.remove_listener(listener)
        self._again.remove_listener(listener)

    # -- reads

    def read_ahead(
        self, offset: int, bytes_max: int, when_opened: Opened, records_max: int = RECORDS_MAX
    ) -> FoundRecords:
        """The next records of a reader that reads everything in order."""
        run = self._ahead.read(self._wanted(offset, bytes_max, records_max), when_opened)
        return FoundRecords(run.records, run.next_offset, run.is_opening)

    def read_again(
        self, offset: int, bytes_max: int, when_opened: Opened, records_max: int = RECORDS_MAX
    ) -> FoundRecords:
        """Records from an offset that was read before. The result is `is_opening` if the leader does not serve it yet:
        listeners are called when it does."""
        run = self._again.read(self._wanted(offset, bytes_max, records_max), when_opened)
        return FoundRecords(run.records, run.next_offset, run.is_opening or _is_early(run, offset))

    async def read_opened(self, offset: int, bytes_max: int, records_max: int = RECORDS_MAX) -> FoundRecords:
        """The same, once it is there. Raises BrokerError."""
        source = self._open(bytes_max, is_patient=False)
        run = await read_waiting(source, self._wanted(offset, bytes_max, records_max))
        if _is_early(run, offset):
            raise LeaderNotAvailable(f"{self}: the leader does not serve offset {offset} yet")
        self.note_end(source.high_watermark)
        return FoundRecords(run.records, run.next_offset, run.is_opening)

    def _wanted(self, offset: int, bytes_max: int, records_max: int) -> Wanted:
        return Wanted(*self.place, offset, records_max, bytes_max)


def _is_early(run: Run, offset: int) -> bool:
    """Whether a leader that has just started does not serve again yet what it has served before."""
    return not run.records and not run.is_opening and run.end_offset <= offset
