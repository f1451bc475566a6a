"""One partition as a subscription reads it: the records ahead, those to be read again, what members claim. No deciding.

Members see what is committed. A message that was brought back for one subscription is a hole to all others.
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
"""Bytes of the log that are read ahead at a time."""

READ_AGAIN_BYTES = 64 << 10
"""The same for messages that came back: their neighbours often came with them."""

READ_AGAIN_COUNT = 64

REDRIVEN_FOR = "penstock.redriven-for"
"""The header that names the subscription a message was brought back for."""


class SubscriptionFeed:
    """The partition's side of one machine."""

    def __init__(self, machine: Subscription, partition: Partition, wake: Callable[[], None]) -> None:
        self.machine = machine
        self.partition = partition
        self._wake = wake
        """Called when a batch that had to be opened in a worker can be read."""
        self.claims: dict[int, Settlement] = {}
        """What members said since the machine was last told."""
        self.complaints: dict[int, str] = {}
        """Offset → the last words of a member that gave the message back."""
        self.returned_upto = 0
        """What must be durable on the subscriptions' topic before messages that came back are delivered again."""
        self._ahead: list[Record] = []
        self._again: dict[int, Record] = {}
        """Messages that came back and were read again."""
        self._read_upto = -1

    def claim(self, member_id: str, offset: int, outcome: Outcome, complaint: str | None) -> None:
        """Note what a member says of a message. Raises NotHeld if it is not with that member."""
        if offset in self.claims:
            raise NotHeld(f"{self.machine.feed.name!r}: the message at {offset} was settled before")
        self.machine.check_held(member_id, offset)
        self.claims[offset] = Settlement(member_id, outcome)
        if complaint:
            self.complaints[offset] = complaint

    def take_claims(self) -> None:
        """The machine knows them now."""
        if self.complaints:
            for offset, claim in self.claims.items():
                if claim.outcome is Outcome.ACCEPT:
                    self.complaints.pop(offset, None)
        self.claims.clear()

    # -- reading

    def available(self, count_max: int, bytes_max: int) -> Available:
        """The next messages to deliver, up to so many or so large; settled ones on the way come with them."""
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
        """Let go of what is behind the machine's cursor."""
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
        """Read the messages that came back and are next; False while a batch of theirs is being opened."""
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
        """The messages at offsets that were given to members just now, without those that cannot be read any more."""
        wanted = set(offsets)
        found = {record.offset: record for record in self._ahead if record.offset in wanted}
        found.update(self._again)
        return found

    async def read_again(self, offset: int) -> Record | None:
        """One message; None when the log has let go of it or it cannot be opened."""
        if offset < self.partition.start_offset:
            return None
        found = await read_opened(self.partition, offset, 1, records_max=1)
        return next((record for record in found.records if record.offset == offset), None)


def is_for(subscription: str, record: Record) -> bool:
    """Is this message for that subscription, or was it brought back for another?"""
    return not record.headers or all(
        name != REDRIVEN_FOR or value == subscription.encode() for name, value in record.headers
    )
