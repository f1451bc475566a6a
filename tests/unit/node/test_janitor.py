"""The rounds of a node: they keep logs small and starts quick, and a full disk does not end them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from log_samples import LIMITS, reopen
from manual_ports import DIRECTORY, Hand, run, turns
from penstock.core.errors import DiskFailed, NotLeader
from penstock.node import checkpoint, janitor
from penstock.node.cluster.metadata_file import DIRECTORY as METADATA
from penstock.node.cluster.metadata_file import MetadataFile
from penstock.node.janitor import Janitor
from penstock.node.replicas.partition import Partition
from penstock.node.settings import Settings

OS = {"penstock_durability": "os"}


def make_janitor(hand: Hand, partitions: list[Partition], **settings: int) -> tuple[Janitor, dict[str, int]]:
    points: dict[str, int] = {}
    log, _ = reopen(hand.files, limits=LIMITS)
    metadata = OwnLog(MetadataFile(log, hand.runtime, 0))
    return Janitor(hand.runtime, Settings(**settings), lambda: list(partitions), metadata, points), points


class OwnLog:
    """The metadata log as a node shows it to its janitor."""

    def __init__(self, file: MetadataFile) -> None:
        self.compact = file.compact
        self._file = file

    @property
    def metadata_end(self) -> int:
        return self._file.end_index


async def carried_out(hand: Hand, work: asyncio.Task[None]) -> None:
    while not work.done():
        await hand.workers.do_all()
    await work


@pytest.fixture(autouse=True)
def small_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(janitor, "CHECKPOINT_BYTES_MIN", 100)


def test_recovery_points_move_even_where_nobody_waits_for_the_disk() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        rounds, points = make_janitor(hand, [partition])
        partition.append(hand.batch(count=4, size=200))
        await carried_out(hand, asyncio.create_task(rounds.save_points()))
        assert points == {DIRECTORY: 4, METADATA: 0}
        assert checkpoint.load_recovery_points(hand.files) == points
        syncs = hand.disk.counters.file_syncs
        await rounds.save_points()
        assert hand.disk.counters.file_syncs == syncs, "nothing grew, so nothing is done"

    run(test)


def test_a_full_disk_leaves_partitions_online_and_the_next_round_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(retention_ms="1000", **OS)
        rounds, points = make_janitor(hand, [partition])
        partition.append(hand.batch(size=200))
        hand.disk.fill_after(0)
        await carried_out(hand, asyncio.create_task(rounds.save_points()))
        hand.clock.ms += 5_000
        await rounds.retain()
        assert partition.failure is None
        assert DIRECTORY not in points
        hand.disk.enlarge()
        await carried_out(hand, asyncio.create_task(rounds.save_points()))
        await rounds.retain()
        await hand.workers.do_all()
        await rounds.retain()
        assert points[DIRECTORY] == 1
        assert partition.start_offset == 1

    run(test)
    assert caplog.text.count("the next round retries") == 2


def test_a_disk_that_fails_takes_that_partition_offline_and_no_other() -> None:
    async def test() -> None:
        hand, other = Hand(), Hand()
        broken, sound = hand.partition(retention_ms="1000", **OS), other.partition(retention_ms="1000", **OS)
        for one, its in ((broken, hand), (sound, other)):
            one.append(its.batch())
            its.clock.ms += 5_000
        rounds, _ = make_janitor(hand, [broken, sound])
        hand.disk.read_only = True
        await rounds.retain()
        assert isinstance(broken.failure, DiskFailed)
        assert sound.failure is None and len(sound.log.segments) == 2

    run(test)


def test_a_round_that_crashes_is_reported(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        monkeypatch.setattr(janitor, "retain_partition", lambda *_: 1 / 0)
        rounds, _ = make_janitor(hand, [partition], retention_check_ms=1)
        rounds.start()
        while not caplog.records:
            await asyncio.sleep(0)
        await rounds.stop()

    run(test)
    assert caplog.records[0].levelno == logging.CRITICAL
    assert "ZeroDivisionError" in caplog.text


def test_stopping_ends_every_round() -> None:
    async def test() -> None:
        hand = Hand()
        rounds, _ = make_janitor(hand, [])
        rounds.start()
        await turns()
        before = len(asyncio.all_tasks())
        await rounds.stop()
        assert before - len(asyncio.all_tasks()) == 3

    run(test)


def test_a_partition_that_ends_during_a_round_leaves_no_recovery_point() -> None:
    async def test() -> None:
        hand = Hand()
        partition = hand.partition(**OS)
        rounds, points = make_janitor(hand, [partition])
        partition.append(hand.batch(size=200))
        saving = asyncio.create_task(rounds.save_points())
        await turns()
        partition.close(NotLeader("deleted"))
        await carried_out(hand, saving)
        assert DIRECTORY not in points

    run(test)
