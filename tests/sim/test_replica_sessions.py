"""Fetch sessions between brokers: what a fetch names, and what happens when both sides disagree."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.node.replicas import fetcher
from penstock.wire.kafka import messages
from sim.move_stage import MoveStage, on_stage, values_of

ALL = (1, 2, 3)
PARTITIONS = 40
VALUES = [b"value-%03d" % number for number in range(60)]
SESSION_S = fetcher.SESSION_S_MAX


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[messages.FetchRequest]]:
    """Every Fetch that a replica sends."""
    sent: list[messages.FetchRequest] = []
    build = fetcher.replica_fetch_request  # type: ignore[attr-defined]

    def record(*args: Any, **kwargs: Any) -> messages.FetchRequest:
        sent.append(build(*args, **kwargs))
        return sent[-1]

    monkeypatch.setattr(fetcher, "replica_fetch_request", record)
    yield sent


def named(request: messages.FetchRequest) -> int:
    return sum(len(topic.partitions) for topic in request.topics)


async def create(stage: MoveStage) -> None:
    """All partitions are led by broker 1."""
    await stage.create(*[ALL] * PARTITIONS, min_insync_replicas="2")
    for index in range(PARTITIONS):
        await stage.write(VALUES[0], index=index)


async def until_equal(stage: MoveStage, count: int, index: int = 0) -> None:
    await stage.until(
        lambda: (
            all(len(values_of(stage.partition(one, index))) == count for one in ALL)
            and set(stage.placed(index).isr) == set(ALL)
        )
    )


def test_a_fetch_names_only_what_has_changed(requests: list[messages.FetchRequest]) -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await asyncio.sleep(2)
        requests.clear()
        await stage.write(*VALUES[1:20], index=7)
        await until_equal(stage, 20, 7)
        assert len(requests) > 20
        assert max(map(named, requests)) == 1

    on_stage(play, brokers=3)


def test_a_session_is_replaced_after_a_while(requests: list[messages.FetchRequest]) -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        requests.clear()
        await asyncio.sleep(SESSION_S + 2)
        whole = [one for one in requests if one.session_id == 0]
        assert {named(one) for one in whole} == {PARTITIONS}
        await stage.write(VALUES[1])
        await until_equal(stage, 2)

    on_stage(play, brokers=3)


@pytest.mark.parametrize("field", ["session_id", "session_epoch"])
def test_a_session_that_the_leader_does_not_know_begins_again(
    requests: list[messages.FetchRequest], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        build = fetcher.replica_fetch_request  # type: ignore[attr-defined]

        def garble(*args: Any, **kwargs: Any) -> messages.FetchRequest:
            request = build(*args, **kwargs)
            if request.session_id:
                setattr(request, field, getattr(request, field) + 1)
                monkeypatch.setattr(fetcher, "replica_fetch_request", build)
            return request

        requests.clear()
        monkeypatch.setattr(fetcher, "replica_fetch_request", garble)
        await stage.write(*VALUES[1:10], index=3)
        await until_equal(stage, 10, 3)
        assert [named(one) for one in requests if not one.session_id] == [PARTITIONS]

    on_stage(play, brokers=3)


def test_the_isr_keeps_replicas_of_partitions_that_are_rarely_written() -> None:
    """They are not named for longer than replicas may lag."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        for number in range(1, 4):
            await asyncio.sleep(15)
            await stage.write(VALUES[number], index=number)
            stage.append(1, *VALUES[number:10], index=number)
            assert set(stage.placed(number).isr) == set(ALL)
        assert stage.broker(1).runtime.meters.isr_shrinks == 0

    on_stage(play, brokers=3, replica_lag_ms=10_000)


def test_partitions_that_are_deleted_are_not_named_any_more(requests: list[messages.FetchRequest]) -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.create(ALL, topic="more", min_insync_replicas="2")
        await stage.write(VALUES[0], topic="more")
        topic = stage.broker(1).catalog.topic("more")
        await stage.broker(1).change(lambda catalog: catalog.decide_delete_topic(topic.name))
        await stage.until(lambda: not any(stage.holds(one, topic="more") for one in ALL))
        await asyncio.sleep(2)
        requests.clear()
        await asyncio.sleep(2)
        await stage.write(VALUES[1])
        await until_equal(stage, 2)
        assert requests
        assert topic.id not in {found.topic_id for one in requests for found in one.topics}

    on_stage(play, brokers=3)
