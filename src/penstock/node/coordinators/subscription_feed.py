"""One partition as read by a subscription: read-ahead, redelivery reads, and pending claims of members. Decides
nothing.

Members see committed records only. A message redriven for one subscription is skipped by all others. The partition is
led here or by another broker; when that changes, the feed continues with another source of the same records.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from penstock.core.errors import LeaderNotAvailable, NotHeld
from penstock.core.machines.subscriptions.events import MarkState
from penstock.core.machines.subscriptions.subscription import Available, Outcome, Settlement, Subscription
from penstock.core.model import Record
from penstock.node.replicas.committed_records import FoundRecords, read_committed, read_opened
from penstock.node.replicas.partition import Partition

READ_BYTES = 256 << 10
"""Bytes of the log read ahead at a time."""

READ_AGAIN_BYTES = 64 << 10
"""The same for returned messages: neighbouring messages are often returned together."""

READ_AGAIN_COUNT = 64

REDRIVEN_FOR = "penstock.redriven-for"
"""Header that names the subscription that a message was redriven for."""


class FedPartition(Protocol):
    """A partition as subscriptions see it, wherever it is led."""

    index: int

    @property
    def start_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    def add_listener(self, listener: Callable[[], None]) -> None: ...

    def remove_listener(self, listener: Callable[[], None]) -> None: ...


class Read(Protocol):
    """Reads records from an offset on; does not wait. See `read_committed`."""

    def __call__(
        self, offset: int, bytes_max: int, when_opened: Callable[[], None], records_max: int = ...
    ) -> FoundRecords: ...


class FeedSource(NamedTuple):
    """A partition, and how its records are read."""

    partition: FedPartition
    read_ahead: Read
    read_again: Read
    read_opened: Callable[[int, int, int], Awaitable[FoundRecords]]


def local_source(partition: Partition) -> FeedSource:
    """The source of a partition that is led here."""
    read = partial(read_committed, partition)
    return FeedSource(partition, read, read, partial(read_opened, partition))


class SubscriptionFeed:
    """The records of one partition for one subscription machine."""

    def __init__(self, machine: Subscription, source: FeedSource, wake: Callable[[], None]) -> None:
        self.machine = machine
        self.partition, self._read_ahead, self._read_again, self._read_opened = source
        self._wake = wake
        """Called when a batch that a worker had to decompress can be read."""
        self.claims: dict[int, Settlement] = {}
        """Claims of members that the machine has not decided yet, by offset."""
        self.complaints: dict[int, str] = {}
        """Offset → the reason given by the last member that returned the message."""
        self.returned_upto = 0
        """Offset on the subscriptions' topic that must be durable before returned messages are redelivered."""
        self._ahead: list[Record] = []
        self._again: dict[int, Record | None] = {}
        """Returned messages that were read again; None for those that no longer exist."""
        self._read_upto = -1

    def use(self, source: FeedSource) -> None:
        """Continue with another source: the partition is led elsewhere from now on."""
        self.partition, self._read_ahead, self._read_again, self._read_opened = source

    def claim(self, member_id: str, offset: int, outcome: Outcome, complaint: str | None) -> None:
        """Record a member's claim on a message. Raises NotHeld if the member does not hold it."""
        if offset in self.claims:
            raise NotHeld(f"{self.machine.feed.name!r}: the message at offset {offset} is already settled")
        self.machine.check_held(member_id, offset)
        self.claims[offset] = Settlement(member_id, outcome)
        if complaint:
            self.complaints[offset] = complaint

    def take_claims(self) -> None:
        """Drop the claims: the machine has decided them."""
        if self.complaints:
            for offset, claim in self.claims.items():
                if claim.outcome is Outcome.ACCEPT:
                    self.complaints.pop(offset, None)
        self.claims.clear()

    # -- reading

    def available(self, count_max: int, bytes_max: int) -> Available:
        """The next messages to deliver, up to the limits; includes settled messages in between."""
        self._catch_up()
        marks = self.machine.marks
        offsets: list[int] = []
        place = 0
        while count_max > 0 and bytes_max > 0:
            if place == len(self._ahead):
                if not self._read_more():
                    break
                continue
            record = self._ahead[place]
            place += 1
            offsets.append(record.offset)
            mark = marks.get(record.offset)
            if mark is None or mark.state is MarkState.READY:
                count_max -= 1
                bytes_max -= len(record.value or b"")
        is_all = place == len(self._ahead)
        return Available(offsets, self._read_upto if is_all else self._ahead[place - 1].offset + 1)

    def _catch_up(self) -> None:
        """Drop records before the machine's cursor."""
        cursor = self.machine.cursor
        if self._read_upto < cursor:
            self._ahead.clear()
            self._read_upto = cursor
            return
        passed = 0
        for record in self._ahead:
            if record.offset >= cursor:
                break
            passed += 1
        del self._ahead[:passed]

    def _read_more(self) -> bool:
        found = self._read_ahead(self._read_upto, READ_BYTES, self._wake)
        if found.next_offset == self._read_upto:
            return False
        name = self.machine.feed.name
        self._ahead += [record for record in found.records if is_for(name, record)]
        self._read_upto = found.next_offset
        return True

    def can_read_again(self, count_max: int) -> bool:
        """Read the returned messages that are next; False while one of them cannot be read yet: the feed is woken."""
        self._catch_up()
        ready = list(islice(self.machine.ready, count_max))
        wanted = set(ready)
        self._again = {offset: record for offset, record in self._again.items() if offset in wanted}
        ahead = {record.offset for record in self._ahead}
        for offset in ready:
            if offset in ahead or offset in self._again or offset < self.partition.start_offset:
                continue
            found = self._read_again(offset, READ_AGAIN_BYTES, self._wake, READ_AGAIN_COUNT)
            if not found.records and (found.is_opening or self._is_unreadable(offset)):
                return False
            self._again[offset] = None
            self._again.update((record.offset, record) for record in found.records)
        return True

    def records(self, offsets: Sequence[int]) -> dict[int, Record]:
        """The messages at these offsets, without those that can no longer be read."""
        wanted = set(offsets)
        found = {record.offset: record for record in self._ahead if record.offset in wanted}
        found.update((offset, record) for offset, record in self._again.items() if record is not None)
        return found

    async def read_again(self, offset: int) -> Record | None:
        """One message; None if it was deleted or cannot be decoded. Raises BrokerError while it cannot be read."""
        if offset < self.partition.start_offset:
            return None
        found = await self._read_opened(offset, 1, 1)
        if not found.records and self._is_unreadable(offset):
            raise LeaderNotAvailable(f"{self.partition}: offset {offset} is not readable yet")
        return next((record for record in found.records if record.offset == offset), None)

    def _is_unreadable(self, offset: int) -> bool:
        """Whether a message cannot be read yet, rather than no more: a partition that has just been opened serves
        nothing until what recovery found is synced. Whoever took it for deleted would lose it."""
        return offset >= self.partition.high_watermark


def is_for(subscription: str, record: Record) -> bool:
    """Whether this message is for the subscription: not redriven, or redriven for it."""
    return not record.headers or all(
        name != REDRIVEN_FOR or value == subscription.encode() for name, value in record.headers
    )
