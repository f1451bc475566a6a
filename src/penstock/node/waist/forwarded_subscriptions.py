"""Subscription verbs for doors that do not relay members: calls go to the subscription's coordinator, wherever it is.

A call is forwarded again only if a broker said that it does not coordinate the subscription, or could not be reached:
both mean that the call was not run. A single broker forwards nothing. Descriptions are JSON, the form in which brokers
pass them on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from penstock.core.access import Operation
from penstock.core.errors import BrokerError, CoordinatorUnavailable, NotCoordinator, PeerUnavailable
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.runtime.slices import Sliced
from penstock.node.waist.subscriptions import (
    SubscriptionDescription,
    SubscriptionRequest,
    SubscriptionVerbs,
    outline_fields,
)

if TYPE_CHECKING:  # a single broker has no links and does not load them
    from penstock.node.peers.subscription_calls import SubscriptionCoordinatorCall

FORWARD_S_MAX = 5.0
"""How long a call looks for a coordinator."""
RETRY_S, RETRY_S_MAX = 0.05, 0.5

T = TypeVar("T")

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class SubscriptionListing(NamedTuple):
    """Subscriptions of all brokers by name, and why those of some are missing."""

    rows: list[dict[str, Any]]
    missing: list[BrokerError]


class ForwardedSubscriptionVerbs:
    """Manages subscriptions that any broker may coordinate."""

    def __init__(self, broker: Broker, verbs: SubscriptionVerbs) -> None:
        self._broker = broker
        self._verbs = verbs

    async def create(self, session: Session, request: SubscriptionRequest) -> bool:
        """See `SubscriptionVerbs.create`."""
        return await self._run(
            session,
            Operation.READ,
            request.name,
            lambda: self._verbs.create(session, request),
            lambda call: call.create(*request),
        )

    async def delete(self, session: Session, name: str) -> None:
        """See `SubscriptionVerbs.delete`."""
        await self._run(
            session,
            Operation.DELETE,
            name,
            lambda: self._verbs.delete(session, name),
            lambda call: call.delete(name),
        )

    async def redrive(self, session: Session, name: str, count_max: int | None) -> int:
        """See `SubscriptionVerbs.redrive`."""
        return await self._run(
            session,
            Operation.READ,
            name,
            lambda: self._verbs.redrive(session, name, count_max),
            lambda call: call.redrive(name, count_max),
        )

    async def describe(self, session: Session, name: str) -> bytes:
        """A subscription with progress and members, as a JSON object."""
        return await self._run(
            session,
            Operation.DESCRIBE,
            name,
            lambda: self.describe_here(session, name),
            lambda call: call.describe(name),
        )

    async def describe_here(self, session: Session, name: str) -> bytes:
        """The same of a subscription that this broker coordinates."""
        found = await self._verbs.describe(session, name)
        return await self._broker.runtime.slices.run(_encode_description(found))

    async def list_here(self, session: Session) -> bytes:
        """The subscriptions that this broker coordinates, as a JSON list."""
        from penstock.wire.json.rows import encode_list

        rows = map(outline_fields, self._verbs.all(session))
        return await self._broker.runtime.slices.run(encode_list(rows, _encode_utf8))

    async def list(self, session: Session) -> SubscriptionListing:
        """The subscriptions of all brokers that the caller may describe."""
        rows = [outline_fields(one) for one in self._verbs.all(session)]
        links = self._broker.links
        if links is None:
            return SubscriptionListing(rows, [])
        from penstock.node.peers.subscription_calls import SubscriptionCoordinatorCall

        brokers, leaderless = self._verbs.others(session)
        calls = [SubscriptionCoordinatorCall(links, one, session).list() for one in sorted(brokers)]
        missing: list[BrokerError] = []
        for found in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(found, BrokerError):
                missing.append(found)
            elif isinstance(found, BaseException):
                raise found
            else:
                rows += json.loads(found)
        if leaderless:
            missing.append(
                CoordinatorUnavailable(
                    f"nobody coordinates {leaderless} partitions of the subscriptions at the moment"
                )
            )
        return SubscriptionListing(sorted(rows, key=lambda row: str(row["name"])), missing)

    async def _run(
        self,
        session: Session,
        operation: Operation,
        name: str,
        here: Callable[[], Awaitable[T]],
        there: Callable[[SubscriptionCoordinatorCall], Awaitable[T]],
    ) -> T:
        """Run a call where the subscription is coordinated. Raises BrokerError."""
        links = self._broker.links
        if links is None:
            return await here()
        from penstock.node.peers.subscription_calls import SubscriptionCoordinatorCall

        loop = asyncio.get_running_loop()
        deadline_s, pause_s = loop.time() + FORWARD_S_MAX, RETRY_S
        while True:
            try:
                opens = operation is Operation.READ
                broker_id = await self._verbs.locate(session, operation, name, opens=opens)
                if broker_id is None:
                    return await here()
                return await there(SubscriptionCoordinatorCall(links, broker_id, session))
            except (NotCoordinator, CoordinatorUnavailable, PeerUnavailable):
                if loop.time() + pause_s > deadline_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)


def _encode_description(found: SubscriptionDescription) -> Sliced[bytes]:
    from penstock.wire.json.rows import encode_listing  # loaded on use: a broker starts without it

    tail: dict[str, object] = {"members": [one._asdict() for one in found.members]}
    if found.stale_partitions:
        tail["stale_partitions"] = list(found.stale_partitions)
    head = {**outline_fields(found.definition), "dead_letter_topic": found.definition.dead_letter_topic}
    rows = (one._asdict() for one in found.progress)
    return (yield from encode_listing(head, "partitions", rows, _encode_utf8, tail))


def _encode_utf8(value: object) -> bytes:
    return _encode(value).encode()
