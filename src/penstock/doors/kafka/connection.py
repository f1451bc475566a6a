"""One client's connection: frames in, answers out, in the order of the requests. Never knows what a request means.

Requests are started as they come, so that many may wait for the disk at once; each has its place in line, and
an answer that is ready early waits for those before it. A client that has too much waiting is simply not read
from.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from penstock.core.errors import BrokerError
from penstock.core.log.segment import Slice
from penstock.doors.kafka.intake import Budget, Intake
from penstock.doors.kafka.outbox import Outbox, Piece, release, size_of

logger = logging.getLogger("penstock.kafka")


class Limits(Protocol):
    """What a connection may use up."""

    @property
    def frame_bytes_max(self) -> int: ...

    @property
    def requests_in_flight_max(self) -> int: ...

    @property
    def response_queue_bytes_max(self) -> int: ...


class Place:
    """One request's place in the line of answers."""

    __slots__ = ("_connection", "pieces")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.pieces: Sequence[Piece] | None = None

    def answer(self, pieces: Sequence[Piece]) -> None:
        """Fill the place, once."""
        assert self.pieces is None, "answered twice"
        if self._connection.keep(pieces):
            self.pieces = pieces
            self._connection.advance()


Handle = Callable[["Connection", memoryview], None]


class Connection(asyncio.BufferedProtocol):
    """The protocol object that the loop drives."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: Limits, budget: Budget, handle: Handle, door: Door
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._handle = handle
        self._door = door
        self._budget = budget
        self._intake = Intake(budget, limits.frame_bytes_max)
        self._line: deque[Place] = deque()
        self._ready: list[Piece] = []
        self._kept_bytes = 0
        """Of answers that are made but not yet with the outbox."""
        self._sends_soon = False
        self._is_paused = False
        self.is_waiting_for_room = False
        self.is_closed = False
        self.peer = "?"
        self.client_id: str | None = None
        self.software = ""
        self.active_at = loop.time()
        self._unfinished = 0
        self._unfinished_at = self.active_at
        self._on_close: dict[Callable[[], None], None] = {}

    # -- the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else "?"
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self._outbox = Outbox(self._loop, transport, self._drained)
        if not self._door.admit(self):
            self.is_closed = True
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._intake.room()

    def buffer_updated(self, nbytes: int) -> None:
        intake = self._intake
        room_before = len(intake.room())
        intake.received(nbytes)
        self.active_at = self._loop.time()
        self._sends_soon = True
        self._work()
        self._send_ready()
        if nbytes == room_before:
            intake.widen()

    def pause_writing(self) -> None:
        self._outbox.pause()

    def resume_writing(self) -> None:
        self._outbox.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._outbox.close()
        self._intake.close()
        release(self._ready)
        for place in self._line:
            release(place.pieces or ())
        self._line.clear()
        self._ready.clear()
        callbacks, self._on_close = self._on_close, {}
        for callback in callbacks:
            callback()
        self._door.forget(self)

    # -- requests

    def _work(self) -> None:
        """Handle the whole frames that are there, as far as the limits allow."""
        intake = self._intake
        try:
            while not self.is_closed:
                if self._is_over_limits():
                    self._pause()
                    return
                frame = intake.take()
                if frame is None:
                    break
                self._handle(self, frame)
        except BrokerError as error:
            self.close(str(error))
            return
        if not self.is_closed and not intake.make_room():
            self._wait_for_room()

    def _is_over_limits(self) -> bool:
        return (
            len(self._line) >= self._limits.requests_in_flight_max
            or self._kept_bytes + self._outbox.waiting_bytes >= self._limits.response_queue_bytes_max
        )

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        """Room again: handle what is there already, then read on."""
        if not self._is_paused or self.is_closed or self._is_over_limits():
            return
        self._is_paused = self.is_waiting_for_room = False
        self._work()
        if not self._is_paused and not self.is_closed:
            self._transport.resume_reading()

    def _wait_for_room(self) -> None:
        """Over the memory that all connections share: not read from until somebody gives some back."""
        self.is_waiting_for_room = True
        self._pause()
        self._budget.wait(self._resume_soon)

    def _resume_soon(self) -> None:
        self._loop.call_soon(self._resume)

    # -- answers

    def reserve(self) -> Place:
        """A place in line for an answer that comes later."""
        place = Place(self)
        self._line.append(place)
        return place

    def answer(self, pieces: Sequence[Piece]) -> None:
        """An answer that is ready now."""
        if self._line:
            self.reserve().answer(pieces)
        elif self.keep(pieces):
            self._ready += pieces
            self._send_soon()

    def keep(self, pieces: Sequence[Piece]) -> bool:
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
            self._kept_bytes += size_of(piece)
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
        self._kept_bytes -= sum(map(size_of, ready))
        self._outbox.write(ready)
        if self._is_paused:
            self._resume_soon()

    def _drained(self) -> None:
        self.active_at = self._loop.time()
        if self._is_paused:
            self._resume_soon()

    @property
    def in_flight(self) -> int:
        return len(self._line)

    @property
    def is_quiet(self) -> bool:
        """Nothing is being worked on and nothing waits to be sent."""
        return not self._line and not self._ready and not self._outbox.waiting_bytes

    # -- the end

    def on_close(self, callback: Callable[[], None]) -> None:
        self._on_close[callback] = None

    def not_on_close(self, callback: Callable[[], None]) -> None:
        self._on_close.pop(callback, None)

    def close(self, why: str) -> None:
        """End the connection, with one line that says why."""
        if self.is_closed:
            return
        self.is_closed = True
        logger.warning(
            "closing a connection: %s", why, extra={"peer": self.peer, "client_id": self.client_id or ""}
        )
        self._transport.abort()

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
        if not intake.held_bytes or is_held_up or intake.taken != self._unfinished:
            self._unfinished, self._unfinished_at = intake.taken, now
        return now - self._unfinished_at


class Door(Protocol):
    """What a connection tells its door."""

    def admit(self, connection: Connection) -> bool: ...

    def forget(self, connection: Connection) -> None: ...
