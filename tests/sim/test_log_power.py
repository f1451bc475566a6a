"""The log on a disk that loses power: what was synced is there, unchanged and dense, whatever was going on.

The disk keeps, tears or drops what was not synced, by chance. For compaction the names are dropped in any order too, so
that nothing is safe only because an ordinary file system happens to write names in the order of their changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from log_samples import DIRECTORY, append, filled_batch, keyed_batch, reopen
from penstock.core.log.compaction import choose, install
from penstock.core.log.inspect import Severity, verify
from penstock.core.log.log import Log, LogLimits
from penstock.core.log.rewrite import rewrite
from penstock.core.model import Record
from penstock.core.records.batch import decode_header
from penstock.core.records.build import open_batch
from penstock.core.topic_config import TopicConfig, resolve
from sim.disk import SimDisk
from sim.hosts import PowerLost
from sim.platter import Tree, _put

# A generator that is dropped after the power went closes its file, and there is no file any more.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

LIMITS = LogLimits(segment_bytes=700, segment_ms=10**12, index_interval_bytes=100)


class Life:
    """One run of a process on the disk, until the power goes."""

    def __init__(self, disk: SimDisk, chance: random.Random, recovery_offset: int) -> None:
        self.chance = chance
        self.files = disk.mount()
        self.log, self.words = reopen(self.files, recovery_offset=recovery_offset, limits=LIMITS)

    def sync(self) -> int:
        plan = self.log.take_dirty()
        for file in plan.files:
            file.sync()
        for directory in plan.directories:
            self.files.sync_dir(directory)
        self.log.mark_synced(plan)
        self.log.advance(self.log.synced_offset)
        return plan.end_offset


def batches_in(log: Log) -> list[bytes]:
    found: list[bytes] = []
    offset = log.start_offset
    while (part := log.read(offset, 300, log.high_watermark_mark)) is not None:
        raw = part.read()
        while raw:
            header = decode_header(raw)
            found.append(raw[: header.size])
            offset, raw = header.next_offset, raw[header.size :]
    return found


@pytest.mark.parametrize("seed", range(150))
def test_what_was_synced_survives_every_loss_of_power(seed: int) -> None:
    chance = random.Random(seed)
    disk = SimDisk(random.Random(seed + 1_000_000))
    written: list[bytes] = []
    recovery_offset = 0
    for epoch in range(4):
        disk.interrupt_at(chance.randrange(1, 120))
        synced = 0
        try:
            life = Life(disk, chance, recovery_offset)
            life.sync()
            synced = life.log.end_offset
            while True:
                act = chance.random()
                if act < 0.6:
                    batch = filled_batch(
                        1 + chance.randrange(3), bytes(chance.randrange(250)), time_ms=len(written)
                    )
                    written.append(_stamped(batch, life.log.end_offset, epoch))
                    append(life.log, batch, epoch=epoch)
                elif act < 0.8:
                    synced = life.sync()
                elif act < 0.9:
                    life.log.save_state()
                    recovery_offset = chance.randrange(recovery_offset, synced + 1)
                else:
                    life.log.roll(1_000)
        except PowerLost:
            disk.crash()
        again = Life(disk, chance, recovery_offset)
        again.sync()
        found = batches_in(again.log)
        assert found == written[: len(found)]
        assert again.log.end_offset >= synced
        assert sum(decode_header(one).count for one in found) == again.log.end_offset
        assert not [one for one in verify(again.files, DIRECTORY) if one.severity is Severity.DAMAGED]
        del written[len(found) :]
        again.log.close()


def _stamped(batch: bytearray, offset: int, epoch: int) -> bytes:
    return offset.to_bytes(8) + bytes(batch[8:12]) + epoch.to_bytes(4) + bytes(batch[16:])


def records_in(log: Log) -> list[Record]:
    return [record for raw in batches_in(log) for record in open_batch(raw, decode_header(raw))]


def values_in(records: list[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}


@pytest.mark.parametrize("seed", range(150))
def test_compaction_survives_every_loss_of_power(seed: int) -> None:
    chance = random.Random(seed)
    disk = SimDisk(random.Random(seed + 1_000_000))
    life = Life(disk, chance, 0)
    for number in range(40):
        append(life.log, keyed_batch([(b"%d" % chance.randrange(6), b"%d" % number)] * 2, time_ms=number))
    life.log.roll(1_000)
    recovery_offset = life.sync()
    life.log.save_state()
    expected = values_in(records_in(life.log))
    life.log.close()
    for _ in range(4):
        disk.interrupt_at(chance.randrange(1, 40))
        _until_power_is_lost(lambda: _compact_for_ever(disk, chance, recovery_offset))
        _lose_names(disk.tree, chance)
        disk.crash()
        again = Life(disk, chance, recovery_offset)
        again.sync()
        assert values_in(records_in(again.log)) == expected
        assert again.log.end_offset == 80
        assert not [one for one in verify(again.files, DIRECTORY) if one.severity is Severity.DAMAGED]
        again.log.close()


def _lose_names(tree: Tree, chance: random.Random) -> None:
    """Keep any of the changes to names that were not synced, not just the first ones."""
    keep_chance = chance.choice((0.2, 0.5, 0.8))
    for changes in tree._journal:
        if chance.random() < keep_chance:
            for directory, name, node in changes:
                _put(directory.durable, name, node)
    tree._journal.clear()


def _until_power_is_lost(act: Callable[[], None]) -> None:
    with pytest.raises(PowerLost):
        act()


def _compact_for_ever(disk: SimDisk, chance: random.Random, recovery_offset: int) -> None:
    life = Life(disk, chance, recovery_offset)
    life.sync()
    config: TopicConfig = resolve({"min.cleanable.dirty.ratio": "0"}, {})
    while True:
        plan = choose(life.log, config, 5_000, life.log.high_watermark)
        if plan is not None:
            keys_max = chance.choice([3, 1_000])
            install(life.log, plan, rewrite(life.files, plan, lambda _: None, keys_max))
        life.log.save_state()
        life.sync()
        life.files.sync_dir(DIRECTORY)
