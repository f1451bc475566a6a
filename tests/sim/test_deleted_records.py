"""Records that are deleted by offset, on virtual time: on all in-sync replicas before the answer, and never back."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.errors import BrokerError, NotLeader
from penstock.node.replicas.fetcher import WAIT_MS
from sim.cluster_machines import State
from sim.move_stage import MoveStage, on_stage, stored

VALUES = [b"value-%03d" % number for number in range(100)]
ALL = (1, 2, 3)


async def create(stage: MoveStage, **overrides: str) -> None:
    await stage.create(ALL, **{"min_insync_replicas": "2", "segment_bytes": "1024", **overrides})
    await stage.write(*VALUES)
    await stage.until(lambda: set(stage.placed().isr) == set(ALL))


def starts(stage: MoveStage, *brokers: int) -> list[int]:
    return [stage.partition(one).start_offset for one in brokers or ALL]


def test_the_answer_waits_for_all_in_sync_replicas() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        stage.machines[3].pause()
        deleting = asyncio.ensure_future(stage.partition(1).delete_records(40))
        await stage.until(lambda: starts(stage, 1, 2) == [40, 40])
        assert not deleting.done(), "one in-sync replica still has them"
        stage.machines[3].resume()
        assert await deleting == 40
        assert starts(stage) == [40, 40, 40]

    on_stage(play, brokers=3)


def test_replicas_hear_of_it_before_their_fetch_times_out() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        for offset in range(10, 90, 10):
            began_s = asyncio.get_running_loop().time()
            assert await stage.partition(1).delete_records(offset) == offset
            assert asyncio.get_running_loop().time() - began_s < WAIT_MS / 1000
            assert starts(stage) == [offset] * 3

    on_stage(play, brokers=3)


def test_a_replica_that_leaves_the_isr_is_not_waited_for() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        stage.machines[3].restart_s = lambda: 60.0
        stage.machines[3].kill()
        assert await stage.partition(1).delete_records(40) == 40
        assert set(stage.placed().isr) == {1, 2} and starts(stage, 1, 2) == [40, 40]

    on_stage(play, brokers=3)


@pytest.mark.parametrize("seed", range(5))
def test_deleted_records_do_not_come_back_with_the_next_leader(seed: int) -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.partition(1).delete_records(55)
        stage.machines[1].kill()
        await stage.until(lambda: stage.placed().leader in (2, 3))
        leader = stage.placed().leader
        await stage.until(lambda: stage.partition(leader).is_leader)
        assert stage.partition(leader).start_offset == 55
        await stage.until(lambda: set(stage.placed().isr) == set(ALL))
        assert starts(stage) == [55, 55, 55]

    on_stage(play, brokers=3, seed=seed)


@pytest.mark.parametrize("offset", [40, 100])
def test_a_replica_that_was_down_deletes_them_when_it_returns(offset: int) -> None:
    """Its log ends before the new start, if records were written and deleted meanwhile."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        stage.machines[3].restart_s = lambda: 20.0
        stage.machines[3].kill()
        await stage.write(*VALUES)
        assert await stage.partition(1).delete_records(offset + 50) == offset + 50
        await stage.until(lambda: set(stage.placed().isr) == set(ALL))
        await stage.until(lambda: stage.partition(3).high_watermark == 200)
        copy = stage.partition(3)
        assert (copy.start_offset, copy.end_offset, copy.recovery_point) == (offset + 50, 200, 200)
        for one in (1, 2):
            stage.machines[one].restart_s = lambda: 30.0
            stage.machines[one].stop()
        await stage.until(lambda: stage.placed().leader == 3)
        stage.machines[3].kill()
        await stage.until(lambda: stage.machines[3].state is State.SERVING and stage.partition(3).is_leader)
        assert (stage.partition(3).start_offset, stage.partition(3).end_offset) == (offset + 50, 200)
        await stage.until(lambda: set(stage.placed().isr) == set(ALL))
        assert starts(stage) == [offset + 50] * 3
        assert stored(stage.partition(1))[-50:] == stored(stage.partition(3))[-50:]

    on_stage(play, brokers=3)


def test_a_leader_that_is_replaced_meanwhile_says_so() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        for one in (2, 3):
            stage.machines[one].pause()
        deleting = asyncio.ensure_future(stage.partition(1).delete_records(40))
        await asyncio.sleep(0.5)
        stage.partition(1).follow(stage.partition(1).leader_epoch + 1)
        with pytest.raises(NotLeader):
            await deleting

    on_stage(play, brokers=3)


def test_an_unknown_outcome_is_an_error() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        for one in (2, 3):
            stage.machines[one].pause()
        deleting = asyncio.ensure_future(stage.partition(1).delete_records(40))
        await asyncio.sleep(0.5)
        stage.machines[1].stop()
        with pytest.raises(BrokerError):
            await deleting

    on_stage(play, brokers=3)
