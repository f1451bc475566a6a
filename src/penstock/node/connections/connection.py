"""One client's connection: frames in, answers out, in the order of the requests. Never knows what a request means.

Requests take effect in the order in which they came. Most take effect when they are started, so that many may wait
for the disk at once; a request whose effect has to wait holds the connection until then. Each request has its place in
line, and an answer that is ready early waits for those before it. What the server pushes unasked stands in no line. A
client that has too much waiting is simply not read from.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol, cast

from penstock.core.errors import BrokerError, ForeignProtocol
from penstock.core.log.segment import Slice
from penstock.core.session import Session
from penstock.node.connections.conversation import Conversation, Dialect
from penstock.node.connections.crowd import Crowd
from penstock.node.connections.intake import Budget, Intake
from penstock.node.connections.outbox import Outbox, Piece, release, size_of
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.connections.turns import BYTES_PER_UNIT, Turns
from penstock.node.runtime.meters import Histogram

LINGER_S_MAX = 5.0
"""How long a client whose connection ends has to take the last words."""


class Limits(Protocol):
    """What a connection may use up."""

    @property
    def frame_bytes_max(self) -> int: ...

    @property
    def requests_in_flight_max(self) -> int: ...

    @property
    def response_queue_bytes_max(self) -> int: ...


class ConnectionGate(Protocol):
    """What a connection needs of the gate."""

    @property
    def limits(self) -> Limits: ...

    @property
    def budget(self) -> Budget: ...

    @property
    def crowd(self) -> Crowd: ...

    def admit(self, connection: Connection) -> bool: ...

    def forget(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """The protocol object that the loop drives."""

    __slots__ = (
        "_budget",
        "_conversation",
        "_gate",
        "_has_client_ended",
        "_intake",
        "_is_ending",
        "_is_paused",
        "_limits",
        "_line",
        "_loop",
        "_on_close",
        "_on_drained",
        "_outbox",
        "_ready",
        "_retained_bytes",
        "_sends_soon",
        "_transport",
        "_unfinished",
        "_unfinished_at",
        "active_at",
        "address",
        "arrived_s",
        "dialect_name",
        "is_closed",
        "is_waiting_for_room",
        "midway",
        "peer",
        "session",
        "timing",
        "turns",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, gate: ConnectionGate, dialect: Dialect[Connection]
    ) -> None:
        self._loop = loop
        self._gate = gate
        self._limits = gate.limits
        self._budget = gate.budget
        self.turns = Turns(self, self._released)
        self._line = self.turns.line
        self._ready: list[Piece] = []
        self._retained_bytes = 0
        """Of answers that are made but not yet with the outbox."""
        self._sends_soon = False
        self._is_paused = False
        self._is_ending = False
        self._has_client_ended = False
        self.is_waiting_for_room = False
        self.midway = 0
        """Set by conversations whose parser cuts for itself: the number of the request that has begun and is not
        complete, 0 when there is none."""
        self.is_closed = False
        self.address = self.peer = "?"
        self.session = Session(dialect.name)
        """Who is at the other end, as far as it is known."""
        self.arrived_s = 0.0
        """When the last bytes came, on a finer clock than the loop's: that one may tell no more than milliseconds."""
        self.timing: Histogram | None = None
        """Set by conversations: where the time of the request that is being handled is counted."""
        self.dialect_name = dialect.name
        self.active_at = loop.time()
        self._unfinished = 0
        self._unfinished_at = self.active_at
        self._on_close: dict[Callable[[], None], None] = {}
        self._on_drained: dict[Callable[[], None], None] = {}
        self._conversation: Conversation = dialect.open(self)
        self._intake = Intake(gate.budget, gate.limits.frame_bytes_max, self._conversation.framing)

    # -- the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else "?"
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self.session = Session(self.dialect_name, address=self.address)
        self._outbox = Outbox(self._loop, transport, self._drained, lambda: self.context)
        if not self._gate.admit(self):
            self.is_closed = True
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._intake.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_ending:
            return
        intake = self._intake
        room_before = len(intake.room())
        intake.received(nbytes)
        self.active_at = self._loop.time()
        self.arrived_s = perf_counter()
        self._sends_soon = True
        self._work()
        self._send_ready()
        if nbytes == room_before:
            intake.widen()

    def eof_received(self) -> bool:
        """The client sends no more: True when it is still owed answers and wants them."""
        if self.is_closed or self._is_ending or self.is_quiet or not self._conversation.answers_after_end:
            return False
        self._has_client_ended = True
        self._end()
        return True

    def pause_writing(self) -> None:
        self._outbox.pause()

    def resume_writing(self) -> None:
        self._outbox.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._outbox.close()
        self._intake.drop()
        release(self._ready)
        for slot in self._line:
            release(slot.pieces or ())
        self.turns.clear()
        self._ready.clear()
        self._on_drained.clear()
        callbacks, self._on_close = self._on_close, {}
        for callback in callbacks:
            callback()
        self._gate.forget(self)

    # -- requests

    def _work(self) -> bool:
        """Handle the whole frames that are there, as far as the limits allow; False when it has to pause."""
        crowd, turns = self._gate.crowd, self.turns
        turns.units = share = crowd.share
        is_done = self._handle_frames()
        crowd.spend(self._loop, share - turns.units)
        return is_done

    def _handle_frames(self) -> bool:
        intake, handle, turns = self._intake, self._conversation.handle, self.turns
        try:
            while not self.is_closed and not self._is_ending:
                if self._is_over_limits():
                    self._pause()
                    return False
                frame = intake.take()
                if frame is None:
                    break
                turns.units -= 1 + len(frame) // BYTES_PER_UNIT
                handle(frame)
                if turns.units <= 0:  # others come first, then the rest of what is there
                    self._pause()
                    self._resume_soon()
                    return False
        except BrokerError as error:
            self.fail(error)
            return True
        if not self.is_closed and not self._is_ending and not intake.make_room():
            self._wait_for_room()
            return False
        return True

    def _is_over_limits(self) -> bool:
        return (
            self.turns.holds > 0
            or len(self._line) >= self._limits.requests_in_flight_max
            or self._retained_bytes + self._outbox.waiting_bytes >= self._limits.response_queue_bytes_max
        )

    @property
    def waiting_bytes(self) -> int:
        """What is made and has not left yet: how far the reader lags behind."""
        return self._retained_bytes + self._outbox.waiting_bytes

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        """Room again: handle what is there already, then read on."""
        if not self._is_paused or self.is_closed or self._is_over_limits():
            return
        self.is_waiting_for_room = False
        if self._work() and not self.is_closed:
            self._is_paused = False
            self._transport.resume_reading()

    def _wait_for_room(self) -> None:
        """Over the memory that all connections share: not read from until somebody gives some back."""
        self.is_waiting_for_room = True
        self._pause()
        self._budget.wait(self._resume_soon)

    def _resume_soon(self) -> None:
        self._loop.call_soon(self._resume)

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back in the next turn of the loop, unless the client has gone."""
        self._loop.call_soon(lambda: None if self.is_closed else callback())

    def hold(self) -> Callable[[], None]:
        """Start no further request until the returned function is called: this one has not taken effect yet."""
        return self.turns.hold()

    def _released(self) -> None:
        if self._is_paused:
            self._resume_soon()

    # -- answers

    def reserve(self) -> ReplySlot:
        """A place in line for an answer that comes later."""
        slot = ReplySlot(self)
        self._line.append(slot)
        return slot

    def answer(self, pieces: Sequence[Piece]) -> None:
        """An answer that is ready now."""
        if self._line:
            self.reserve().answer(pieces)
        elif self.retain(pieces):
            if self.timing is not None:
                self.timing.observe(perf_counter() - self.arrived_s)
            self._ready += pieces
            self._send_soon()

    def push(self, pieces: Sequence[Piece]) -> None:
        """Send of the server's own accord, without a place in line. Whoever pushes looks at `waiting_bytes` first."""
        if not self._is_ending and self.retain(pieces):
            self.active_at = self._loop.time()
            self._ready += pieces
            self._send_soon()

    def on_drained(self, callback: Callable[[], None]) -> None:
        """Call back whenever nothing waits to be sent any more, until `not_on_drained` or the end."""
        self._on_drained[callback] = None

    def not_on_drained(self, callback: Callable[[], None]) -> None:
        self._on_drained.pop(callback, None)

    def retain(self, pieces: Sequence[Piece]) -> bool:
        """Take an answer in: its bytes count as waiting, and its files stay even if retention removes them.

        False when there is nobody left to send it to.
        """
        if self.is_closed:
            return False
        for at, piece in enumerate(pieces):
            if isinstance(piece, Slice):
                try:
                    piece.file.pin()
                except BrokerError as error:
                    release(pieces[:at])
                    self.close(str(error))
                    return False
            else:
                self.turns.units -= len(piece) // BYTES_PER_UNIT
            self._retained_bytes += size_of(piece)
        return True

    def advance(self) -> None:
        """Move the answers at the head of the line that are ready."""
        line = self._line
        if line[0].pieces is None:
            return
        while line and (pieces := line[0].pieces) is not None:
            self._ready += pieces
            line.popleft()
        self._send_soon()
        self.turns.advance()
        if self._is_paused:
            self._resume_soon()

    def _send_soon(self) -> None:
        """Many answers become ready in one turn of the loop: they leave together at its end."""
        if not self._sends_soon:
            self._sends_soon = True
            self._loop.call_soon(self._send_ready)

    def _send_ready(self) -> None:
        self._sends_soon = False
        if self.is_closed or not self._ready:
            return
        ready, self._ready = self._ready, []
        self._retained_bytes -= sum(map(size_of, ready))
        self._outbox.write(ready)
        if self._is_paused:
            self._resume_soon()
        if not self._outbox.waiting_bytes:
            self._notify_drained()

    def _drained(self) -> None:
        self.active_at = self._loop.time()
        if self._is_paused:
            self._resume_soon()
        self._notify_drained()

    def _notify_drained(self) -> None:
        for callback in tuple(self._on_drained):
            callback()
        if self._is_ending and self.is_quiet:
            self._send_eof()

    @property
    def in_flight(self) -> int:
        return len(self._line)

    @property
    def is_quiet(self) -> bool:
        """Nothing is being worked on and nothing waits to be sent."""
        return not self._line and not self._ready and not self._outbox.waiting_bytes

    # -- the end

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call back at the end; at once if that has been already."""
        if self.is_closed:
            callback()
        else:
            self._on_close[callback] = None

    def not_on_close(self, callback: Callable[[], None]) -> None:
        self._on_close.pop(callback, None)

    def close(self, why: str) -> None:
        """End the connection, with one line that says why."""
        if self.is_closed:
            return
        self.is_closed = True
        self._log(why)
        self._transport.abort()

    def _log(self, why: str) -> None:
        logging.getLogger(f"penstock.{self.dialect_name}").warning(
            "closing a connection: %s", why, extra=self.context
        )

    @property
    def context(self) -> dict[str, object]:
        """Who this is, for lines of the log."""
        return {"door": self.dialect_name, "peer": self.peer, "client_id": self.session.client_id or ""}

    def fail(self, error: BrokerError) -> None:
        """End the connection because of what came in on it, with last words if the protocol has any."""
        words = (
            tuple(filter(None, (error.answer,)))
            if isinstance(error, ForeignProtocol)
            else self._conversation.closing_reply(error)
        )
        if not words or self.is_closed or self._is_ending:
            self.close(str(error))
            return
        self._log(str(error))
        self.timing = None
        self.answer(words)
        self.finish()

    def finish(self) -> None:
        """Take no more requests; end once the answers that are due have left, or the client does not take them."""
        if self.is_closed or self._is_ending:
            return
        self._end()
        timer = self._loop.call_later(LINGER_S_MAX, self._transport.abort)
        self.on_close(timer.cancel)
        if self.is_quiet:
            self._send_eof()

    def _end(self) -> None:
        """From now on what comes in is not kept. It is still read: a socket closed on unread bytes forgets what it was
        to send."""
        self._is_ending = True
        self._intake.close()

    def _send_eof(self) -> None:
        """All is said. The client hears the end and closes, or is not waited for any longer."""
        if self._has_client_ended or not self._transport.can_write_eof():
            self.hang_up()
        elif not self._transport.is_closing():
            self._transport.write_eof()

    def hang_up(self) -> None:
        """End a connection that did nothing wrong."""
        self.is_closed = True
        self._transport.close()

    def shrink(self) -> None:
        self._intake.shrink()

    def unfinished_s(self, now: float) -> float:
        """For how long one request has been coming in, as far as looks at it tell. Time in which we do not read does
        not count, unless what has come already takes much of the shared memory: then others wait for it."""
        intake = self._intake
        is_held_up = self._is_paused and not (self.is_waiting_for_room and intake.is_large)
        begun = intake.taken if intake.held_bytes else -self.midway
        if not (intake.held_bytes or self.midway) or is_held_up or begun != self._unfinished:
            self._unfinished, self._unfinished_at = begun, now
        return now - self._unfinished_at
