"""The state of a subscription on one partition and its only writer, `apply`. `subscription.py` decides.

Offsets from `start_offset` to `cursor` are in flight: held by a member, ready for redelivery, or settled out of order.
Offsets from `cursor` on were not delivered since the node started.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.core.machines.subscriptions.events import (
    BLOCK_OFFSETS,
    BlockSet,
    Feed,
    Freed,
    Held,
    Mark,
    MarkState,
    Skipped,
    StartMoved,
    SubscriberGone,
    SubscriberPut,
)
from penstock.core.machines.subscriptions.members import Members

FRESH = Mark(MarkState.READY, 0)
"""The default for an offset without a mark: not delivered, as far as is persisted."""


class Hold(NamedTuple):
    member_id: str
    deadline_ms: int


class SubscriptionState:
    """The state of a subscription on one partition. Write through `apply` only."""

    def __init__(self, feed: Feed, members: Members | None = None) -> None:
        self.feed = feed
        self.members = Members() if members is None else members
        self.start_offset: int | None = None
        self.marks: dict[int, Mark] = {}
        self.blocks: dict[int, None] = {}
        """Blocks of marks that have a record."""
        self.cursor = 0
        self.held: dict[int, Hold] = {}
        """Ordered by deadline, because all holds have the same duration."""
        self.ready: list[int] = []
        """Offsets before the cursor that are ready for redelivery, ascending."""
        self.gaps: dict[int, int] = {}
        """Gaps without messages: first offset → last offset."""
        self.settled_count = 0
        """The number of marked offsets that are not to be delivered."""

    # -- reading

    @property
    def in_flight_count(self) -> int:
        return len(self.held) + len(self.ready) + self.settled_count

    @property
    def dying(self) -> list[int]:
        """Offsets that are being moved to the dead letter topic, ascending."""
        return sorted(offset for offset, mark in self.marks.items() if mark.state is MarkState.DYING)

    def mark(self, offset: int) -> Mark:
        return self.marks.get(offset, FRESH)

    # -- writing

    def apply(self, event: Any) -> None:
        """Apply an event. Never fails."""
        _WRITERS[type(event)](self, event)

    def _move_start(self, event: StartMoved) -> None:
        if event.start_offset is None:
            for offset in list(self.held):
                self._let_go(offset)
            SubscriptionState.__init__(self, self.feed, self.members)
            return
        start = event.start_offset
        for offset in self._passed(start):
            if offset in self.marks:
                self._put_mark(offset, None)
            if offset in self.held:
                self._let_go(offset)
        self.start_offset = start
        self.cursor = max(self.cursor, start)
        del self.ready[: bisect_left(self.ready, start)]
        self.gaps = {max(first, start): last for first, last in self.gaps.items() if last >= start}

    def _passed(self, start: int) -> Iterable[int]:
        """Offsets before a new start that may have state; iterates over the shorter of the marks and the range."""
        old = self.start_offset
        if old is not None and start - old < len(self.marks) + len(self.held):
            return range(old, start)
        return [offset for offset in (*self.marks, *self.held) if offset < start]

    def _set_block(self, event: BlockSet) -> None:
        first = event.block * BLOCK_OFFSETS
        marks = event.marks or {}
        if event.marks is None:
            self.blocks.pop(event.block, None)
        else:
            self.blocks[event.block] = None
        for offset in range(first, first + BLOCK_OFFSETS):
            is_settled = self.start_offset is not None and offset < self.start_offset
            self._put_mark(offset, None if is_settled else marks.get(offset))

    def _put_mark(self, offset: int, mark: Mark | None) -> None:
        old = self.marks.pop(offset, None)
        self.settled_count -= old is not None and old.state is not MarkState.READY
        if mark is not None:
            self.marks[offset] = mark
            self.settled_count += mark.state is not MarkState.READY

    def _put_member(self, event: SubscriberPut) -> None:
        self.members.put(event.member_id, event.window)

    def _drop_member(self, event: SubscriberGone) -> None:
        self.members.drop(event.member_id)

    def _hold(self, event: Held) -> None:
        """Messages are delivered to members, or their holds are extended."""
        held, members = self.held, self.members
        holds: dict[str, Hold] = {}
        for offset, member_id in event.given:
            if offset in held:
                self._let_go(offset)
            else:
                members.served_last = member_id
            if self.ready:
                self._take_from_ready(offset)
            if offset >= self.cursor:
                self.cursor = offset + 1
            hold = holds.get(member_id)
            if hold is None:
                hold = holds[member_id] = Hold(member_id, event.deadline_ms)
            held[offset] = hold
            if member_id in members.holding:
                members.holding[member_id] += 1

    def _take_from_ready(self, offset: int) -> None:
        place = bisect_left(self.ready, offset)
        if place < len(self.ready) and self.ready[place] == offset:
            del self.ready[place]

    def _let_go(self, offset: int) -> None:
        hold = self.held.pop(offset, None)
        if hold is not None and hold.member_id in self.members.holding:
            self.members.holding[hold.member_id] -= 1

    def _free(self, event: Freed) -> None:
        for offset in event.offsets:
            self._let_go(offset)
            if event.is_ready:
                place = bisect_left(self.ready, offset)
                if self.ready[place : place + 1] != [offset]:
                    self.ready.insert(place, offset)

    def _skip(self, event: Skipped) -> None:
        self.gaps[event.first_offset] = event.last_offset
        self.cursor = max(self.cursor, event.last_offset + 1)


_WRITERS: dict[type, Any] = {
    StartMoved: SubscriptionState._move_start,
    BlockSet: SubscriptionState._set_block,
    SubscriberPut: SubscriptionState._put_member,
    SubscriberGone: SubscriptionState._drop_member,
    Held: SubscriptionState._hold,
    Freed: SubscriptionState._free,
    Skipped: SubscriptionState._skip,
}
