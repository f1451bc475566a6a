"""Calls of classic members through the whole door while their coordinator still loads its groups."""

from __future__ import annotations

from typing import Any

import pytest

from in_process_client import Caller
from penstock.core.errors import Loading
from penstock.node.coordinators.shard import Shard
from penstock.wire.kafka import ApiKey, ErrorCode, messages

from .conftest import Node

MEMBER: Any = {"group_id": "readers", "member_id": "member-1", "generation_id": 3}


def test_members_of_a_group_that_is_loaded_go_on(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's answers, which clients expect after a failover: a heartbeat is taken, a round starts again."""

    def still_loads(*_: object) -> None:
        raise Loading("it is still being replayed")

    async def talk(caller: Caller) -> list[Any]:
        find = messages.FindCoordinatorRequest(key="readers", key_type=0)
        await caller.ask(ApiKey.FIND_COORDINATOR, 1, find)
        monkeypatch.setattr(Shard, "check_ready", still_loads)
        beat = messages.HeartbeatRequest(**MEMBER)
        sync = messages.SyncGroupRequest(
            **MEMBER, protocol_type="consumer", protocol_name="range", assignments=[]
        )
        join = messages.JoinGroupRequest(
            group_id="readers",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id="member-1",
            protocol_type="consumer",
            protocols=[],
        )
        return [
            await caller.ask(ApiKey.HEARTBEAT, 4, beat),
            await caller.ask(ApiKey.SYNC_GROUP, 5, sync),
            await caller.ask(ApiKey.JOIN_GROUP, 5, join),
        ]

    codes = [one.error_code for one in node.talk(talk)]
    assert codes == [0, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
