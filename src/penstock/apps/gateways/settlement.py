"""Which delivered messages of a stream are settled, and up to where each partition may be committed. No I/O.

AUTO: batches are confirmed in order. ACK: messages are acknowledged in any order, and a partition may be committed up
to the first one that is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.client.messages import Position
from penstock.v1 import consumer_pb2, message_pb2

Place = tuple[str, int]


class _SentBatch(NamedTuple):
    batch_id: int
    place: Place
    next_offset: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not needed


class HandledBatches:
    """AUTO: the batches that are delivered and not handled."""

    def __init__(self) -> None:
        self._sent: deque[_SentBatch] = deque()
        self.in_flight = 0

    def deliver(self, batch: consumer_pb2.Batch) -> None:
        place = (batch.topic, batch.partition)
        self._sent.append(_SentBatch(batch.batch_id, place, batch.next_offset, len(batch.messages)))
        self.in_flight += len(batch.messages)

    def handle(self, batch_id: int) -> list[Position]:
        """Settle this batch and all before it; returns what may be committed."""
        after: dict[Place, int] = {}
        while self._sent and self._sent[0].batch_id <= batch_id:
            one = self._sent.popleft()
            self.in_flight -= one.count
            after[one.place] = one.next_offset
        return [Position(*place, offset) for place, offset in sorted(after.items())]

    def forget(self, places: Iterable[Place]) -> None:
        """These partitions were revoked or are read from elsewhere: nothing of them will be settled."""
        gone = set(places)
        self._sent = deque(one for one in self._sent if one.place not in gone)
        self.in_flight = sum(one.count for one in self._sent)


class _AckedPartition:
    """Messages of one partition that are delivered and not acknowledged, in order of their offsets."""

    def __init__(self) -> None:
        self.pending: dict[int, message_pb2.Message] = {}
        self.next_offset = 0

    @property
    def commit_offset(self) -> int:
        return next(iter(self.pending), self.next_offset)


class AckedMessages:
    """ACK: the messages that are delivered and not acknowledged. They are stored to be delivered again."""

    def __init__(self) -> None:
        self._parts: dict[Place, _AckedPartition] = {}
        self.in_flight = 0

    def deliver(self, batch: consumer_pb2.Batch) -> None:
        part = self._parts.setdefault((batch.topic, batch.partition), _AckedPartition())
        for message in batch.messages:
            part.pending[message.offset] = message
        part.next_offset = batch.next_offset
        self.in_flight += len(batch.messages)

    def ack(self, place: Place, offsets: Iterable[int]) -> list[Position]:
        """Settle messages; returns what may be committed. Messages that are settled already are skipped."""
        part = self._parts.get(place)
        if part is None:
            return []
        before = part.commit_offset
        self.in_flight -= sum(part.pending.pop(offset, None) is not None for offset in offsets)
        after = part.commit_offset
        return [Position(*place, after)] if after > before else []

    def nack(self, place: Place, offsets: Sequence[int]) -> list[message_pb2.Message]:
        """The messages to deliver again, in order. They stay in flight."""
        part = self._parts.get(place)
        if part is None:
            return []
        found = [part.pending[offset] for offset in sorted(set(offsets)) if offset in part.pending]
        for message in found:
            message.redeliveries += 1
        return found

    def forget(self, places: Iterable[Place]) -> None:
        """These partitions were revoked or are read from elsewhere: nothing of them will be settled."""
        for place in places:
            part = self._parts.pop(place, None)
            self.in_flight -= len(part.pending) if part is not None else 0
