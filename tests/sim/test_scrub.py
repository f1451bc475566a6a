"""Replicas that differ, on virtual time: found by comparison, repaired from the others, never passed on."""

from __future__ import annotations

import pytest

from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.log.segment import INDEX_SUFFIX
from penstock.core.records.batch import checksum, decode_header, size_at
from penstock.node.peers.scrub_calls import ScrubProgress
from sim.cluster_machines import State
from sim.move_stage import MoveStage, on_stage, stored, values_of

VALUES = [b"value-%03d" % number for number in range(100)]
ALL = (1, 2, 3)
NEVER = {"scrub_interval_ms": 0}


async def create(stage: MoveStage, *brokers: int, **overrides: str) -> None:
    await stage.create(brokers or ALL, **{"segment_bytes": "1024", **overrides})
    await stage.write(*VALUES)
    await until_equal(stage, *brokers)


async def until_equal(stage: MoveStage, *brokers: int) -> None:
    """Wait until these brokers are the ISR, and have the same committed log."""

    def are_equal() -> bool:
        placed = stage.placed()
        if set(placed.isr) != set(brokers or ALL) or not all(
            stage.machines[one].broker for one in placed.isr
        ):
            return False
        logs = [stage.partition(one).log for one in placed.isr]
        return (
            len({(one.end_offset, one.high_watermark, one.high_watermark == one.end_offset) for one in logs})
            == 1
        )

    await stage.until(are_equal)


def flip(stage: MoveStage, broker_id: int, *, segment: int = 0, batch: int = 2, at: int = -2) -> None:
    """Turn over a bit of one batch in a file of a running broker."""
    path = stage.partition(broker_id).log.segments[segment].file.path
    disk, position = stage.machines[broker_id].machine.disk, 0
    content = disk.mount().read_whole(path) or b""
    for _ in range(batch):
        position += size_at(content, position)
    disk.flip(path, position + (at if at >= 0 else size_at(content, position) + at), 0)


def change(stage: MoveStage, broker_id: int, *, batch: int = 2) -> None:
    """Change a value, its batch's checksum and the index: only a comparison can find this."""
    flip(stage, broker_id, batch=batch)
    segment = stage.partition(broker_id).log.segments[0]
    disk, position = stage.machines[broker_id].machine.disk, 0
    files = disk.mount()
    content = bytearray(files.read_whole(segment.file.path) or b"")
    for _ in range(batch):
        position += size_at(content, position)
    raw = content[position : position + size_at(content, position)]
    wanted, found = checksum(raw).to_bytes(4), decode_header(raw).crc.to_bytes(4)
    crc_at = position + bytes(raw).index(found)
    for number in range(4):
        for bit in range(8):
            if (wanted[number] ^ found[number]) >> bit & 1:
                disk.flip(segment.file.path, crc_at + number, bit)
    segment.retire()
    files.remove(segment.file.path.removesuffix(".log") + INDEX_SUFFIX)


async def scrub(stage: MoveStage) -> ScrubProgress:
    """Compare the partition on its leader; returns what was found."""
    leader = stage.broker(stage.placed().leader)
    assert leader.replication is not None
    one = leader.replication.scrub
    one.begin(None)
    await stage.until(lambda: not one.progress().is_running)
    return one.progress()


def differences(stage: MoveStage) -> int:
    return sum(stage.broker(one).runtime.meters.scrub_differences for one in stage.machines)


async def until_repaired(stage: MoveStage, broker_id: int, *brokers: int) -> None:
    meters = stage.broker(broker_id).runtime.meters
    await stage.until(lambda: meters.replica_repairs > 0)
    await until_equal(stage, *brokers)
    copies = [stored(stage.partition(one)) for one in brokers or ALL]
    assert all(one == copies[0] for one in copies)
    assert values_of(stage.partition(broker_id)) == VALUES
    before = differences(stage)
    await scrub(stage)
    assert differences(stage) == before, "nothing is left to find"


def test_equal_replicas_are_read_and_nothing_is_found() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        found = await scrub(stage)
        assert (found.differences, found.repairs, found.rounds) == (0, 0, 1)
        assert found.scrubbed_bytes == stage.partition(1).log.size() > 0
        assert stage.placed().isr == ALL and stage.placed().leader == 1

    on_stage(play, brokers=3, **NEVER)


def test_rounds_begin_by_themselves() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        flip(stage, 2)
        await until_repaired(stage, 2)

    on_stage(play, brokers=3, scrub_interval_ms=5_000)


@pytest.mark.parametrize("segment", [0, -1], ids=["closed", "active"])
@pytest.mark.parametrize("victim", [1, 3], ids=["leader", "follower"])
@pytest.mark.parametrize("brokers", [(1, 3), ALL], ids=["two", "three"])
def test_a_flipped_bit_is_found_and_repaired(victim: int, segment: int, brokers: tuple[int, ...]) -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage, *brokers)
        flip(stage, victim, segment=segment, batch=2 if segment == 0 else 0)
        assert (await scrub(stage)).differences == 1
        await stage.until(lambda: stage.placed().leader != victim)
        await until_repaired(stage, victim, *brokers)

    on_stage(play, brokers=3, **NEVER)


@pytest.mark.parametrize("at", [3, 10, 15, 17, BATCH_HEADER_BYTES - 1])
def test_a_flipped_bit_in_a_header_is_found(at: int) -> None:
    """Offset, length and epoch of a batch are not covered by its own checksum."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        flip(stage, 2, at=at)
        assert (await scrub(stage)).differences == 1
        await until_repaired(stage, 2)

    on_stage(play, brokers=3, **NEVER)


@pytest.mark.parametrize("victim", [1, 3], ids=["leader", "follower"])
def test_the_minority_is_wrong(victim: int) -> None:
    """All replicas are sound by themselves, and yet one differs."""

    async def play(stage: MoveStage) -> None:
        await create(stage)
        change(stage, victim)
        assert (await scrub(stage)).differences == 1
        await stage.until(lambda: stage.placed().leader != victim)
        await until_repaired(stage, victim)

    on_stage(play, brokers=3, **NEVER)


def test_of_two_sound_replicas_none_is_changed(caplog: pytest.LogCaptureFixture) -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage, 1, 2)
        change(stage, 2)
        before = stored(stage.partition(2))
        assert (await scrub(stage)).differences == 1
        assert stage.placed().isr == (1, 2) and stored(stage.partition(2)) == before
        assert "there is no majority" in caplog.text

    on_stage(play, brokers=2, **NEVER)


@pytest.mark.parametrize("victim", [1, 2], ids=["leader", "follower"])
def test_a_damaged_index_is_rebuilt(victim: int) -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage, index_interval_bytes="100")
        segment = stage.partition(victim).log.segments[0]
        path = segment.file.path.removesuffix(".log") + INDEX_SUFFIX
        files = stage.machines[victim].machine.disk.mount()
        before = files.read_whole(path) or b""
        assert len(before) > 48
        stage.machines[victim].machine.disk.flip(path, 30, 3)
        assert (await scrub(stage)).differences == 0
        after = files.read_whole(path) or b""
        assert after and after != before and stage.placed().isr == ALL
        stage.machines[victim].machine.disk.flip(path, 0, 0)
        await scrub(stage)
        assert files.read_whole(path) == after, "and again"
        assert values_of(stage.partition(victim)) == VALUES

    on_stage(play, brokers=3, **NEVER)


def test_a_leader_that_sends_damaged_batches_is_asked_to_verify_them() -> None:
    """A new replica cannot copy a batch that the leader has written itself, so that it trusts it."""

    async def play(stage: MoveStage) -> None:
        await create(stage, 1, 2)
        flip(stage, 1)
        await stage.move(1, 2, 3)
        await stage.until(lambda: stage.placed().leader == 2)
        await stage.until(lambda: not stage.placed().is_moving)
        await until_equal(stage)
        assert stored(stage.partition(1)) == stored(stage.partition(2)) == stored(stage.partition(3))
        assert values_of(stage.partition(1)) == VALUES

    on_stage(play, brokers=3, **NEVER)


def test_the_only_replica_in_sync_is_not_compared() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage, 1, 2, min_insync_replicas="1")
        stage.machines[2].restart_s = lambda: 30.0
        stage.machines[2].kill()
        await stage.until(lambda: stage.placed().isr == (1,))
        flip(stage, 1)
        assert (await scrub(stage)).differences == 0
        assert stage.partition(1).failure is None

    on_stage(play, brokers=2, **NEVER)


def test_a_compacted_topic_is_not_compared() -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage, cleanup_policy="compact")
        assert (await scrub(stage)).scrubbed_bytes == 0

    on_stage(play, brokers=3, **NEVER)


@pytest.mark.parametrize("seed", range(3))
def test_comparisons_while_records_are_written_deleted_and_leaders_change(seed: int) -> None:
    async def play(stage: MoveStage) -> None:
        await create(stage)
        for number in range(4):
            leader = stage.placed().leader
            one = stage.broker(leader).replication
            assert one is not None
            one.scrub.begin(None)
            await stage.write(*VALUES[:20])
            await stage.broker(leader).partition("orders", 0).delete_records(10 * number + 5)
            stage.machines[leader].kill()
            await stage.until(lambda dead=leader: stage.placed().leader not in (-1, dead))  # type: ignore[misc]
            await stage.until(lambda: all(m.state is State.SERVING for m in stage.machines.values()))
            await until_equal(stage)
        assert (await scrub(stage)).differences == 0
        assert all(stage.broker(one).runtime.meters.replica_repairs == 0 for one in ALL)

    on_stage(play, brokers=3, seed=seed, scrub_interval_ms=500)
