"""Requests of the queue door other than messages: topics, subscriptions, membership.

Each handler returns the properties and the body of its response, or raises BrokerError.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.core.errors import BrokerError, InvalidRequest
from penstock.core.session import Session
from penstock.doors.queue.membership import Membership
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.runtime.tasks import Tasks
from penstock.node.waist.subscriptions import SubscriptionRequest, outline_fields
from penstock.node.waist.topics import NewTopic
from penstock.node.waist.waist import Waist
from penstock.wire.json.rows import encode_list, encode_listing
from penstock.wire.queue.frames import Frame, MessageType
from penstock.wire.queue.properties import Properties
from penstock.wire.queue.request_properties import (
    COUNT,
    DELIVERIES_MAX,
    EXISTED,
    FALSE,
    HEARTBEAT_MS,
    HOLD_MS,
    MISSING,
    PARTITIONS,
    START_OFFSET,
    SUBSCRIPTION,
    TOPIC,
    TRUE,
    WINDOW,
    RequestProperties,
)

if TYPE_CHECKING:
    from penstock.doors.queue.relays import ClientRelays
    from penstock.doors.queue.routing import SubscriptionRouter

WINDOW_DEFAULT = 100
"""Default window of a member."""


class CallResult(NamedTuple):
    """Properties and body of a successful response."""

    properties: Properties = ()
    body: bytes = b""


class Caller(Protocol):
    """The conversation that a call belongs to."""

    membership: Membership

    @property
    def session(self) -> Session: ...

    @property
    def peer_id(self) -> int | None: ...

    @property
    def relays(self) -> ClientRelays: ...

    @property
    def member_id(self) -> str: ...

    def answer(
        self,
        slot: ReplySlot,
        fields: RequestProperties,
        outcome: Properties | BrokerError,
        *,
        body: bytes = b"",
        code: str | None = None,
    ) -> None: ...

    def answer_frame(self, slot: ReplySlot, fields: RequestProperties, frame: Frame) -> None: ...


class Calls:
    """Runs requests. One instance for all clients of the door."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._topics = waist.topics
        self._subscriptions = waist.subscriptions
        self._router = _make_router(waist)
        self._tasks = Tasks()
        self._verbs: dict[MessageType, Callable[[Caller, RequestProperties], Awaitable[CallResult]]] = {
            MessageType.CREATE_TOPIC: self._create_topic,
            MessageType.CREATE_SUBSCRIPTION: self._create_subscription,
            MessageType.DELETE_SUBSCRIPTION: self._delete_subscription,
            MessageType.SUBSCRIBE: self._subscribe,
            MessageType.UNSUBSCRIBE: self._unsubscribe,
            MessageType.LIST_SUBSCRIPTIONS: self._list,
            MessageType.DESCRIBE_SUBSCRIPTION: self._describe,
            MessageType.REDRIVE: self._redrive,
        }

    def make(self, caller: Caller, fields: RequestProperties, slot: ReplySlot) -> None:
        """Start a call; its reply slot is filled when it is done."""
        self._tasks.spawn(self._make(caller, fields, slot))

    async def _make(self, caller: Caller, fields: RequestProperties, slot: ReplySlot) -> None:
        try:
            if self._router is not None and await self._router.route(caller, fields, slot):
                return
            result = await self._verbs[fields.kind](caller, fields)
        except BrokerError as error:
            caller.answer(slot, fields, error)
        else:
            caller.answer(slot, fields, result.properties, body=result.body)

    # -- verbs

    async def _create_topic(self, caller: Caller, fields: RequestProperties) -> CallResult:
        """An existing topic is accepted unless its number of partitions differs."""
        new = NewTopic(fields.text(TOPIC), fields.number(PARTITIONS))
        is_new = await self._topics.ensure(caller.session, new)
        return CallResult(((EXISTED, FALSE if is_new else TRUE),))

    async def _create_subscription(self, caller: Caller, fields: RequestProperties) -> CallResult:
        request = SubscriptionRequest(
            fields.text(SUBSCRIPTION),
            fields.text(TOPIC),
            fields.number(START_OFFSET) or 0,
            fields.number(HOLD_MS),
            fields.number(DELIVERIES_MAX),
        )
        is_new = await self._subscriptions.create(caller.session, request)
        return CallResult(((EXISTED, FALSE if is_new else TRUE),))

    async def _delete_subscription(self, caller: Caller, fields: RequestProperties) -> CallResult:
        await self._subscriptions.delete(caller.session, fields.text(SUBSCRIPTION))
        return CallResult()

    async def _subscribe(self, caller: Caller, fields: RequestProperties) -> CallResult:
        window = fields.number(WINDOW)
        if window is None:
            window = min(WINDOW_DEFAULT, self._subscriptions.window_max)
        name = fields.text(SUBSCRIPTION)
        seat = caller.membership.join(self._subscriptions, name, caller.member_id, window)
        return CallResult(
            (
                (TOPIC, seat.definition.topic),
                (WINDOW, str(window)),
                (HOLD_MS, str(seat.definition.hold_ms)),
                (HEARTBEAT_MS, str(self._subscriptions.heartbeat_ms)),
            )
        )

    async def _unsubscribe(self, caller: Caller, fields: RequestProperties) -> CallResult:
        await caller.membership.leave(fields.text(SUBSCRIPTION))
        return CallResult()

    async def _list(self, caller: Caller, fields: RequestProperties) -> CallResult:
        rows = [outline_fields(one) for one in self._subscriptions.all(caller.session)]
        missing: Sequence[str] = ()
        if self._router is not None:
            listings, missing = await self._router.listings(caller)
            for listing in listings:
                rows += json.loads(listing)
            rows.sort(key=lambda row: str(row["name"]))
        body = await self._slices.run(encode_list(rows, _json))
        return CallResult(((MISSING, ",".join(missing)),) if missing else (), body)

    async def _describe(self, caller: Caller, fields: RequestProperties) -> CallResult:
        found = await self._subscriptions.describe(caller.session, fields.text(SUBSCRIPTION))
        head = {**outline_fields(found.definition), "dead_letter_topic": found.definition.dead_letter_topic}
        rows = (one._asdict() for one in found.progress)
        members = [one._asdict() for one in found.members]
        tail: dict[str, object] = {"members": members}
        if found.stale_partitions:
            tail["stale_partitions"] = list(found.stale_partitions)
        steps = encode_listing(head, "partitions", rows, _json, tail)
        return CallResult(body=await self._slices.run(steps))

    async def _redrive(self, caller: Caller, fields: RequestProperties) -> CallResult:
        count = fields.number(COUNT)
        if count is not None and count < 1:
            raise InvalidRequest(f"REDRIVE: {COUNT} must be at least 1, not {count}")
        moved = await self._subscriptions.redrive(caller.session, fields.text(SUBSCRIPTION), count)
        return CallResult(((COUNT, str(moved)),))


def _make_router(waist: Waist) -> SubscriptionRouter | None:
    """None for a single broker, which coordinates every subscription."""
    if not waist.subscriptions.are_spread:
        return None
    from penstock.doors.queue.routing import SubscriptionRouter

    return SubscriptionRouter(waist.subscriptions)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
