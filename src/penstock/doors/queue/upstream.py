"""The connection to the queue door of another broker on which one client is relayed. Never reconnects.

Requests are answered in order, by number; messages for the client are passed on as they come. A lost connection fails
the pending requests: the outcome of those is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from penstock.core.errors import BrokerError, ClusterForbidden, PeerUnavailable, TimedOut
from penstock.core.limits import LINK_RESPONSE_BYTES_MAX
from penstock.core.session import Session
from penstock.doors.queue.framing import QUEUE_FRAMING
from penstock.node.connections.intake import Budget, Intake
from penstock.node.connections.outbox import Outbox
from penstock.node.waist.peers import PeerDoor
from penstock.wire.queue.frames import NO_SEQUENCE, Frame, MessageType, decode, encode, type_of
from penstock.wire.queue.properties import Properties
from penstock.wire.queue.request_properties import (
    ADDRESS,
    CLIENT,
    ERROR,
    FAILURE,
    PRINCIPAL,
    REQUEST,
    STATUS,
    SUBSCRIPTION,
)

CONNECT_S_MAX = 5.0
"""For connecting and the handshake together."""
CALL_S_MAX = 120.0
"""A request that is not answered by then ends the connection: a redrive may take long."""

LINGER_S_MAX = 5.0
"""How long the broker may take to close a connection that was ended here."""

Responded = Callable[[Frame | BrokerError], None]
"""Gets the response, also one that reports an error, or why there is none."""


class UpstreamOwner(Protocol):
    """The relays of a client."""

    def pass_on(self, upstream: Upstream, frames: list[bytes]) -> None:
        """Messages for the client."""

    def pass_end(self, upstream: Upstream, subscription: str, frame: bytes) -> None:
        """The broker has ended a membership; the frame says why."""

    def lose(self, upstream: Upstream, why: str) -> None:
        """The connection is closed, by either side."""

    def drain(self) -> None:
        """Everything for the broker is sent."""


class Upstream(asyncio.BufferedProtocol):
    """The asyncio protocol object. Created by `open_upstream`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, door: PeerDoor, owner: UpstreamOwner) -> None:
        self._loop = loop
        self._owner = owner
        self.broker_id = door.broker_id
        self.address = door.address
        self._pending: dict[str, tuple[Responded, asyncio.TimerHandle]] = {}
        self._number = 0
        self._intake = Intake(Budget(LINK_RESPONSE_BYTES_MAX), LINK_RESPONSE_BYTES_MAX, QUEUE_FRAMING)
        self._is_reading = True
        self.heard_s = self.beaten_s = loop.time()
        """When the broker last sent anything, and when it was last sent a heartbeat."""
        self.is_connected = False
        self.is_closed = False
        self._linger: asyncio.TimerHandle | None = None

    def __str__(self) -> str:
        return f"broker {self.broker_id} at {self.address}"

    # -- out

    @property
    def waiting_bytes(self) -> int:
        return self._outbox.waiting_bytes

    def send(self, raw: bytes) -> None:
        """Send a frame that is not answered."""
        if not self.is_closed:
            self._outbox.write([raw])

    def ask(self, request: Frame, responded: Responded) -> None:
        """Send a request; `responded` is called once, before later messages of the broker are passed on."""
        if self.is_closed:
            responded(PeerUnavailable(f"the connection to {self} is closed, nothing was sent"))
            return
        self._number += 1
        number = str(self._number)
        self._pending[number] = responded, self._loop.call_later(CALL_S_MAX, self._expire)
        own = tuple(one for one in request.properties if one[0] != REQUEST)
        self.send(encode(request._replace(properties=(*own, (REQUEST, number)))))

    def beat(self) -> None:
        """Show the broker that the client is still there."""
        self.beaten_s = self._loop.time()
        self.send(encode(Frame(MessageType.HEARTBEAT)))

    async def exchange(self, properties: Properties, body: bytes) -> Frame:
        """One step of the handshake. Raises what stands against it."""
        reply: asyncio.Future[Frame | BrokerError] = self._loop.create_future()

        def responded(outcome: Frame | BrokerError) -> None:
            if not reply.done():
                reply.set_result(outcome)

        self.ask(Frame(MessageType.LINK, properties=properties, body=body), responded)
        outcome = await reply
        if isinstance(outcome, BrokerError):
            raise PeerUnavailable(f"{self} ended the handshake, nothing was sent: {outcome}")
        found = dict(outcome.properties)
        if found.get(STATUS) == FAILURE:
            raise ClusterForbidden(f"{self} refuses this broker: {found.get(ERROR, '')}")
        return outcome

    def _expire(self) -> None:
        self.close(f"it did not answer within {CALL_S_MAX:g} s")

    # -- back-pressure

    def pause(self) -> None:
        """The client does not read: neither do we, so that the broker gives its messages to other members."""
        if self._is_reading and not self.is_closed:
            self._is_reading = False
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self._is_reading and not self.is_closed:
            self._is_reading = True
            self.heard_s = self._loop.time()
            self._transport.resume_reading()

    @property
    def is_paused(self) -> bool:
        return not self._is_reading

    # -- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.is_connected = True
        self._transport = cast(asyncio.Transport, transport)
        self._outbox = Outbox(self._loop, self._transport, self._owner.drain)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._intake.room()

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_closed:
            return
        intake = self._intake
        is_full = intake.received(nbytes)
        self.heard_s = self._loop.time()
        messages: list[bytes] = []
        try:
            while not self.is_closed and (frame := intake.take()) is not None:
                if type_of(frame) == MessageType.DATA:
                    messages.append(bytes(frame))
                    continue
                if messages:
                    self._owner.pass_on(self, messages)
                    messages = []
                self._take(bytes(frame))
            if messages:
                self._owner.pass_on(self, messages)
            has_room = intake.make_room()
        except (BrokerError, KeyError, ValueError) as error:
            self.close(f"it sent a malformed frame: {error}")
            return
        assert has_room, "the budget holds the largest frame"
        if is_full:
            intake.widen()

    def _take(self, raw: bytes) -> None:
        """A response, or a message about a membership."""
        frame = decode(raw)
        if frame.type is MessageType.HEARTBEAT:
            return
        found = dict(frame.properties)
        pending = self._pending.pop(found.get(REQUEST, ""), None)
        if pending is not None:
            responded, timer = pending
            timer.cancel()
            responded(frame)
        elif SUBSCRIPTION in found and frame.sequence != NO_SEQUENCE:
            self._owner.pass_on(self, [raw])  # a rejected acknowledgement
        elif SUBSCRIPTION in found:
            self._owner.pass_end(self, found[SUBSCRIPTION], raw)
        else:
            self.close(found.get(ERROR, "it sent a response that nobody waits for"))

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._outbox.pause()

    def resume_writing(self) -> None:
        self._outbox.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(str(exc) if exc is not None else "it closed the connection")
        self._outbox.close()
        self._intake.drop()
        if self._linger is not None:
            self._linger.cancel()

    # -- close

    def shrink(self) -> None:
        """The connection is quiet: return memory."""
        self._intake.shrink()

    def finish(self, last: bytes = b"") -> None:
        """Send what is waiting and a last frame, then disconnect. What the broker still sends is read and dropped:
        closing a socket with unread bytes would drop what was sent last."""
        if self.is_closed:
            return
        if last:
            self.send(last)
        self.resume()
        transport = self._transport
        if self._outbox.waiting_bytes or transport.is_closing() or not transport.can_write_eof():
            self.close("this broker ended the connection")
            return
        self._linger = self._loop.call_later(LINGER_S_MAX, transport.abort)
        self._end("this broker ended the connection")
        transport.write_eof()

    def close(self, why: str) -> None:
        """Disconnect at once."""
        if not self.is_closed:
            self._end(why)
            self._transport.abort()

    def _end(self, why: str) -> None:
        self.is_closed = True
        pending, self._pending = self._pending, {}
        error = TimedOut(
            f"the connection to {self} was lost before it answered, the outcome is unknown: {why}"
        )
        for responded, timer in pending.values():
            timer.cancel()
            responded(error)
        self._owner.lose(self, why)


async def open_upstream(door: PeerDoor, session: Session, owner: UpstreamOwner) -> Upstream:
    """Connect to the door of another broker, prove that this is a broker of the cluster, and introduce the client.
    Raises PeerUnavailable, or what stands against it; nothing was sent then."""
    loop = asyncio.get_running_loop()
    upstream = Upstream(loop, door, owner)
    try:
        async with asyncio.timeout(CONNECT_S_MAX):
            await loop.create_connection(lambda: upstream, door.address.host, door.address.port)
            challenge = await upstream.exchange((), door.initiator.hello)
            proof = door.initiator.answer(challenge.body)
            await upstream.exchange(_introduction(session), proof)
    except TimeoutError:
        _abandon(upstream)
        raise PeerUnavailable(
            f"{upstream} did not answer within {CONNECT_S_MAX:g} s, nothing was sent"
        ) from None
    except OSError as error:
        raise PeerUnavailable(
            f"{upstream} cannot be reached, nothing was sent: {error.strerror or error}"
        ) from None
    except BaseException:
        _abandon(upstream)
        raise
    return upstream


def _introduction(session: Session) -> Properties:
    client = () if session.client_id is None else ((CLIENT, session.client_id),)
    return ((PRINCIPAL, session.principal), (ADDRESS, session.address), *client)


def _abandon(upstream: Upstream) -> None:
    if upstream.is_connected:
        upstream.close("the handshake failed")
