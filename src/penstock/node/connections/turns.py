"""Decides when the requests of one connection start, so that they take effect in order. Does not know what they mean.

Most requests take effect when they start and run concurrently while they wait for the disk. A request whose effect is
deferred holds the connection. An exclusive request starts after all earlier ones are answered, and later ones wait for
its reply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from penstock.core.errors import BrokerError
from penstock.node.connections.reply_slot import ReplySlot, SlotOwner

UNITS_PER_TURN = 100
"""Work of one connection in one loop iteration: a request costs one unit, and so do BYTES_PER_UNIT."""

BYTES_PER_UNIT = 1 << 15
"""Bytes of a request, or of a reply built in memory, that cost as much as one request."""


class Owner(SlotOwner, Protocol):
    """The part of the connection that Turns uses."""

    def fail(self, error: BrokerError) -> None: ...

    def soon(self, callback: Callable[[], None]) -> None: ...


class Turns:
    """The requests of one connection that are not answered yet."""

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
        """The slots of all requests whose replies are not sent yet."""
        self.holds = 0
        """Requests that have started and not taken effect; no other request starts before they do."""
        self._unbegun: deque[ReplySlot] = deque()
        """The tail of the line: requests that wait for an exclusive one, or are exclusive themselves."""
        self._exclusive: ReplySlot | None = None
        """The exclusive request that has started and is not answered."""
        self._after_answers: Callable[[], None] | None = None
        self._is_beginning = False
        self._is_due = False
        self.units = UNITS_PER_TURN
        """Units left in this iteration. Whoever does the work subtracts them; at zero other connections go first."""

    @property
    def has_exclusive(self) -> bool:
        """Whether an exclusive request is waiting or running: new requests must wait for it."""
        return bool(self._unbegun) or self._exclusive is not None

    def hold(self) -> Callable[[], None]:
        """Start no further request until the returned function is called.

        Without the hold a later request could overtake this one, and a producer's batches would be reordered.
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
        """Start an exclusive request once all earlier ones are answered; later ones wait for its reply."""
        self._enqueue(ReplySlot(self._owner, begin, is_exclusive=True))

    def beside(self, begin: Callable[[ReplySlot], None]) -> None:
        """Start a request concurrently with unanswered earlier ones, unless one of them is exclusive."""
        if not self._unbegun and self._exclusive is None and not self.holds:
            slot = ReplySlot(self._owner)
            self.line.append(slot)
            begin(slot)
        else:
            self._enqueue(ReplySlot(self._owner, begin))

    def when_answered(self, begin: Callable[[], None]) -> None:
        """Start a request once all earlier ones are answered; it reserves its slot then.

        For reads: records become visible when they are durable, so a client reads what it has just written.
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

        assert self._after_answers is None, "a held connection starts no other request"
        self._after_answers = start

    def advance(self) -> None:
        """Replies have left the head of the line: start the requests that waited for them."""
        if self._exclusive is not None and (not self.line or self.line[0] is not self._exclusive):
            self._exclusive = None
        if self._unbegun:
            self._begin_ready()
        elif self._after_answers is not None and not self.line:
            start, self._after_answers = self._after_answers, None
            start()

    def clear(self) -> None:
        """The connection is closed: drop the requests that have not started."""
        self.line.clear()
        self._unbegun.clear()
        self._after_answers = None

    def _enqueue(self, slot: ReplySlot) -> None:
        self.line.append(slot)
        self._unbegun.append(slot)
        self._begin_ready()

    def _begin_ready(self) -> None:
        """Start the requests that may start now."""
        # A request answered inside begin() re-enters through advance(); the outer loop picks up what that allows,
        # so the stack does not grow with the number of pipelined requests.
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
                    # At the head of the line, every earlier reply has been sent: all earlier effects are visible.
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
