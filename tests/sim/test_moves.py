"""Partitions move between brokers on virtual time: what arrives, what stays, and what a crash in the middle does."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.errors import NotLeader
from penstock.core.machines.cluster.brokers import decide_drain
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch
from penstock.node.topic_creation import NewTopic
from sim.cluster_machines import State
from sim.move_stage import TOPIC, MoveStage, on_stage, stored, values_of
from sim.workers import WorkerKnobs

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


# -- what is copied


def test_a_compacted_log_is_copied_with_its_gaps_and_opens_again() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(
            1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_bytes="2000"
        )
        for _ in range(10):
            stage.append(1, *VALUES[:20])
        source = stage.partition(1)
        await stage.until(lambda: source.log.gaps_before > 0 or len(stored(source)) < 150)
        before = stored(source)
        assert len(before) < 150, "compaction has removed most of it"
        await stage.move(2)
        assert stored(await stage.moved(2)) == before
        stage.machines[2].kill()
        await stage.until(lambda: stage.machines[2].state is State.DOWN)
        copy = await stage.moved(2)
        assert stored(copy) == before and copy.failure is None

    on_stage(play, compaction_check_ms=500)


def test_a_log_that_starts_inside_a_batch() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1, retention_ms="-1")
        source = stage.partition(1)
        for value in VALUES[:3]:
            now_ms = stage.broker(1).runtime.clock.now_ms()
            source.append(memoryview(build_batch([NewRecord(None, value)] * 10, now_ms)))
        await source.sync_dirty()
        await source.delete_records(15)
        before = stored(source)
        await stage.move(2)
        copy = await stage.moved(2)
        assert (copy.start_offset, copy.end_offset) == (15, 30)
        assert stored(copy) == before[-len(stored(copy)) :]

    on_stage(play)


def test_records_that_are_deleted_while_they_are_copied_stay_deleted() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1, retention_ms="-1", segment_bytes="1024")
        stage.append(1, *VALUES)
        await stage.move(2)
        await stage.until(lambda: stage.holds(2) and stage.partition(2).end_offset > 10)
        await stage.partition(1).sync_dirty()
        await stage.partition(1).delete_records(150)
        copy = await stage.moved(2)
        assert (copy.start_offset, copy.end_offset) == (150, len(VALUES))

    on_stage(play, copy_bytes_per_s=40_000)


def test_what_the_leader_lost_is_truncated_from_the_copy(caplog: pytest.LogCaptureFixture) -> None:
    """The copy has records that were never flushed on the leader; the leader loses power and begins a new epoch."""
    losses: list[int] = []

    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        stage.append(1, *VALUES[:100])
        await stage.partition(1).sync_dirty()
        workers = stage.machines[1].machine.workers
        workers.knobs = WorkerKnobs(slow_chance=1.0, slow_s_max=10_000.0)
        stage.append(1, *VALUES[100:])
        await stage.move(2)
        await stage.until(lambda: stage.holds(2) and stage.partition(2).end_offset == len(VALUES))
        workers.knobs = WorkerKnobs()
        stage.machines[1].lose_power()
        await stage.until(lambda: stage.machines[1].state is State.SERVING and stage.holds(1))
        before = stored(stage.partition(1))
        assert len(before) >= 100
        losses.append(len(VALUES) - len(before))
        assert stored(await stage.moved(2)) == before

    for seed in range(1, 6):
        caplog.clear()
        on_stage(play, seed=seed)
        assert bool(losses[-1]) == any("truncating it" in one.getMessage() for one in caplog.records)
    assert any(losses)


# -- crashes in the middle


@pytest.mark.parametrize("victim", [1, 2])
def test_a_broker_is_killed_in_the_middle_and_the_move_goes_on(victim: int) -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        stage.append(1, *VALUES)
        await stage.partition(1).sync_dirty()
        await stage.move(2)
        await stage.until(lambda: stage.holds(2) and stage.partition(2).end_offset > 50)
        copied = stage.partition(2).flushed_offset
        stage.machines[victim].kill()
        await stage.until(lambda: stage.machines[victim].state is State.SERVING)
        if victim == 2:
            await stage.until(lambda: stage.holds(2))
            assert stage.partition(2).end_offset >= copied, "the copy resumes where it was"
        assert values_of(await stage.moved(2)) == VALUES

    on_stage(play, copy_bytes_per_s=4_000)


def test_the_controller_is_killed_in_the_middle() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1, 2, 3)
        await stage.until(lambda: stage.anyone.controller_id in stage.machines)
        controller = stage.anyone.controller_id
        source = next(one for one in stage.machines if one != controller)
        target = next(one for one in stage.machines if one not in (controller, source))
        stage.append(source, *VALUES, index=source - 1)
        await stage.move(target, index=source - 1)
        stage.machines[controller].kill()
        assert values_of(await stage.moved(target, index=source - 1)) == VALUES

    on_stage(play, brokers=3, copy_bytes_per_s=4_000)


def test_the_source_is_gone_the_move_waits_and_can_be_cancelled_later() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        stage.append(1, *VALUES)
        await stage.partition(1).sync_dirty()
        stage.machines[1].restart_s = lambda: 60.0
        await stage.move(2)
        await stage.until(lambda: stage.holds(2))
        stage.machines[1].kill()
        await stage.until(lambda: stage.placed().leader == NO_LEADER)
        assert stage.placed().is_moving
        await stage.until(lambda: stage.placed().leader == 1)
        await stage.cancel()
        await stage.until(lambda: not stage.holds(2))
        assert values_of(stage.partition(1)) == VALUES

    on_stage(play, copy_bytes_per_s=1_000)


def test_a_damaged_copy_is_set_aside_and_copied_again() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1, segment_bytes="1024")
        stage.append(1, *VALUES)
        await stage.partition(1).sync_dirty()
        await stage.move(2)
        await stage.until(lambda: stage.holds(2) and len(stage.partition(2).log.segments) > 4)
        copy = stage.partition(2)
        await stage.broker(2)._janitor._save(copy)
        await stage.broker(2)._janitor.write_points()
        machine, paths = stage.machines[2], [one.file.path for one in copy.log.segments[2:]]
        machine.kill()
        files = machine.machine.disk.mount()
        for path in paths:
            files.remove(path)
        assert values_of(await stage.moved(2)) == VALUES
        parent = copy.log.directory.rpartition("/")[0]
        assert any(".stray-" in name for name in stage.broker(2).runtime.files.names(parent))

    on_stage(play, copy_bytes_per_s=4_000)


def test_a_copy_that_was_left_behind_is_set_aside_at_the_next_start() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        stage.append(1, *VALUES)
        directory = stage.partition(1).log.directory
        await stage.move(2)
        await stage.moved(2)
        await stage.until(lambda: not stage.holds(1))
        files = stage.broker(1).runtime.files
        files.make_dir(directory)
        files.write_whole(f"{directory}/00000000000000000000.log", b"left behind")
        stage.machines[1].stop()
        await stage.until(lambda: stage.machines[1].lives == 2 and stage.machines[1].state is State.SERVING)
        files = stage.broker(1).runtime.files
        parent = directory.rpartition("/")[0]
        assert not files.exists(directory)
        assert any(".stray-" in name for name in files.names(parent))
        await stage.move(1)
        assert values_of(await stage.moved(1)) == VALUES

    on_stage(play)


# -- changes of mind


def test_a_cancelled_move_leaves_the_partition_where_it_was() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        stage.append(1, *VALUES)
        await stage.move(2)
        await stage.until(lambda: stage.holds(2) and stage.partition(2).end_offset > 10)
        await stage.cancel()
        await stage.until(lambda: not stage.holds(2))
        stage.append(1, b"after")
        assert values_of(stage.partition(1)) == [*VALUES, b"after"]
        assert stage.placed().leader == 1

    on_stage(play, copy_bytes_per_s=4_000)


def test_a_move_is_replaced_by_another_one() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        stage.append(1, *VALUES)
        await stage.move(2)
        await stage.until(lambda: stage.holds(2) and stage.partition(2).end_offset > 10)
        await stage.move(3)
        assert values_of(await stage.moved(3)) == VALUES
        await stage.until(lambda: not stage.holds(1) and not stage.holds(2))

    on_stage(play, brokers=3, copy_bytes_per_s=4_000)


def test_a_topic_is_deleted_while_its_partition_moves() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        stage.append(1, *VALUES)
        await stage.move(2)
        await stage.until(lambda: stage.holds(2))
        await stage.anyone.change(lambda catalog: catalog.decide_delete_topic(TOPIC))
        await stage.until(
            lambda: all(not one.broker.partitions() for one in stage.machines.values() if one.broker)
        )
        replication = stage.broker(2).replication
        assert replication is not None and not replication.following.progress()

    on_stage(play, copy_bytes_per_s=1_000)


# -- limits


def test_copies_are_limited_in_number_and_rate() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1, 1, 1, 1)
        for index in range(4):
            stage.append(1, *VALUES, index=index)
        size_bytes = sum(stage.partition(1, index).log.size() for index in range(4))
        began_s = stage.loop.time()
        for index in range(4):
            await stage.move(2, index=index)
        await stage.until(lambda: len(copies(stage)) == 4)
        assert [one.is_copying for one in copies(stage)].count(True) == 2
        for index in range(4):
            await stage.moved(2, index=index)
        took_s = stage.loop.time() - began_s
        assert took_s >= size_bytes / 8_000 - 1, "virtual time, so this is exact enough"

    on_stage(play, copy_bytes_per_s=8_000, copies_max=2)


def copies(stage: MoveStage) -> list[object]:
    """The copies that broker 2 makes or has to make."""
    replication = stage.broker(2).replication
    assert replication is not None
    return list(replication.following.progress())


# -- brokers that join and leave


@pytest.mark.parametrize("takes_share", [True, False])
def test_a_broker_that_joins_takes_its_share(takes_share: bool) -> None:
    async def play(stage: MoveStage) -> None:
        await stage.anyone.create_topic(NewTopic(TOPIC, 12))
        for index in range(12):
            leader = stage.placed(index).leader
            await stage.until(lambda leader=leader, index=index: stage.holds(leader, index))
            stage.append(leader, *VALUES[:5], index=index)
        await stage.start(3)
        await asyncio.sleep(5)
        placed = [stage.placed(index) for index in range(12)]
        count = sum(one.replicas == (3,) for one in placed)
        assert count == (4 if takes_share else 0) and not any(one.is_moving for one in placed)
        for index in range(12):
            assert values_of(stage.partition(placed[index].leader, index)) == VALUES[:5]
        await stage.until(lambda: not stage.anyone.catalog.cluster.broker(3).is_joining)

    on_stage(play, takes_share=takes_share)


def test_a_drained_broker_becomes_empty_and_gets_nothing_new() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.anyone.create_topic(NewTopic(TOPIC, 9))
        await stage.anyone.change(lambda catalog: decide_drain(catalog.cluster, 2, is_draining=True))
        await stage.until(lambda: not stage.broker(2).partitions())
        assert {stage.placed(index).leader for index in range(9)} == {1, 3}
        await stage.anyone.create_topic(NewTopic("more", 6))
        assert {stage.placed(index, "more").leader for index in range(6)} == {1, 3}

    on_stage(play, brokers=3)
