"""One client connection: frames in, replies out in request order. Does not know what a request means.

Requests take effect in the order of arrival. Most take effect when they start, so that many can wait for the disk at
once; a request whose effect is deferred holds the connection until then. Each request has a reply slot, and a reply
that is ready early waits for those before it, unless the client matches replies by number. Pushed messages have no
slot. The broker stops reading from a client whose replies pile up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol, cast

from penstock.core.errors import BrokerError, ForeignProtocol
from penstock.core.limits import LINK_REQUESTS_IN_FLIGHT_MAX
from penstock.core.log.segment import Slice
from penstock.core.session import Session
from penstock.node.connections.conversation import Conversation, Dialect
from penstock.node.connections.crowd import Crowd
from penstock.node.connections.intake import Budget, Intake
from penstock.node.connections.outbox import Outbox, Piece, release, size_of
from penstock.node.connections.reply_slot import ReplySlot, UnorderedSlot
from penstock.node.connections.turns import BYTES_PER_UNIT, Turns
from penstock.node.runtime.meters import Histogram

LINGER_S_MAX = 5.0
"""How long a closing connection waits for the client to read the last reply."""


class Limits(Protocol):
    """Resource limits of one connection."""

    @property
    def frame_bytes_max(self) -> int: ...

    @property
    def requests_in_flight_max(self) -> int: ...

    @property
    def response_queue_bytes_max(self) -> int: ...


class ConnectionGate(Protocol):
    """The part of the gate that a connection uses."""

    @property
    def limits(self) -> Limits: ...

    @property
    def budget(self) -> Budget: ...

    @property
    def crowd(self) -> Crowd: ...

    def admit(self, connection: Connection) -> bool: ...

    def forget(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """The asyncio protocol object."""

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
        "_unordered",
        "active_at",
        "address",
        "arrived_s",
        "dialect_name",
        "is_closed",
        "is_unordered",
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
        self.is_unordered = False
        """Whether replies may leave in any order."""
        self._unordered = 0
        """Requests in flight that are not in the line, because their replies may come in any order."""
        self._ready: list[Piece] = []
        self._retained_bytes = 0
        """Bytes of replies that are encoded but not yet in the outbox."""
        self._sends_soon = False
        self._is_paused = False
        self._is_ending = False
        self._has_client_ended = False
        self.is_waiting_for_room = False
        self.midway = 0
        """Set by conversations that parse their own requests: the number of the incomplete request, 0 if there is
        none."""
        self.is_closed = False
        self.address = self.peer = "?"
        self.session = Session(dialect.name)
        """The client, as far as it is known."""
        self.arrived_s = 0.0
        """Arrival time of the last bytes, on a finer clock than the loop's, which may have millisecond resolution."""
        self.timing: Histogram | None = None
        """Set by conversations: the histogram for the request that is being handled."""
        self.dialect_name = dialect.name
        self.active_at = loop.time()
        self._unfinished = 0
        self._unfinished_at = self.active_at
        self._on_close: dict[Callable[[], None], None] = {}
        self._on_drained: dict[Callable[[], None], None] = {}
        self._conversation: Conversation = dialect.open(self)
        self._intake = Intake(gate.budget, gate.limits.frame_bytes_max, self._conversation.framing)

    # -- called by the loop

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
        is_full = intake.received(nbytes)
        self.active_at = self._loop.time()
        self.arrived_s = perf_counter()
        self._sends_soon = True
        self._work()
        self._send_ready()
        if is_full:
            intake.widen()

    def eof_received(self) -> bool:
        """The client has sent EOF: True to keep the connection open for outstanding replies."""
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
        """Handle the complete frames in the buffer as far as the limits allow; False when reading must pause."""
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
                if turns.units <= 0 and not self._is_ending:  # yield to other connections, then go on
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
            or self._unordered >= LINK_REQUESTS_IN_FLIGHT_MAX
            or self._retained_bytes + self._outbox.waiting_bytes >= self._limits.response_queue_bytes_max
        )

    @property
    def waiting_bytes(self) -> int:
        """Bytes encoded and not yet sent: how far the client lags."""
        return self._retained_bytes + self._outbox.waiting_bytes

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        """There is room again: handle what is buffered, then resume reading."""
        if not self._is_paused or self.is_closed or self._is_over_limits():
            return
        self.is_waiting_for_room = False
        if self._work() and not self.is_closed:
            self._is_paused = False
            self._transport.resume_reading()

    def _wait_for_room(self) -> None:
        """The shared memory budget is used up: pause reading until another connection releases some."""
        self.is_waiting_for_room = True
        self._pause()
        self._budget.wait(self._resume_soon)

    def _resume_soon(self) -> None:
        self._loop.call_soon(self._resume)

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back in the next loop iteration, unless the connection is closed."""
        self._loop.call_soon(lambda: None if self.is_closed else callback())

    def hold(self) -> Callable[[], None]:
        """Start no further request until the returned function is called: the current one has not taken effect yet."""
        return self.turns.hold()

    def _released(self) -> None:
        if self._is_paused:
            self._resume_soon()

    # -- replies

    def reserve(self) -> ReplySlot:
        """Reserve the slot of a reply that comes later."""
        if self.is_unordered:
            self._unordered += 1
            return UnorderedSlot(self)
        slot = ReplySlot(self)
        self._line.append(slot)
        return slot

    def answer(self, pieces: Sequence[Piece]) -> None:
        """Send a reply that is ready now, after those of earlier requests."""
        if self._line:
            self.reserve().answer(pieces)
        elif self.retain(pieces):
            if self.timing is not None:
                self.timing.observe(perf_counter() - self.arrived_s)
            self._ready += pieces
            self._send_soon()

    def allow_any_order(self) -> None:
        """From now on a reply waits for no earlier one. Requests still start in order."""
        assert not self._line, "the replies of earlier requests are in order"
        self.is_unordered = True

    def send_unordered(self, pieces: Sequence[Piece]) -> None:
        """Send the reply of a slot outside the line."""
        self._unordered -= 1
        self._ready += pieces
        self._send_soon()
        if self._is_paused:
            self._resume_soon()

    def push(self, pieces: Sequence[Piece]) -> None:
        """Send an unsolicited message, without a reply slot. Callers check `waiting_bytes` first."""
        if not self._is_ending and self.retain(pieces):
            self.active_at = self._loop.time()
            self._ready += pieces
            self._send_soon()

    def on_drained(self, callback: Callable[[], None]) -> None:
        """Call back whenever the send queue has drained, until `not_on_drained` or the close."""
        self._on_drained[callback] = None

    def not_on_drained(self, callback: Callable[[], None]) -> None:
        self._on_drained.pop(callback, None)

    def retain(self, pieces: Sequence[Piece]) -> bool:
        """Account for a reply: its bytes count as waiting, and its files are pinned so that retention cannot delete
        them.

        False if the connection is closed.
        """
        if self.is_closed:
            return False
        for at, piece in enumerate(pieces):
            if type(piece) is Slice:
                try:
                    piece.file.pin()
                except BrokerError as error:
                    release(pieces[:at])
                    self.close(str(error))
                    return False
                self._retained_bytes += piece.length
            else:
                length = len(piece)
                self.turns.units -= length // BYTES_PER_UNIT
                self._retained_bytes += length
        return True

    def advance(self) -> None:
        """Send the replies at the head of the line that are ready."""
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
        """Replies that become ready in one loop iteration are sent together at its end."""
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
        return len(self._line) + self._unordered

    @property
    def is_quiet(self) -> bool:
        """No request is in flight and nothing is waiting to be sent."""
        return not self.in_flight and not self._ready and not self._outbox.waiting_bytes

    # -- close

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call back when the connection closes; immediately if it is closed."""
        if self.is_closed:
            callback()
        else:
            self._on_close[callback] = None

    def not_on_close(self, callback: Callable[[], None]) -> None:
        self._on_close.pop(callback, None)

    def close(self, why: str) -> None:
        """Abort the connection and log the reason."""
        if self.is_closed:
            return
        self.is_closed = True
        self._log(why)
        self._transport.abort()

    def _log(self, why: str) -> None:
        logging.getLogger(f"penstock.{self.dialect_name}").warning(
            "closing connection: %s", why, extra=self.context
        )

    @property
    def context(self) -> dict[str, object]:
        """Log fields that identify the connection."""
        return {"door": self.dialect_name, "peer": self.peer, "client_id": self.session.client_id or ""}

    def fail(self, error: BrokerError) -> None:
        """Close the connection because of bad input, with a closing reply if the protocol has one."""
        reply = (
            tuple(filter(None, (error.answer,)))
            if isinstance(error, ForeignProtocol)
            else self._conversation.closing_reply(error)
        )
        if not reply or self.is_closed or self._is_ending:
            self.close(str(error))
            return
        self._log(str(error))
        self.timing = None
        self.answer(reply)
        self.finish()

    def finish(self) -> None:
        """Accept no more requests; close once outstanding replies are sent, or the client does not read them in
        time."""
        if self.is_closed or self._is_ending:
            return
        self._end()
        timer = self._loop.call_later(LINGER_S_MAX, self._transport.abort)
        self.on_close(timer.cancel)
        if self.is_quiet:
            self._send_eof()

    def _end(self) -> None:
        """Discard further input. It is still read: closing a socket with unread bytes would drop what is not sent
        yet."""
        self._is_ending = True
        self._intake.close()

    def _send_eof(self) -> None:
        """Everything is sent: signal EOF. The client closes, or the linger timer does."""
        if self._has_client_ended or not self._transport.can_write_eof():
            self.hang_up()
        elif not self._transport.is_closing():
            self._transport.write_eof()

    def hang_up(self) -> None:
        """Close the connection without logging."""
        self.is_closed = True
        self._transport.close()

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> tuple[asyncio.Transport, bytes]:
        """Give the transport to another protocol, which passes the loss on; returns also the unhandled bytes."""
        held = self._intake.held()
        self._end()
        self._transport.set_protocol(protocol)
        return self._transport, held

    def shrink(self) -> None:
        self._intake.shrink()

    def unfinished_s(self, now: float) -> float:
        """How long the current request has been incomplete, as sampled by the sweep. Time during which reading is
        paused does not count, unless the request holds much of the shared memory: others wait for that."""
        intake = self._intake
        is_held_up = self._is_paused and not (self.is_waiting_for_room and intake.is_large)
        begun = intake.taken if intake.held_bytes else -self.midway
        if not (intake.held_bytes or self.midway) or is_held_up or begun != self._unfinished:
            self._unfinished, self._unfinished_at = begun, now
        return now - self._unfinished_at
