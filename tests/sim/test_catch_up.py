"""Replicas that return on virtual time: what they missed is copied with a limit, unless producers wait for them."""

from __future__ import annotations

import asyncio

from sim.cluster_machines import State
from sim.move_stage import MoveStage, on_stage, stored

VALUES = [b"value-%03d" % number for number in range(300)]
ALL = (1, 2, 3)
BYTES_PER_S = 4_000


async def stop_third(stage: MoveStage) -> None:
    """Broker 3 leaves all in-sync replicas, and stays away until it is started."""
    stage.machines[3].restart_s = lambda: 3_600.0
    stage.machines[3].kill()
    await stage.until(lambda: 3 not in stage.placed(0).isr and 3 not in stage.placed(1).isr)


async def start_third(stage: MoveStage) -> None:
    await stage.start(3)
    await stage.until(lambda: stage.holds(3) and stage.machines[3].state is State.SERVING)


def waits(stage: MoveStage) -> int:
    """How often broker 3 waited for the limit."""
    replication = stage.broker(3).replication
    assert replication is not None
    return replication.following.throttles.catch_up.waits


def size(stage: MoveStage, broker_id: int) -> int:
    return stage.partition(broker_id).log.size()


def test_what_a_replica_missed_is_copied_with_a_limit_and_others_go_on() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(ALL, ALL, min_insync_replicas="2")
        await stop_third(stage)
        await stage.write(*VALUES)
        await start_third(stage)
        began_s, began_bytes = stage.loop.time(), size(stage, 3)
        await stage.until(lambda: 3 in stage.placed(1).isr)
        assert 3 not in stage.placed(0).isr, "the partition that missed nothing does not wait for the other"
        await stage.write(*VALUES[:50], index=1)
        assert 3 in stage.placed(1).isr and 3 not in stage.placed(0).isr
        await stage.until(lambda: 3 in stage.placed(0).isr)
        copied_bytes = size(stage, 3) - began_bytes
        # One segment is copied before the replica knows that it lags, and one more than is left of the limit.
        burst_bytes = 2 * 4_096 + 1_000
        assert stage.loop.time() - began_s >= (copied_bytes - burst_bytes) / BYTES_PER_S > 2
        assert waits(stage) > 0
        assert stored(stage.partition(3)) == stored(stage.partition(stage.placed().leader))

    on_stage(play, brokers=3, catch_up_bytes_per_s=BYTES_PER_S)


def test_a_partition_that_lacks_in_sync_replicas_is_copied_without_a_limit() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(ALL, ALL, min_insync_replicas="2")
        await stop_third(stage)
        await stage.write(*VALUES)
        stage.machines[2].restart_s = lambda: 3_600.0
        stage.machines[2].kill()
        await stage.until(lambda: stage.placed().isr == (1,))
        await start_third(stage)
        await stage.until(lambda: 3 in stage.placed().isr)
        assert waits(stage) == 0
        assert stored(stage.partition(3)) == stored(stage.partition(1))

    on_stage(play, brokers=3, catch_up_bytes_per_s=1)


def test_a_replica_catches_up_although_more_is_written_than_the_limit_allows() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(ALL, ALL, min_insync_replicas="2")
        await stop_third(stage)
        await stage.write(*VALUES)
        is_over = False

        async def write() -> None:
            number = 0
            while not is_over:
                await stage.write(b"more-%06d" % number)
                await asyncio.sleep(0.01)
                number += 1

        writer = asyncio.create_task(write())
        await start_third(stage)
        await stage.until(lambda: waits(stage) > 0)
        await stage.until(lambda: 3 in stage.placed().isr)
        is_over = True
        await writer

    on_stage(play, brokers=3, catch_up_bytes_per_s=100)
