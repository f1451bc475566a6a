"""The link to one other broker: connects on demand, backs off after failures, settles every call within its deadline.

A call that fails with PeerUnavailable, Throttled or UnsupportedVersion was not sent. A call that was sent and not
answered fails with TimedOut: its outcome is unknown, and the link never sends it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from penstock.core.errors import BrokerError, PeerUnavailable, TimedOut
from penstock.node.peers.link_connection import LinkConnection
from penstock.node.peers.link_opening import LinkPeer, open_connection
from penstock.node.peers.pending_calls import PendingCall, PendingCalls
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.links")

CONNECT_S_MAX = 5.0
"""For connecting and the handshake together."""
BACK_OFF_S_MIN, BACK_OFF_S_MAX = 0.05, 1.0
"""Pause after a failed attempt; it doubles with each further one."""
JITTER_STEPS = 256
SILENT_S_MAX = 3.0
"""A peer that has sent nothing since a call timed out, and for so long, gets a new connection."""
_IDLE = "idle"


class BrokerLink:
    """Calls to one broker. Created by PeerLinks."""

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        peer_id: int,
        peer: LinkPeer,
        on_trouble: Callable[[], None] = lambda: None,
    ) -> None:
        self._runtime = runtime
        self._broker_id = broker_id
        self.peer_id = peer_id
        self.peer = peer
        self._on_trouble = on_trouble
        self._loop = asyncio.get_running_loop()
        self._meter = runtime.meters.link(peer_id)
        self._calls = PendingCalls(self._loop, self._meter, self._expire)
        self._waiting: list[PendingCall] = []
        """Calls that wait for the connection."""
        self._connection: LinkConnection | None = None
        self._tasks = Tasks()
        self._is_connecting = False
        self._failures = 0
        self._retry_s = 0.0
        """No attempt before this time."""
        self._trouble = ""
        self._closed: str | None = None
        """Why the link takes no calls any more."""
        self._used_s = self._loop.time()
        self._silent_s = -1.0
        """When the first call was sent that timed out since the peer was last heard."""

    def __str__(self) -> str:
        return f"broker {self.peer_id} at {self.peer.address}"

    @property
    def _context(self) -> dict[str, object]:
        return {"peer": self.peer_id, "address": str(self.peer.address)}

    # -- calls

    def send(self, request: Any, answered: Callable[[Any], None], timeout_ms: int) -> None:
        """Send a request; `answered` gets the response or a BrokerError, once, maybe before this returns."""
        now_s = self._used_s = self._loop.time()
        call = PendingCall(request, answered, timeout_ms, now_s)
        try:
            if self._closed is not None:
                raise PeerUnavailable(f"{self} cannot be called, nothing was sent: {self._closed}")
            if self._connection is None and not self._is_connecting and now_s < self._retry_s:
                raise self._unreachable()
            self._calls.add(call)
        except BrokerError as error:
            self._meter.errors[error.code] += 1
            answered(error)
            return
        if self._connection is not None:
            self._transmit(self._connection, call)
            return
        self._waiting.append(call)
        if not self._is_connecting:
            self._is_connecting = True
            self._tasks.spawn(self._connect())

    def _transmit(self, connection: LinkConnection, call: PendingCall) -> None:
        try:
            pieces = connection.encode(call)
            self._calls.count_bytes(call, sum(map(len, pieces)))
        except BrokerError as error:
            self._calls.settle(call, error)
            return
        connection.send(call, pieces)

    def _answered(self, call: PendingCall, response: Any) -> None:
        self._failures = 0
        self._calls.settle(call, response)

    def _expire(self, call: PendingCall) -> None:
        """The deadline has passed."""
        if not call.is_sent:
            why = self._trouble or "not connected yet"
            text = f"{self} was not reached within {call.timeout_ms} ms, nothing was sent: {why}"
            self._calls.settle(call, PeerUnavailable(text))
            return
        text = f"{self} did not answer within {call.timeout_ms} ms, the outcome is unknown"
        self._calls.settle(call, TimedOut(text))
        if self._connection is not None:
            self._check_silence(self._connection, call.deadline_s - call.timeout_ms / 1000)

    def _check_silence(self, connection: LinkConnection, sent_s: float) -> None:
        """Close the connection of a peer that seems to be gone. One slow call among answered ones proves nothing, and
        neither does a quiet time without a call that timed out: a Fetch may wait for long."""
        if connection.heard_s > sent_s:
            return
        if self._silent_s <= connection.heard_s:
            self._silent_s = sent_s
        if self._loop.time() - self._silent_s >= SILENT_S_MAX:
            connection.close(f"it sent nothing for {SILENT_S_MAX:g} s")

    # -- the connection

    async def _connect(self) -> None:
        """One attempt. If it fails, so do the calls that waited for it."""
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                connection = await open_connection(
                    self.peer, self.peer_id, self._broker_id, self._runtime.rng, self._meter
                )
        except TimeoutError:
            self._failed(f"no answer within {CONNECT_S_MAX:g} s", logging.WARNING)
        except OSError as error:
            self._failed(str(error) or type(error).__name__, logging.WARNING)
        except PeerUnavailable as error:
            self._failed(f"connection lost during the handshake: {error}", logging.WARNING)
        except BrokerError as error:
            self._failed(str(error), logging.ERROR)
        else:
            self._opened(connection)

    def _opened(self, connection: LinkConnection) -> None:
        self._is_connecting = False
        self._trouble = ""
        self._connection = connection
        connection.on_answer = self._answered
        connection.on_lost = self._lost
        waiting, self._waiting = self._waiting, []
        if connection.is_closed:
            self._lost("the peer closed the connection after the handshake")
            return
        self._meter.is_open = True
        logger.info("opened a link to broker %d", self.peer_id, extra=self._context)
        for call in waiting:
            if not call.is_settled:
                self._transmit(connection, call)

    def _failed(self, trouble: str, level: int) -> None:
        """Repeated failures for the same reason are logged once."""
        if trouble != self._trouble:
            logger.log(
                level,
                "cannot open a link to broker %d; retrying with the next call: %s",
                self.peer_id,
                trouble,
                extra=self._context,
            )
        self._is_connecting = False
        self._trouble = trouble
        self._failures = max(1, self._failures)
        self._back_off()
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            if not call.is_settled:
                self._calls.settle(call, self._unreachable())
        self._on_trouble()

    def _lost(self, why: str) -> None:
        self._connection = None
        self._meter.is_open = False
        self._back_off()
        if self._closed is None and len(self._calls):
            self._trouble = why
            logger.warning(
                "lost the link to broker %d with %d calls in flight; reconnecting with the next call: %s",
                self.peer_id,
                len(self._calls),
                why,
                extra=self._context,
            )
        for call in self._calls.all():
            if call.is_settled:
                continue
            if call.is_sent:
                text = f"the link to {self} was lost before it answered, the outcome is unknown: {why}"
                self._calls.settle(call, TimedOut(text))
            else:
                text = f"the link to {self} was lost, nothing was sent: {why}"
                self._calls.settle(call, PeerUnavailable(text))
        if self._closed is None and why != _IDLE:
            self._on_trouble()

    def _back_off(self) -> None:
        """The first attempt after a lost connection comes at once, further ones after a pause with jitter."""
        pause_s = min(BACK_OFF_S_MIN * 2 ** min(self._failures - 1, 10), BACK_OFF_S_MAX)
        share = (1 + self._runtime.rng.below(JITTER_STEPS) / JITTER_STEPS) / 2
        self._retry_s = self._loop.time() + (pause_s * share if self._failures else 0)
        self._failures += 1

    def _unreachable(self) -> PeerUnavailable:
        return PeerUnavailable(f"{self} cannot be reached, nothing was sent: {self._trouble}")

    # -- close

    def rest(self, idle_s_max: float) -> None:
        """Close the connection if it was idle for long; the next call opens it again."""
        if self._connection is None or len(self._calls):
            return
        if self._loop.time() - self._used_s > idle_s_max:
            logger.info("closing the idle link to broker %d", self.peer_id, extra=self._context)
            self._failures = 0
            self._connection.close(_IDLE)
        else:
            self._connection.shrink()

    async def close(self, why: str) -> None:
        """Fail all calls and disconnect, at once. Safe to call again."""
        self.abandon(why)
        await self._tasks.stop()

    def abandon(self, why: str) -> None:
        """The same without waiting for the task that connects."""
        if self._closed is not None:
            return
        self._closed = why
        self._tasks.cancel()
        if self._connection is not None:
            self._connection.close(why)
        for call in self._calls.all():
            if not call.is_settled:
                self._calls.settle(call, PeerUnavailable(f"{self} cannot be called, nothing was sent: {why}"))
        self._waiting.clear()
        self._calls.close()
