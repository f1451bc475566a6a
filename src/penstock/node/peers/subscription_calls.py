"""Calls about subscriptions on behalf of a client to the broker that coordinates them, over links.

Each call names the client, whose permissions the coordinator checks, as it does for its own clients.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from penstock.core.session import Session
from penstock.node.peers.links import PeerLinks
from penstock.wire.kafka import error_from_code, error_name, messages

CALL_MS_MAX = 5_000
REDRIVE_MS_MAX = 60_000
"""A redrive writes all dead letters back before it is answered."""
DEFAULT = -1
"""A number that the client left to the coordinator."""


class SubscriptionOperation(IntEnum):
    """What is done with a subscription."""

    LIST = 0
    DESCRIBE = 1
    CREATE = 2
    DELETE = 3
    REDRIVE = 4


class SubscriptionCoordinatorCall(NamedTuple):
    """Where a call goes, and on whose behalf."""

    links: PeerLinks
    broker_id: int
    session: Session

    async def list(self) -> bytes:
        """The subscriptions that the broker coordinates, as a JSON list."""
        return bytes((await self._ask(SubscriptionOperation.LIST, "")).content)

    async def describe(self, name: str) -> bytes:
        """A subscription, as a JSON object."""
        return bytes((await self._ask(SubscriptionOperation.DESCRIBE, name)).content)

    async def create(
        self, name: str, topic: str, start_offset: int, hold_ms: int | None, deliveries_max: int | None
    ) -> bool:
        """Whether the subscription is new."""
        response = await self._ask(
            SubscriptionOperation.CREATE,
            name,
            topic=topic,
            start_offset=start_offset,
            hold_ms=_number(hold_ms),
            deliveries_max=_number(deliveries_max),
        )
        return response.is_new

    async def delete(self, name: str) -> None:
        await self._ask(SubscriptionOperation.DELETE, name)

    async def redrive(self, name: str, count_max: int | None) -> int:
        """How many dead letters were written back."""
        response = await self._ask(
            SubscriptionOperation.REDRIVE, name, timeout_ms=REDRIVE_MS_MAX, count=_number(count_max)
        )
        return response.count

    async def _ask(
        self, operation: SubscriptionOperation, name: str, *, timeout_ms: int = CALL_MS_MAX, **more: Any
    ) -> messages.ManageSubscriptionResponse:
        """The coordinator's response. Raises what the link or the coordinator failed with."""
        request = messages.ManageSubscriptionRequest(
            principal=self.session.principal,
            client_host=self.session.address,
            client_id=self.session.client_id,
            operation=int(operation),
            name=name,
            **{"topic": "", **more},
        )
        response = await self.links.call(self.broker_id, request, timeout_ms=timeout_ms)
        if response.error_code:
            message = response.error_message or error_name(response.error_code)
            raise error_from_code(response.error_code, message)
        return response


def _number(value: int | None) -> int:
    return DEFAULT if value is None else value
