"""The call about subscriptions is for brokers only: a client cannot act as another one."""

from __future__ import annotations

from in_process_client import Caller
from penstock.wire.kafka import ApiKey, ErrorCode, messages

from .conftest import Node


def test_a_client_may_not_speak_for_another(node: Node) -> None:
    async def talk(caller: Caller) -> messages.ManageSubscriptionResponse:
        request = messages.ManageSubscriptionRequest(
            principal="User:admin", client_host="10.0.0.1", operation=0, name="", topic=""
        )
        answer: messages.ManageSubscriptionResponse = await caller.ask(ApiKey.MANAGE_SUBSCRIPTION, 0, request)
        return answer

    assert node.talk(talk).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
