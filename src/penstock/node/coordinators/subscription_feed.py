"""One partition as read by a subscription: read-ahead, redelivery reads, and pending claims of members. Decides
nothing.

Members see committed records only. A message redriven for one subscription is skipped by all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from penstock.core.errors import NotHeld
from penstock.core.machines.subscriptions.events import MarkState
from penstock.core.machines.subscriptions.subscription import Available, Outcome, Settlement, Subscription
from penstock.core.model import Record
from penstock.node.replicas.committed_records import read_committed, read_opened
from penstock.node.replicas.partition import Partition

READ_BYTES = 256 << 10
"""Bytes of the log read ahead at a time."""

READ_AGAIN_BYTES = 64 << 10
"""The same for returned messages: neighbouring messages are often returned together."""

READ_AGAIN_COUNT = 64

REDRIVEN_FOR = "penstock.redriven-for"
"""Header that names the subscription that a message was redriven for."""


class SubscriptionFeed:
    """The records of one partition for one subscription machine."""

    def __init__(self, machine: Subscription, partition: Partition, wake: Callable[[], None]) -> None:
        self.machine = machine
        self.partition = partition
        self._wake = wake
        """Called when a batch that a worker had to decompress can be read."""
        self.claims: dict[int, Settlement] = {}
        """Claims of members that the machine has not decided yet, by offset."""
        self.complaints: dict[int, str] = {}
        """Offset → the reason given by the last member that returned the message."""
        self.returned_upto = 0
        """Offset on the subscriptions' topic that must be durable before returned messages are redelivered."""
        self._ahead: list[Record] = []
        self._again: dict[int, Record] = {}
        """Returned messages that were read again."""
        self._read_upto = -1

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
        found = read_committed(self.partition, self._read_upto, READ_BYTES, self._wake)
        if found.next_offset == self._read_upto:
            return False
        name = self.machine.feed.name
        self._ahead += [record for record in found.records if is_for(name, record)]
        self._read_upto = found.next_offset
        return True

    def can_read_again(self, count_max: int) -> bool:
        """Read the returned messages that are next; False while one of their batches is being decompressed."""
        self._catch_up()
        ready = list(islice(self.machine.ready, count_max))
        wanted = set(ready)
        self._again = {offset: record for offset, record in self._again.items() if offset in wanted}
        ahead = {record.offset for record in self._ahead}
        for offset in ready:
            if offset in ahead or offset in self._again or offset < self.partition.start_offset:
                continue
            found = read_committed(self.partition, offset, READ_AGAIN_BYTES, self._wake, READ_AGAIN_COUNT)
            if found.is_opening and not found.records:
                return False
            self._again.update((record.offset, record) for record in found.records)
        return True

    def records(self, offsets: Sequence[int]) -> dict[int, Record]:
        """The messages at these offsets, without those that can no longer be read."""
        wanted = set(offsets)
        found = {record.offset: record for record in self._ahead if record.offset in wanted}
        found.update(self._again)
        return found

    async def read_again(self, offset: int) -> Record | None:
        """One message; None if it was deleted or cannot be decoded."""
        if offset < self.partition.start_offset:
            return None
        found = await read_opened(self.partition, offset, 1, records_max=1)
        return next((record for record in found.records if record.offset == offset), None)


def is_for(subscription: str, record: Record) -> bool:
    """Whether this message is for the subscription: not redriven, or redriven for it."""
    return not record.headers or all(
        name != REDRIVEN_FOR or value == subscription.encode() for name, value in record.headers
    )
