"""Routes requests about subscriptions to the broker that coordinates them: here, or over a relay.

A request that reached this broker over a relay is never passed on: the broker that sent it gets MOVED and looks again.
A request is sent once; it is sent again only if a broker said that it did not run it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.core.access import Operation
from penstock.core.errors import BrokerError, CoordinatorUnavailable, NotCoordinator, PeerUnavailable
from penstock.core.session import Session
from penstock.doors.queue.membership import Membership
from penstock.doors.queue.relays import ClientRelays
from penstock.doors.queue.upstream import Upstream
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.waist.subscriptions import SubscriptionVerbs
from penstock.wire.queue.frames import Frame, MessageType
from penstock.wire.queue.request_properties import (
    CODE,
    FAILURE,
    HEARTBEAT_MS,
    STATUS,
    SUBSCRIPTION,
    RequestProperties,
)

ROUTE_S_MAX = 1.0
"""How long a request waits for a broker that coordinates the subscription. Short: later requests of the client wait for
it, acknowledgements too, and the error is retriable."""
RETRY_S, RETRY_S_MAX = 0.05, 0.5
LIST_S_MAX = 5.0

MOVED = "MOVED"
"""The code with which a broker sends back a request that was relayed to it: another one coordinates the subscription.
Clients never see it."""

OPERATIONS: Mapping[MessageType, Operation] = {
    MessageType.CREATE_SUBSCRIPTION: Operation.READ,
    MessageType.DELETE_SUBSCRIPTION: Operation.DELETE,
    MessageType.SUBSCRIBE: Operation.READ,
    MessageType.UNSUBSCRIBE: Operation.READ,
    MessageType.DESCRIBE_SUBSCRIPTION: Operation.DESCRIBE,
    MessageType.REDRIVE: Operation.READ,
}
"""The requests that name a subscription, and the permission that each one needs."""


class RoutedCaller(Protocol):
    """The conversation that a request belongs to."""

    membership: Membership

    @property
    def peer_id(self) -> int | None:
        """The broker that relays the client; None for a client of this broker."""

    @property
    def session(self) -> Session: ...

    @property
    def relays(self) -> ClientRelays: ...

    def answer(
        self, slot: ReplySlot, fields: RequestProperties, outcome: BrokerError, *, code: str | None = None
    ) -> None: ...

    def answer_frame(self, slot: ReplySlot, fields: RequestProperties, frame: Frame) -> None: ...


class SubscriptionRouter:
    """Finds the broker of each request. One instance for all clients of the door."""

    def __init__(self, subscriptions: SubscriptionVerbs) -> None:
        self._subscriptions = subscriptions

    async def route(self, caller: RoutedCaller, fields: RequestProperties, slot: ReplySlot) -> bool:
        """Answer a request that belongs to another broker; False if it is to be run here. Raises BrokerError."""
        operation = OPERATIONS.get(fields.kind)
        if operation is None:
            return False
        name = fields.text(SUBSCRIPTION)
        if caller.peer_id is not None:
            return self._send_back(caller, fields, slot, name)
        if fields.kind is MessageType.SUBSCRIBE:
            caller.membership.check_absent(name)
        if fields.kind is MessageType.UNSUBSCRIBE:
            upstream = caller.relays.upstream_of(name)
            return upstream is not None and await self._ask(caller, upstream, fields, slot)
        loop = asyncio.get_running_loop()
        deadline_s, pause_s = loop.time() + ROUTE_S_MAX, RETRY_S
        while True:
            try:
                opens = fields.kind is MessageType.CREATE_SUBSCRIPTION
                broker_id = await self._subscriptions.locate(caller.session, operation, name, opens=opens)
                if broker_id is None:
                    return False
                upstream = await caller.relays.open(broker_id)
                if await self._ask(caller, upstream, fields, slot):
                    return True
                error: BrokerError = NotCoordinator(
                    f"broker {broker_id} does not coordinate the subscription {name!r}, and it is not known who does"
                )
            except (CoordinatorUnavailable, PeerUnavailable) as unavailable:  # nothing was sent
                error = unavailable
            if loop.time() + pause_s > deadline_s:
                raise error
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)

    def _send_back(self, caller: RoutedCaller, fields: RequestProperties, slot: ReplySlot, name: str) -> bool:
        """Whether a relayed request belongs to another broker; if so, it was not run."""
        if fields.kind is MessageType.UNSUBSCRIBE or self._subscriptions.is_at(caller.session, name, None):
            return False
        error = NotCoordinator(f"the subscription {name!r} is not coordinated here")
        caller.answer(slot, fields, error, code=MOVED)
        return True

    async def _ask(
        self, caller: RoutedCaller, upstream: Upstream, fields: RequestProperties, slot: ReplySlot
    ) -> bool:
        """Pass a request on, and its response back; False if the broker did not run it."""
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def responded(outcome: Frame | BrokerError) -> None:
            """The client is answered before messages that follow the response: it must know that it has joined."""
            if isinstance(outcome, BrokerError):
                if not isinstance(outcome, PeerUnavailable):
                    caller.answer(slot, fields, outcome)
                answered.set_result(not isinstance(outcome, PeerUnavailable))
                return
            found = dict(outcome.properties)
            if found.get(CODE) == MOVED:
                answered.set_result(False)
                return
            if found.get(STATUS) != FAILURE or fields.kind is MessageType.UNSUBSCRIBE:
                _follow(caller.relays, upstream, fields, found)
            caller.answer_frame(slot, fields, outcome)
            answered.set_result(True)

        request = Frame(fields.kind, properties=tuple(fields.values.items()))
        upstream.ask(request, responded)
        return await answered

    async def listings(self, caller: RoutedCaller) -> tuple[list[bytes], Sequence[str]]:
        """The lists of subscriptions of all other brokers, and the brokers whose list is missing."""
        if caller.peer_id is not None or not self._subscriptions.are_spread:
            return [], []
        brokers, leaderless = self._subscriptions.others(caller.session)
        ids = sorted(brokers)
        found = await asyncio.gather(*(self._listing(caller, one) for one in ids))
        missing = [str(one) for one, body in zip(ids, found, strict=True) if body is None]
        return [body for body in found if body is not None], [*missing, *["?"] * leaderless]

    async def _listing(self, caller: RoutedCaller, broker_id: int) -> bytes | None:
        reply: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        def responded(outcome: Frame | BrokerError) -> None:
            is_list = isinstance(outcome, Frame) and dict(outcome.properties).get(STATUS) != FAILURE
            if not reply.done():
                reply.set_result(outcome.body if is_list and isinstance(outcome, Frame) else None)

        try:
            async with asyncio.timeout(LIST_S_MAX):
                upstream = await caller.relays.open(broker_id)
                upstream.ask(Frame(MessageType.LIST_SUBSCRIPTIONS), responded)
                return await reply
        except (BrokerError, TimeoutError):
            return None


def _follow(
    relays: ClientRelays, upstream: Upstream, fields: RequestProperties, found: Mapping[str, str]
) -> None:
    """Take note of a membership that began or ended."""
    if fields.kind is MessageType.SUBSCRIBE:
        relays.keep_alive_every(int(found[HEARTBEAT_MS]))
        relays.seat(upstream, fields.text(SUBSCRIPTION))
    elif fields.kind is MessageType.UNSUBSCRIBE:
        relays.unseat(fields.text(SUBSCRIPTION))
