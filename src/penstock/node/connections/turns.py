"""When the requests of one connection begin: in order, whatever waits in between. Never knows what a request means.

Most requests take effect when they are started and run beside each other while they wait for the disk. One whose
effect has to wait holds the connection. An exclusive one begins after all before it are answered, and those behind it
wait for its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from penstock.core.errors import BrokerError
from penstock.node.connections.reply_slot import ReplySlot, SlotOwner

UNITS_PER_TURN = 100
"""What one connection may do in one turn of the loop: a request costs one unit, and so do BYTES_PER_UNIT."""

BYTES_PER_UNIT = 1 << 15
"""Bytes of a request, or of an answer that is made in memory, that count as much as a request."""


class Owner(SlotOwner, Protocol):
    """The connection."""

    def fail(self, error: BrokerError) -> None: ...

    def soon(self, callback: Callable[[], None]) -> None: ...


class Turns:
    """The line of one connection."""

    __slots__ = (
        "_after_answers",
        "_exclusive",
        "_is_beginning",
        "_is_due",
        "_owner",
        "_released",
        "_unbegun",
        "holds",
        "line",
        "units",
    )

    def __init__(self, owner: Owner, released: Callable[[], None]) -> None:
        self._owner = owner
        self._released = released
        self.line: deque[ReplySlot] = deque()
        """Every request that has a place and whose answer has not left it."""
        self.holds = 0
        """Requests that were started and have not taken effect: no other is started before they have."""
        self._unbegun: deque[ReplySlot] = deque()
        """The end of the line: requests that wait for an exclusive one, or are exclusive themselves."""
        self._exclusive: ReplySlot | None = None
        """The exclusive request that has begun and is not answered."""
        self._after_answers: Callable[[], None] | None = None
        self._is_beginning = False
        self._is_due = False
        self.units = UNITS_PER_TURN
        """What is left of this turn. Those who do the work count it; at zero others come first."""

    @property
    def has_exclusive(self) -> bool:
        """Does a request wait for its turn, or have its turn? What comes now has to wait for it."""
        return bool(self._unbegun) or self._exclusive is not None

    def hold(self) -> Callable[[], None]:
        """Start no further request until the returned function is called.

        Without it a later request could overtake the one in hand, and a producer's batches would change places.
        """
        self.holds += 1
        is_held = True

        def release_hold() -> None:
            nonlocal is_held
            assert is_held, "released twice"
            is_held = False
            self.holds -= 1
            if self._unbegun:
                self._begin_ready()
            self._released()

        return release_hold

    def in_turn(self, begin: Callable[[ReplySlot], None]) -> None:
        """Start an exclusive request: after all before it are answered; those behind it wait for its answer."""
        self._enqueue(ReplySlot(self._owner, begin, is_exclusive=True))

    def beside(self, begin: Callable[[ReplySlot], None]) -> None:
        """Start a request beside those before it that are not answered, unless one of them is exclusive."""
        if not self._unbegun and self._exclusive is None and not self.holds:
            slot = ReplySlot(self._owner)
            self.line.append(slot)
            begin(slot)
        else:
            self._enqueue(ReplySlot(self._owner, begin))

    def when_answered(self, begin: Callable[[], None]) -> None:
        """Start a request once all before it are answered; it takes its own place in line then.

        For reads of what is visible only when it is durable: a client reads what it has just written.
        """
        if not self.line:
            begin()
            return
        release_hold = self.hold()

        def start() -> None:
            try:
                begin()
            except BrokerError as error:
                self._owner.fail(error)
            release_hold()

        assert self._after_answers is None, "a connection that is held starts no other request"
        self._after_answers = start

    def advance(self) -> None:
        """Answers have left the head of the line: start those whose turn it is now."""
        if self._exclusive is not None and (not self.line or self.line[0] is not self._exclusive):
            self._exclusive = None
        if self._unbegun:
            self._begin_ready()
        elif self._after_answers is not None and not self.line:
            start, self._after_answers = self._after_answers, None
            start()

    def clear(self) -> None:
        """The connection is gone: nothing that has not begun ever will."""
        self.line.clear()
        self._unbegun.clear()
        self._after_answers = None

    def _enqueue(self, slot: ReplySlot) -> None:
        self.line.append(slot)
        self._unbegun.append(slot)
        self._begin_ready()

    def _begin_ready(self) -> None:
        """Start the requests whose turn it is. A loop, because many of them are answered before they return."""
        if self._is_beginning:
            return
        self._is_beginning = True
        try:
            while self._unbegun and self._exclusive is None and not self.holds:
                if self.units <= 0:
                    self._go_on_soon()
                    break
                slot = self._unbegun[0]
                if slot.is_exclusive:
                    if self.line[0] is not slot:
                        break
                    self._exclusive = slot
                self._unbegun.popleft()
                self.units -= 1
                slot.begin()
        finally:
            self._is_beginning = False

    def _go_on_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._owner.soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        self.units = UNITS_PER_TURN
        self._begin_ready()
