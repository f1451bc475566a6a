"""What clients ask the queue door for besides messages: topics, subscriptions, membership. One verb per request.

Each verb answers the properties, the sequence number or the body of its success, or raises.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from penstock.core.errors import BrokerError, InvalidRequest, TopicExists
from penstock.core.machines.catalog import Catalog
from penstock.core.machines.catalog_events import Event
from penstock.core.machines.subscription_definitions import Definition
from penstock.doors.queue.membership import Membership
from penstock.node.broker import Broker
from penstock.node.connections.place import Place
from penstock.node.coordinators.subscriptions import Wish
from penstock.node.tasks import Tasks
from penstock.wire.json.rows import encode_list, encode_listing
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.properties import Properties
from penstock.wire.queue.words import (
    COUNT,
    DELIVERIES_MAX,
    EXISTED,
    FALSE,
    HEARTBEAT_MS,
    HOLD_MS,
    PARTITIONS,
    START_OFFSET,
    SUBSCRIPTION,
    TOPIC,
    TRUE,
    WINDOW,
    Words,
)

WINDOW_DEFAULT = 100
"""Messages that a member may hold if it does not say how many."""


class Said(NamedTuple):
    """A success."""

    properties: Properties = ()
    body: bytes = b""


class Caller(Protocol):
    """Who asks."""

    membership: Membership

    @property
    def member_id(self) -> str: ...

    def answer(
        self, place: Place, words: Words, outcome: Properties | BrokerError, *, body: bytes = b""
    ) -> None: ...


class Calls:
    """Carries requests out. One for all clients of the door."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks = Tasks()
        self._verbs: dict[MessageType, Callable[[Caller, Words], Awaitable[Said]]] = {
            MessageType.CREATE_TOPIC: self._create_topic,
            MessageType.CREATE_SUBSCRIPTION: self._create_subscription,
            MessageType.DELETE_SUBSCRIPTION: self._delete_subscription,
            MessageType.SUBSCRIBE: self._subscribe,
            MessageType.UNSUBSCRIBE: self._unsubscribe,
            MessageType.LIST_SUBSCRIPTIONS: self._list,
            MessageType.DESCRIBE_SUBSCRIPTION: self._describe,
            MessageType.REDRIVE: self._redrive,
        }

    def make(self, caller: Caller, words: Words, place: Place) -> None:
        """Begin a call; its place in line is filled when it is done."""
        self._tasks.spawn(self._make(caller, words, place))

    async def _make(self, caller: Caller, words: Words, place: Place) -> None:
        try:
            said = await self._verbs[words.kind](caller, words)
        except BrokerError as error:
            caller.answer(place, words, error)
        else:
            caller.answer(place, words, said.properties, body=said.body)

    # -- verbs

    async def _create_topic(self, _: Caller, words: Words) -> Said:
        """A topic of the same name is no mistake, unless it is not as wished."""
        broker, name, wished = self._broker, words.text(TOPIC), words.number(PARTITIONS)
        partition_count = broker.settings.default_partitions if wished is None else wished
        topic_id, now_ms = broker.new_topic_id(), broker.runtime.clock.now_ms()
        existed = False

        def decide(catalog: Catalog) -> list[Event]:
            nonlocal existed
            known = catalog.find(name)
            if known is None or known.internal:
                return catalog.decide_create_topic(
                    name, partition_count, {}, topic_id=topic_id, now_ms=now_ms
                )
            if wished is not None and known.partition_count != wished:
                raise TopicExists(
                    f"there is a topic {name!r} with {known.partition_count} partitions, not {wished}"
                )
            existed = True
            return []

        await broker.change(decide)
        return Said(((EXISTED, TRUE if existed else FALSE),))

    async def _create_subscription(self, _: Caller, words: Words) -> Said:
        wish = Wish(
            words.text(SUBSCRIPTION),
            words.text(TOPIC),
            words.number(START_OFFSET) or 0,
            words.number(HOLD_MS),
            words.number(DELIVERIES_MAX),
        )
        is_new = await self._broker.subscriptions.create(wish)
        return Said(((EXISTED, FALSE if is_new else TRUE),))

    async def _delete_subscription(self, _: Caller, words: Words) -> Said:
        await self._broker.subscriptions.remove(words.text(SUBSCRIPTION))
        return Said()

    async def _subscribe(self, caller: Caller, words: Words) -> Said:
        settings, window = self._broker.settings, words.number(WINDOW)
        if window is None:
            window = min(WINDOW_DEFAULT, settings.subscription_window_max)
        if not 0 < window <= settings.subscription_window_max:
            raise InvalidRequest(
                f"a window is from 1 to {settings.subscription_window_max} (subscription_window_max), not {window}"
            )
        live = self._broker.subscriptions.find(words.text(SUBSCRIPTION))
        caller.membership.join(live, caller.member_id, window)
        return Said(
            (
                (TOPIC, live.definition.topic),
                (WINDOW, str(window)),
                (HOLD_MS, str(live.definition.hold_ms)),
                (HEARTBEAT_MS, str(settings.subscription_heartbeat_ms)),
            )
        )

    async def _unsubscribe(self, caller: Caller, words: Words) -> Said:
        await caller.membership.leave(words.text(SUBSCRIPTION))
        return Said()

    async def _list(self, _: Caller, words: Words) -> Said:
        rows = map(_outline, self._broker.subscriptions.list())
        return Said(body=await self._broker.runtime.slices.run(encode_list(rows, _json)))

    async def _describe(self, _: Caller, words: Words) -> Said:
        subscriptions, name = self._broker.subscriptions, words.text(SUBSCRIPTION)
        live = subscriptions.find(name)
        members = live.shard.book.members(name)
        head = {**_outline(live.definition), "dead_letter_topic": live.definition.dead_letter_topic}
        rows = (one._asdict() for one in subscriptions.progress(name))
        listed = [
            {"id": one, "window": window, "held": members.holding[one]}
            for one, window in members.windows.items()
        ]
        steps = encode_listing(head, "partitions", rows, _json, {"members": listed})
        return Said(body=await self._broker.runtime.slices.run(steps))

    async def _redrive(self, _: Caller, words: Words) -> Said:
        count = words.number(COUNT)
        if count is not None and count < 1:
            raise InvalidRequest(f"REDRIVE: {COUNT} is at least 1, not {count}")
        moved = await self._broker.subscriptions.redrive(words.text(SUBSCRIPTION), count)
        return Said(((COUNT, str(moved)),))


def _outline(definition: Definition) -> dict[str, object]:
    return {
        "name": definition.name,
        "topic": definition.topic,
        "hold_ms": definition.hold_ms,
        "max_deliveries": definition.deliveries_max,
        "created_ms": definition.created_ms,
    }


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
