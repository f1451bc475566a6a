"""The calls that compare replicas are for brokers only."""

from __future__ import annotations

from typing import Any

from in_process_client import Caller
from penstock.wire.kafka import ApiKey, ErrorCode, messages

from .conftest import Node


def test_a_client_may_not_compare_replicas(node: Node) -> None:
    async def talk(caller: Caller) -> list[Any]:
        checksum = messages.RangeChecksumRequest(topic_id=bytes(16), start_offset=0, end_offset=1)
        return [
            await caller.ask(ApiKey.RANGE_CHECKSUM, 0, checksum),
            await caller.ask(ApiKey.SCRUB_REPLICAS, 0, messages.ScrubReplicasRequest(is_started=True)),
        ]

    answers = node.talk(talk)
    assert {one.error_code for one in answers} == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
