"""Partitions move between brokers on virtual time: what arrives, what stays, and what a crash in the middle does."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.errors import NotLeader
from sim.move_stage import TOPIC, MoveStage, on_stage, stored, values_of

VALUES = [b"value-%03d" % number for number in range(200)]


def test_a_partition_moves_with_every_byte_and_the_old_copy_is_deleted() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        stage.append(1, *VALUES)
        before, epoch = stored(stage.partition(1)), stage.placed().leader_epoch
        directory = stage.partition(1).log.directory
        await stage.move(2)
        partition = await stage.moved(2)
        assert stored(partition) == before
        assert (partition.high_watermark, partition.leader_epoch) == (len(VALUES), epoch + 1)
        await stage.until(lambda: not stage.holds(1))
        files = stage.broker(1).runtime.files
        await stage.until(lambda: not files.names(directory.rpartition("/")[0]))
        with pytest.raises(NotLeader, match="broker 2") as refused:
            stage.broker(1).partition(TOPIC, 0)
        assert refused.value.leader_id == 2

    on_stage(play)


def test_records_are_written_all_the_time_and_none_is_lost_or_doubled() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        leader, written = 1, list[bytes]()

        async def write() -> None:
            nonlocal leader
            for number in range(2_000):
                value = b"%06d" % number
                while True:
                    try:
                        stage.append(leader, value)
                    except (NotLeader, AssertionError):
                        leader = max(1, stage.placed().leader)
                        await asyncio.sleep(0.005)
                    else:
                        break
                written.append(value)
                await asyncio.sleep(0.001)

        writing = asyncio.ensure_future(write())
        await asyncio.sleep(0.2)
        await stage.move(2)
        await stage.moved(2)
        await stage.move(1)
        await stage.moved(1)
        await writing
        assert values_of(stage.partition(1)) == written

    on_stage(play)
