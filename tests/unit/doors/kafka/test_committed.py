"""OffsetFetch through the whole door while the coordinator still loads its groups."""

from __future__ import annotations

from typing import Any

import pytest

from in_process_client import Caller
from penstock.core.errors import Loading
from penstock.node.coordinators.shard import Shard
from penstock.wire.kafka import ApiKey, ErrorCode, messages

from .conftest import Node

LOADS = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_partitions_carry_the_error_for_clients_that_look_at_nothing_else(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiokafka ignores the error of the group: without partitions it would take the group for one without offsets."""
    kind = messages.OffsetFetchRequest

    def still_loads(*_: object) -> None:
        raise Loading("it is still being replayed")

    async def talk(caller: Caller) -> list[Any]:
        find = messages.FindCoordinatorRequest(key="readers", key_type=0)
        await caller.ask(ApiKey.FIND_COORDINATOR, 1, find)
        monkeypatch.setattr(Shard, "check_ready", still_loads)
        topics = [kind.OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 7])]
        one, every = kind(group_id="readers", topics=topics), kind(group_id="readers", topics=None)
        many = kind(groups=[kind.OffsetFetchRequestGroup(group_id="readers", topics=None)])
        return [
            *[await caller.ask(ApiKey.OFFSET_FETCH, version, one) for version in (1, 3, 7)],
            await caller.ask(ApiKey.OFFSET_FETCH, 3, every),
            (await caller.ask(ApiKey.OFFSET_FETCH, 8, many)).groups[0],
        ]

    *named, every, group = node.talk(talk)
    for answer in named:
        [topic] = answer.topics
        assert topic.name == "orders"
        assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(0, LOADS), (7, LOADS)]
    assert [one.error_code for one in named[1:]] == [LOADS, LOADS]
    assert [(one.error_code, one.topics) for one in (every, group)] == [(LOADS, [])] * 2
