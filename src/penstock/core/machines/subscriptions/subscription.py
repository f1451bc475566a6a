"""The subscription on one partition: delivers messages to its members in turn until they are settled.

    to be delivered ── given to a member ──▶ held ── accepted ──────────────▶ done
          ▲                                    │──── rejected ──────────────▶ dying ── in the dead letter topic ──▶ done
          └──── released, or time is up ───────┘──── came back too often ───▶ dying

Each member holds at most its window, all members together at most `in_flight_max`. Settlements are persisted, holds are
not, so a message may be redelivered after a restart, but is never lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple

from penstock.core.errors import NotHeld, UnknownMember
from penstock.core.machine import NEVER_MS, Decision
from penstock.core.machines.subscriptions.events import (
    BLOCK_OFFSETS,
    BlockSet,
    Event,
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
from penstock.core.machines.subscriptions.state import FRESH, SubscriptionState

_READY, _DONE, _DYING = MarkState
"""Looked up once: attribute access on an enum is slow."""
_DONE_AT_ONCE = Mark(MarkState.DONE, 1)
"""The mark of a message accepted at its first delivery, by far the most common one."""


class SubscriptionTerms(NamedTuple):
    """Settings of the subscription. Without dead letters, an undeliverable message is settled directly."""

    hold_ms: int
    deliveries_max: int
    in_flight_max: int
    has_dead_letters: bool


class Outcome(Enum):
    """How a member settles a message."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


_ACCEPT = Outcome.ACCEPT


class Settlement(NamedTuple):
    """A member and its outcome for a message."""

    member_id: str
    outcome: Outcome


class Available(NamedTuple):
    """The messages that can be delivered next: all from the cursor up to `upto_offset`, ascending."""

    offsets: Sequence[int]
    upto_offset: int


class Delivery(NamedTuple):
    """A message for a member; `number` is its delivery count, including this one."""

    offset: int
    member_id: str
    number: int


class DeadLetter(NamedTuple):
    """A message for the dead letter topic; call `decide_bury` once it is durable there."""

    offset: int
    deliveries: int


class Subscription(SubscriptionState):
    """The machine."""

    def __init__(self, feed: Feed, terms: SubscriptionTerms, members: Members | None = None) -> None:
        super().__init__(feed, members)
        self.terms = terms

    @property
    def wake_ms(self) -> int:
        """The time at which `decide_tick` is due."""
        return next((hold.deadline_ms for hold in self.held.values()), NEVER_MS)

    # -- membership

    def decide_start(self, offset: int) -> list[Event]:
        """Set the start offset, unless it is set already."""
        return [] if self.start_offset is not None else [StartMoved(self.feed, offset)]

    def decide_join(self, member_id: str, window: int) -> list[Event]:
        """A member joins or changes its window; a window of 0 pauses delivery."""
        assert window >= 0, window
        return [SubscriberPut(self.feed, member_id, window)]

    def decide_leave(self, member_id: str, *, is_counted: bool) -> Decision[list[DeadLetter]]:
        """A member leaves and its messages are released. `is_counted`: the delivery counts, because a message may have
        crashed the member."""
        self._check_member(member_id)
        offsets = [offset for offset, hold in self.held.items() if hold.member_id == member_id]
        decision = self._settle({offset: self._returned(offset, is_counted) for offset in offsets})
        decision.events.append(SubscriberGone(self.feed, member_id))
        return decision

    def _check_member(self, member_id: str) -> None:
        if member_id not in self.members.windows:
            raise UnknownMember(f"{self.feed.name!r} has no member {member_id!r}")

    # -- delivering

    def decide_dispatch(self, available: Available, now_ms: int, count_max: int) -> Decision[list[Delivery]]:
        """Deliver messages to all members in turn, skipping those whose window is full."""
        return self._deliver(self.members.turns(), available, now_ms, count_max)

    def decide_acquire(
        self, member_id: str, available: Available, now_ms: int, count_max: int
    ) -> Decision[list[Delivery]]:
        """Deliver messages to the member that requests them."""
        self._check_member(member_id)
        room = self.members.windows[member_id] - self.members.holding[member_id]
        return self._deliver(iter([member_id] * max(room, 0)), available, now_ms, count_max)

    def _deliver(
        self, turns: Iterator[str], available: Available, now_ms: int, count_max: int
    ) -> Decision[list[Delivery]]:
        events: list[Event] = []
        deliveries: list[Delivery] = []
        given: list[tuple[int, str]] = []
        marks = self.marks
        next_ones = self._next_offsets(available, events)
        for member_id in islice(turns, count_max):
            offset = next(next_ones, None)
            if offset is None:
                break
            mark = marks.get(offset)
            given.append((offset, member_id))
            deliveries.append(Delivery(offset, member_id, 1 if mark is None else mark.deliveries + 1))
        if given:
            events.append(Held(self.feed, given, now_ms + self.terms.hold_ms))
        return Decision(list(events), deliveries)

    def _next_offsets(self, available: Available, events: list[Event]) -> Iterator[int]:
        """Returned messages first, then new ones while there is room; records gaps on the way."""
        yield from list(self.ready)
        if self.start_offset is None:
            return
        room = self.terms.in_flight_max - self.in_flight_count
        cursor, marks = self.cursor, self.marks
        for offset in available.offsets:
            assert offset >= cursor, (offset, cursor)
            mark = marks.get(offset)
            is_ready = mark is None or mark.state is _READY
            if is_ready and room <= 0:
                return
            if offset > cursor:
                events.append(Skipped(self.feed, cursor, offset - 1))
            if is_ready:
                room -= 1
                yield offset
            cursor = offset + 1
        if available.upto_offset > cursor:
            events.append(Skipped(self.feed, cursor, available.upto_offset - 1))

    # -- settling

    def decide_settle(self, member_id: str, outcomes: Mapping[int, Outcome]) -> Decision[list[DeadLetter]]:
        """Settle messages of one member, all or none. Returns dead letters."""
        return self.decide_settle_all(
            {one: Settlement(member_id, outcome) for one, outcome in outcomes.items()}
        )

    def decide_settle_all(self, claims: Mapping[int, Settlement]) -> Decision[list[DeadLetter]]:
        """The same for several members at once, which writes far fewer records."""
        for offset, claim in claims.items():
            self.check_held(claim.member_id, offset)
        marks = self.marks
        return self._settle(
            {
                offset: _DONE_AT_ONCE
                if claim.outcome is _ACCEPT and offset not in marks
                else self._verdict(offset, claim.outcome)
                for offset, claim in claims.items()
            }
        )

    def check_held(self, member_id: str, offset: int) -> None:
        """Raises NotHeld unless this member holds the message."""
        hold = self.held.get(offset)
        if hold is None or hold.member_id != member_id:
            raise NotHeld(f"{self.feed.name!r}: the message at {offset} is not held by this member")

    def _verdict(self, offset: int, outcome: Outcome) -> Mark:
        deliveries = self.mark(offset).deliveries + 1
        match outcome:
            case Outcome.ACCEPT:
                return Mark(MarkState.DONE, deliveries)
            case Outcome.REJECT:
                return self._dead(deliveries)
            case Outcome.RELEASE:
                return self._returned(offset, is_counted=True)

    def _returned(self, offset: int, is_counted: bool) -> Mark:
        deliveries = self.mark(offset).deliveries + is_counted
        if deliveries >= self.terms.deliveries_max:
            return self._dead(deliveries)
        return Mark(MarkState.READY, deliveries)

    def _dead(self, deliveries: int) -> Mark:
        return Mark(MarkState.DYING if self.terms.has_dead_letters else MarkState.DONE, deliveries)

    def decide_renew(self, member_id: str, offsets: Iterable[int], now_ms: int) -> list[Event]:
        """Extend a member's holds."""
        wanted = sorted(offsets)
        for offset in wanted:
            self.check_held(member_id, offset)
        return [Held(self.feed, [(offset, member_id) for offset in wanted], now_ms + self.terms.hold_ms)]

    def decide_tick(self, now_ms: int) -> Decision[list[DeadLetter]]:
        """Return messages whose hold has expired."""
        late: dict[int, Mark] = {}
        for offset, hold in self.held.items():
            if hold.deadline_ms > now_ms:
                break
            late[offset] = self._returned(offset, is_counted=True)
        return self._settle(late)

    def decide_bury(self, offsets: Iterable[int]) -> list[Event]:
        """These messages are in the dead letter topic. Idempotent."""
        dying = [offset for offset in offsets if self.mark(offset).state is MarkState.DYING]
        return self._settle({one: Mark(MarkState.DONE, self.mark(one).deliveries) for one in dying}).events

    def _settle(self, verdicts: Mapping[int, Mark]) -> Decision[list[DeadLetter]]:
        """Mark these offsets and advance the start over settled ones. Returns the dead letters."""
        if not verdicts:
            return Decision(answer=[])
        held, ordered = self.held, sorted(verdicts.items())
        done = [offset for offset, mark in ordered if mark.state is not _READY and offset in held]
        back = [offset for offset, mark in ordered if mark.state is _READY and offset in held]
        events: list[Event] = [
            Freed(self.feed, freed, is_ready) for freed, is_ready in ((done, False), (back, True)) if freed
        ]
        start = self._advanced(verdicts)
        if start != self.start_offset:
            events.append(StartMoved(self.feed, start))
        events += self._changed_blocks(verdicts, start)
        letters = [DeadLetter(offset, mark.deliveries) for offset, mark in ordered if mark.state is _DYING]
        return Decision(list(events), letters)

    def _advanced(self, verdicts: Mapping[int, Mark]) -> int:
        assert self.start_offset is not None
        offset = self.start_offset
        while offset < self.cursor:
            mark = verdicts.get(offset) or self.marks.get(offset)
            if mark is not None and mark.state is _DONE:
                offset += 1
            elif offset in self.gaps:
                offset = self.gaps[offset] + 1
            else:
                break
        return offset

    def _changed_blocks(self, verdicts: Mapping[int, Mark], start: int) -> list[Event]:
        """Records of changed blocks, and tombstones of those before the new start."""
        passed = [block for block in sorted(self.blocks) if (block + 1) * BLOCK_OFFSETS <= start]
        events: list[Event] = [BlockSet(self.feed, block, None) for block in passed]
        changed = {one for one, mark in verdicts.items() if one >= start and mark != self.mark(one)}
        for block in sorted({offset // BLOCK_OFFSETS for offset in changed}):
            first = block * BLOCK_OFFSETS
            marks = {}
            for offset in range(max(first, start), first + BLOCK_OFFSETS):
                mark = verdicts.get(offset) or self.mark(offset)
                if mark != FRESH:
                    marks[offset] = mark
            events.append(BlockSet(self.feed, block, marks or None))
        return events

    # -- administration

    def decide_trim(self, log_start_offset: int) -> list[Event]:
        """The log has deleted its oldest messages, which can no longer be settled."""
        if self.start_offset is None or log_start_offset <= self.start_offset:
            return []
        return [StartMoved(self.feed, log_start_offset), *self._changed_blocks({}, log_start_offset)]

    def decide_reset(self, offset: int) -> list[Event]:
        """Reset to an offset, discarding settlements; members stay and hold nothing."""
        return [*self.decide_remove(), StartMoved(self.feed, offset)]

    def decide_remove(self) -> list[Event]:
        """Delete all state."""
        blocks: list[Event] = [BlockSet(self.feed, block, None) for block in sorted(self.blocks)]
        return [*blocks, StartMoved(self.feed, None)]
