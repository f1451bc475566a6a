"""ConsumerGroupHeartbeat through the whole door: what it may do in one turn of the loop."""

from __future__ import annotations

from typing import Any

import pytest

from in_process_client import Caller
from penstock.node.coordinators.consumer_groups import ConsumerGroups
from penstock.wire.kafka import ApiKey, messages

from .conftest import Busiest, Node

BEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
MEMBERS = 20


def beat(member: int, epoch: int = 0, **more: Any) -> Any:
    return messages.ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id=f"member-{member}",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        **{"subscribed_topic_names": ["orders"], "subscribed_topic_regex": None, "topic_partitions": []}
        | more,
    )


def silent(member: int, epoch: int) -> Any:
    """A heartbeat that says nothing new."""
    return beat(member, epoch, subscribed_topic_names=None, topic_partitions=None)


def test_each_join_gets_a_turn_for_itself_and_order_is_kept(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A join assigns all partitions anew; those that say nothing new wait for nobody."""
    node.make_topic("orders", 4)
    busiest = Busiest(monkeypatch, ConsumerGroups, "heartbeat")

    async def talk(caller: Caller) -> list[Any]:
        find = messages.FindCoordinatorRequest(key="readers", key_type=0)
        await caller.ask(ApiKey.FIND_COORDINATOR, 1, find)
        for member in range(MEMBERS):
            caller.send(BEAT, 1, beat(member))
        joined = [await caller.answer() for _ in range(MEMBERS)]
        assert busiest.most == 1
        for member, one in enumerate(joined):
            caller.send(BEAT, 1, silent(member, one.member_epoch))
        beaten = [await caller.answer() for _ in range(MEMBERS)]
        assert busiest.most > 1
        return joined + beaten

    answers = node.talk(talk)
    assert [one.error_code for one in answers] == [0] * 2 * MEMBERS
    assert [one.member_id for one in answers] == [f"member-{member}" for member in range(MEMBERS)] * 2


def test_a_member_that_leaves_behind_its_join_is_gone(node: Node) -> None:
    node.make_topic("orders", 4)

    async def talk(caller: Caller) -> list[Any]:
        find = messages.FindCoordinatorRequest(key="readers", key_type=0)
        await caller.ask(ApiKey.FIND_COORDINATOR, 1, find)
        for one in (beat(1), silent(1, -1), silent(1, 1)):
            caller.send(BEAT, 1, one)
        return [(await caller.answer()).error_code for _ in range(3)]

    joined, left, late = node.talk(talk)
    assert (joined, left) == (0, 0) and late != 0
