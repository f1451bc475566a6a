"""ManageSubscription: a call about a subscription that another broker forwards for its client. Only for brokers; it is
not one of Kafka's calls."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import BrokerError, InvalidRequest, NotCoordinator, message_of
from penstock.core.session import Session
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.errors import code_of
from penstock.node.waist.subscriptions import SubscriptionRequest
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, messages

LIST, DESCRIBE, CREATE, DELETE, REDRIVE = range(5)


class SubscriptionHandlers:
    """Handler of the call."""

    def __init__(self, waist: Waist) -> None:
        self._peers = waist.peers
        self._verbs = waist.subscriptions
        self._forwarded = waist.forwarded_subscriptions

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key."""
        return {ApiKey.MANAGE_SUBSCRIPTION: self.manage}

    async def manage(
        self, call: Call, request: messages.ManageSubscriptionRequest
    ) -> messages.ManageSubscriptionResponse:
        """Run the call here, as the client that the broker names."""
        response = messages.ManageSubscriptionResponse
        try:
            client = self._peers.client_of(call.session, request.principal, request.client_host)
            return response(**await self._run(client.with_client(request.client_id), request))
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=message_of(error), content=b"")

    async def _run(self, client: Session, request: messages.ManageSubscriptionRequest) -> dict[str, Any]:
        name, operation = request.name, request.operation
        if operation == LIST:
            return {"content": await self._forwarded.list_here(client)}
        if not self._verbs.is_at(client, name, None):
            raise NotCoordinator(f"the subscription {name!r} is not coordinated here")
        if operation == DESCRIBE:
            return {"content": await self._forwarded.describe_here(client, name)}
        if operation == CREATE:
            wanted = SubscriptionRequest(
                name,
                request.topic,
                request.start_offset,
                _optional(request.hold_ms),
                _optional(request.deliveries_max),
            )
            return {"is_new": await self._verbs.create(client, wanted), "content": b""}
        if operation == DELETE:
            await self._verbs.delete(client, name)
            return {"content": b""}
        if operation == REDRIVE:
            moved = await self._verbs.redrive(client, name, _optional(request.count))
            return {"count": moved, "content": b""}
        raise InvalidRequest(f"{operation} is not an operation on subscriptions")


def _optional(number: int) -> int | None:
    return None if number < 0 else number
