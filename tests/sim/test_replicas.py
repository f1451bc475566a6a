"""Replicated partitions on virtual time: what is committed, who leads after a death, and what a follower truncates."""

from __future__ import annotations

import asyncio

import pytest

from penstock.core.errors import (
    BrokerError,
    CorruptBatch,
    DiskFailed,
    DiskFull,
    NotEnoughReplicas,
    NotLeader,
    OffsetOutOfRange,
    OutOfOrder,
)
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.model import Isolation, NewRecord
from penstock.core.records.batch import size_at
from penstock.node.replicas.fetcher import WAIT_MS
from penstock.node.replicas.replica import FOLLOWED_S_MAX
from penstock.node.waist.positions import Edge, find_in
from sim.cluster_machines import State
from sim.kafka_client import make_batch
from sim.move_stage import MoveStage, on_stage, stored, values_of
from sim.net import Farewell

VALUES = [b"value-%03d" % number for number in range(100)]
ALL = (1, 2, 3)


async def create(stage: MoveStage, *brokers: int, **overrides: str) -> None:
    await stage.create(brokers or ALL, **{"min_insync_replicas": "2", **overrides})


async def until_in_sync(stage: MoveStage, *brokers: int) -> None:
    """Wait until these brokers are the ISR, and have the same committed log."""

    def are_equal() -> bool:
        placed = stage.placed()
        if set(placed.isr) != set(brokers or ALL):
            return False
        logs = [stage.partition(one).log for one in placed.isr]
        return len({(one.end_offset, one.high_watermark) for one in logs}) == 1 and all(
            one.high_watermark == one.end_offset for one in logs
        )

    await stage.until(are_equal)


def test_every_replica_gets_the_same_bytes() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES)
        await until_in_sync(stage)
        copies = [stored(stage.partition(one)) for one in ALL]
        assert copies[0] == copies[1] == copies[2] and len(copies[0]) == len(VALUES)
        assert values_of(stage.partition(3)) == VALUES

    on_stage(play, brokers=3)


@pytest.mark.parametrize("farewell", [Farewell.RESET, Farewell.SILENCE])
@pytest.mark.parametrize("seed", range(5))
def test_a_leader_that_dies_takes_no_acknowledged_record_along(seed: int, farewell: Farewell) -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:50])
        stage.machines[1].restart_s = lambda: 60.0
        stage.machines[1].kill(farewell)
        await stage.until(lambda: stage.placed().leader in (2, 3))
        await stage.write(*VALUES[50:])
        leader = stage.partition(stage.placed().leader)
        assert values_of(leader) == VALUES
        await until_in_sync(stage)
        assert stored(stage.partition(1)) == stored(stage.partition(2)) == stored(stage.partition(3))

    on_stage(play, brokers=3, seed=seed)


def test_what_only_the_dead_leader_had_is_truncated() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:10])
        for one in (2, 3):
            stage.machines[one].pause()
        stage.append(1, *VALUES[10:20])
        assert stage.partition(1).high_watermark == 10
        stage.machines[1].restart_s = lambda: 60.0
        stage.machines[1].kill()
        for one in (2, 3):
            stage.machines[one].resume()
        await stage.until(lambda: stage.placed().leader in (2, 3))
        await stage.write(*VALUES[20:30])
        await until_in_sync(stage)
        assert values_of(stage.partition(1)) == VALUES[:10] + VALUES[20:30]

    on_stage(play, brokers=3)


def test_nothing_is_accepted_or_committed_below_the_minimum() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:10])
        for one in (2, 3):
            stage.machines[one].restart_s = lambda: 60.0
            stage.machines[one].kill()
        stage.append(1, VALUES[10])
        await stage.until(lambda: stage.placed().isr == (1,))
        assert len(stage.placed().elr) == 1, "the other one left while two were left"
        with pytest.raises(NotEnoughReplicas, match=r"1 replica\(s\) are in sync, min.insync.replicas is 2"):
            stage.append(1, VALUES[11])
        assert stage.partition(1).high_watermark == 10
        await until_in_sync(stage)
        assert values_of(stage.partition(3)) == VALUES[:11]

    on_stage(play, brokers=3)


def test_a_planned_stop_hands_over_first() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:10])
        stage.machines[1].stop()
        await stage.until(lambda: stage.placed().leader in (2, 3))
        await stage.write(*VALUES[10:20])
        await until_in_sync(stage)
        assert values_of(stage.partition(1)) == VALUES[:20]

    on_stage(play, brokers=3)


def test_all_lose_power_and_nothing_that_was_acknowledged_is_lost() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:30])
        for machine in stage.machines.values():
            machine.lose_power()
        await stage.until(lambda: all(one.broker is not None for one in stage.machines.values()))
        await stage.write(*VALUES[30:40])
        await until_in_sync(stage)
        assert values_of(stage.partition(2)) == VALUES[:40]

    for seed in range(5):
        on_stage(play, brokers=3, seed=seed)


def test_replicas_are_added_and_removed_while_records_are_written() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        written = list[bytes]()

        async def write() -> None:
            for number in range(600):
                value = b"%06d" % number
                await stage.write(value)
                written.append(value)

        writing = asyncio.ensure_future(write())
        for target in ((1, 2, 3), (4, 2, 3), (4, 1), (2,)):
            await stage.move(*target)
            await stage.until(lambda: not stage.placed().is_moving)
            assert stage.placed().replicas == target
        await writing
        assert values_of(stage.partition(2)) == written

    on_stage(play, brokers=4)


def test_two_replicas_survive_the_death_of_either() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage, 1, 2, min_insync_replicas="1")
        await stage.write(*VALUES[:10])
        for one in (1, 2):
            stage.machines[one].kill()
            await stage.until(lambda dead=one: stage.placed().leader not in (-1, dead))  # type: ignore[misc]
            await stage.write(VALUES[10 + one])
            await until_in_sync(stage, 1, 2)
        assert values_of(stage.partition(1)) == [*VALUES[:10], VALUES[11], VALUES[12]]

    on_stage(play, brokers=3)


def test_a_new_partition_does_not_wait_for_a_fetch_that_waits() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:3])
        await stage.create(ALL, topic="more", min_insync_replicas="2")
        began_s = asyncio.get_running_loop().time()
        await stage.write(*VALUES[:3], topic="more")
        took_s = asyncio.get_running_loop().time() - began_s
        assert took_s < WAIT_MS / 1000 / 2, "the followers' fetch of the first topic was not waited for"

    on_stage(play, brokers=3)


def test_a_leader_that_nobody_follows_does_not_tell_where_its_log_ends() -> None:
    """Another broker may lead already and have shown a later end."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:3])
        leader = stage.partition(1)
        latest = find_in(leader, Edge.LATEST, Isolation.READ_UNCOMMITTED)
        assert latest is not None and latest.offset == 3
        for one in (2, 3):
            stage.machines[one].restart_s = lambda: 60.0
            stage.machines[one].kill(Farewell.SILENCE)
        await asyncio.sleep(FOLLOWED_S_MAX + 0.5)
        for when in (Edge.LATEST, Edge.NEWEST, 2**50):
            with pytest.raises(NotLeader):
                find_in(leader, when, Isolation.READ_UNCOMMITTED)
        assert find_in(leader, Edge.EARLIEST, Isolation.READ_UNCOMMITTED) is not None

    on_stage(play, brokers=3)


def test_a_leader_that_nobody_follows_does_not_judge_offsets_behind_its_end() -> None:
    """Another broker may lead already and have written there: the reader must not believe that records are gone."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:3])
        leader = stage.partition(1)
        with pytest.raises(OffsetOutOfRange):
            leader.read(4, 1_000)
        for one in (2, 3):
            stage.machines[one].restart_s = lambda: 60.0
            stage.machines[one].kill(Farewell.SILENCE)
        await asyncio.sleep(FOLLOWED_S_MAX + 0.5)
        with pytest.raises(NotLeader):
            leader.read(4, 1_000)
        assert leader.read(0, 1_000) is not None
        assert leader.read(3, 1_000) is None

    on_stage(play, brokers=3)


def test_a_leader_that_nobody_follows_does_not_judge_sequences() -> None:
    """Another broker may lead already and have what is missing here."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:3])
        leader = stage.partition(1)

        def append(sequence: int) -> None:
            batch = make_batch([NewRecord(None, b"value")], 1, producer_id=5, sequence=sequence)
            leader.append(memoryview(bytearray(batch)))

        append(0)
        with pytest.raises(OutOfOrder):
            append(7)
        for one in (2, 3):
            stage.machines[one].restart_s = lambda: 60.0
            stage.machines[one].kill(Farewell.SILENCE)
        await asyncio.sleep(FOLLOWED_S_MAX + 0.5)
        with pytest.raises(NotLeader):
            append(7)

    on_stage(play, brokers=3)


# -- failed replicas


def test_a_leader_whose_disk_fails_resigns_and_is_repaired() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:20])
        stage.partition(1).fail(DiskFailed("the flush failed"))
        await stage.until(lambda: stage.placed().leader in (2, 3) and 1 not in stage.placed().isr)
        await stage.write(*VALUES[20:40])
        await until_in_sync(stage)
        assert stored(stage.partition(1)) == stored(stage.partition(2)) == stored(stage.partition(3))
        assert values_of(stage.partition(1)) == VALUES[:40]

    on_stage(play, brokers=3)


def test_a_follower_whose_disk_fails_does_not_hold_up_producers() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:20])
        began_s = asyncio.get_running_loop().time()
        stage.partition(3).fail(DiskFailed("the flush failed"))
        await stage.write(*VALUES[20:40])
        assert asyncio.get_running_loop().time() - began_s < 5, "not only when its lag is too long"
        await until_in_sync(stage)
        assert values_of(stage.partition(3)) == VALUES[:40]

    on_stage(play, brokers=3)


@pytest.mark.parametrize("failure", [DiskFull("the flush found no space"), DiskFailed("the flush failed")])
def test_a_follower_that_failed_for_whatever_reason_is_repaired(failure: BrokerError) -> None:
    """Lack of space is no reason to wait for a restart."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:20])
        stage.partition(3).fail(failure)
        await stage.until(lambda: 3 not in stage.placed().isr)
        await until_in_sync(stage)
        assert values_of(stage.partition(3)) == VALUES[:20]

    on_stage(play, brokers=3)


def test_a_failed_replica_is_not_taken_back_for_what_it_fetched_before() -> None:
    """Its leader looks at the ISR more often than the broker tries to repair it, and nobody writes."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES[:20])
        await until_in_sync(stage)
        failed = stage.partition(3)
        failed.fail(CorruptBatch("checksum mismatch"))
        await stage.until(lambda: stage.partition(3) is not failed)
        await until_in_sync(stage)
        assert values_of(stage.partition(3)) == VALUES[:20]

    on_stage(play, brokers=3, replica_lag_ms=1_000)


def test_the_only_complete_replica_stays_offline_with_its_files() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        await stage.write(*VALUES[:20])
        failed = stage.partition(1)
        failed.fail(DiskFailed("the flush failed"))
        await asyncio.sleep(30)
        assert stage.partition(1) is failed and stage.placed().leader == 1
        stage.machines[1].stop()
        await stage.until(lambda: stage.machines[1].lives == 2 and stage.machines[1].state is State.SERVING)
        await stage.until(lambda: stage.partition(1).is_leader)
        assert values_of(stage.partition(1)) == VALUES[:20]

    on_stage(play, brokers=3)


def test_an_empty_disk_is_refused_again_and_again_if_it_had_the_only_replica() -> None:
    """A supervisor starts a broker again that was refused: it must not lead as an empty log then."""

    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        await stage.write(*VALUES[:20])
        stage.machines[1].finds_disks = False
        stage.machines[1].lose_disk()
        await stage.until(lambda: stage.machines[1].lives >= 5)
        assert stage.placed().leader == NO_LEADER and stage.placed().elr == (1,)
        stage.machines[1].finds_disks = True
        await stage.until(lambda: stage.placed().leader == 1)
        assert values_of(stage.partition(1)) == VALUES[:20]

    on_stage(play, brokers=3)


def test_a_damaged_replica_is_set_aside_and_copied_again() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage, segment_bytes="1024")
        await stage.write(*VALUES)
        await until_in_sync(stage)
        partition = stage.partition(1)
        directory = partition.log.directory
        first = partition.log.segments[0].file.path
        stage.machines[1].stop()
        await stage.until(lambda: stage.machines[1].broker is None)
        files = stage.machines[1].machine.disk.mount()
        content = bytearray(files.read_whole(first) or b"")
        content[100] ^= 1
        files.write_whole(first, bytes(content[:-30]))
        await until_in_sync(stage)
        assert stored(stage.partition(1)) == stored(stage.partition(2))
        kept = stage.broker(1).runtime.files.names(directory.rpartition("/")[0])
        assert any("stray" in name for name in kept)

    on_stage(play, brokers=3)


def flip_batch(stage: MoveStage, broker_id: int, path: str, number: int) -> None:
    """Turn over a bit of a value in one batch of a file of a broker that is down."""
    disk = stage.machines[broker_id].machine.disk
    content, position = disk.mount().read_whole(path) or b"", 0
    for _ in range(number):
        position += size_at(content, position)
    disk.flip(path, position + size_at(content, position) - 2, 0)


@pytest.mark.parametrize("seed", range(3))
def test_damage_does_not_turn_into_a_shorter_log_that_leads(seed: int) -> None:
    """All are killed, and the one that led last comes back first, with a flipped bit before its last batch: it would
    be elected, and the others would truncate what it lacks."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        await stage.write(*VALUES)
        await until_in_sync(stage)
        path = stage.partition(1).log.segments[-1].file.path
        for one in (2, 3):
            stage.machines[one].restart_s = lambda: 30.0
            stage.machines[one].kill()
        await stage.until(lambda: stage.placed().isr == (1,))
        assert stage.placed().elr, "committed records are on another one"
        stage.machines[1].kill()
        flip_batch(stage, 1, path, 2)
        await stage.until(lambda: stage.machines[1].state is State.SERVING)
        assert stage.partition(1).failure is not None, "its files stay as they are until there is a leader"
        assert 1 not in (*stage.placed().isr, *stage.placed().elr, stage.placed().leader)
        await until_in_sync(stage)
        assert values_of(stage.partition(1)) == values_of(stage.partition(2)) == VALUES
        assert stage.placed().leader in (2, 3)

    on_stage(play, brokers=3, seed=seed)


def test_the_only_complete_replica_is_opened_with_what_is_left_of_it() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage, 1, 2, min_insync_replicas="1")
        stage.machines[2].restart_s = lambda: 60.0
        stage.machines[2].kill()
        await stage.write(*VALUES[:10])
        await stage.until(lambda: stage.placed().isr == (1,))
        path = stage.partition(1).log.segments[-1].file.path
        stage.machines[1].kill()
        flip_batch(stage, 1, path, 5)
        await stage.until(lambda: stage.machines[1].state is State.SERVING)
        await stage.until(lambda: stage.partition(1).failure is None and stage.partition(1).is_leader)
        assert values_of(stage.partition(1)) == VALUES[:5]

    on_stage(play, brokers=3)


def test_damage_of_the_only_replica_does_not_take_it_offline() -> None:
    async def play(stage: MoveStage) -> None:
        await stage.create(1)
        await stage.write(*VALUES[:20])
        failed = stage.partition(1)
        failed.fail(CorruptBatch("checksum mismatch"))
        await stage.until(lambda: stage.partition(1) is not failed and stage.partition(1).is_leader)
        await stage.write(VALUES[20])
        assert values_of(stage.partition(1)) == VALUES[:21]

    on_stage(play, brokers=3)


def test_a_leader_that_reads_damaged_records_resigns() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage, segment_bytes="1024")
        await stage.write(*VALUES)
        await until_in_sync(stage)
        path = stage.partition(1).log.segments[0].file.path
        stage.machines[1].stop()
        await stage.until(lambda: stage.machines[1].broker is None)
        flip_batch(stage, 1, path, 2)
        await until_in_sync(stage)
        for one in (2, 3):  # nobody has read the damaged records so far
            stage.machines[one].restart_s = lambda: 5.0
            stage.machines[one].stop()
        await stage.until(lambda: stage.placed().leader == 1 and stage.partition(1).is_leader)
        await until_in_sync(stage)
        with pytest.raises(CorruptBatch):
            stage.partition(1).read(0, 1 << 20)
        await stage.until(lambda: stage.placed().leader in (2, 3))
        await until_in_sync(stage)
        assert values_of(stage.partition(1)) == VALUES

    on_stage(play, brokers=3)
