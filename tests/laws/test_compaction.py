"""After compaction every key has its value; offsets, order and producers stay; a crash leaves the old or the new."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log_samples import DIRECTORY, append, keyed_batch, reopen, sync, with_header
from penstock.core.log.compaction import choose, install
from penstock.core.log.log import Log, LogLimits
from penstock.core.log.rewrite import rewrite
from penstock.core.model import Record
from penstock.core.records.batch import decode_header
from penstock.core.records.build import open_batch
from penstock.node.runtime.memory import MemoryFile, MemoryFiles

LIMITS = LogLimits(segment_bytes=600, segment_ms=10**12, index_interval_bytes=100)


class Config(NamedTuple):
    dirty_ratio_min: float = 0.0
    compaction_lag_ms_min: int = 0
    compaction_lag_ms_max: int = 10**15
    delete_retention_ms: int = 1_000
    segment_bytes: int = 600
    index_interval_bytes: int = 100


class Crashed(Exception):
    """The machine stopped before this operation."""


class CrashingFile(MemoryFile):
    """Counts what it does against its tree's budget."""

    __slots__ = ("_tree",)

    def __init__(self, path: str, content: bytearray, tree: CrashingFiles) -> None:
        super().__init__(path, content)
        self._tree = tree

    def append(self, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        self._tree.spend()
        super().append(buffers)

    def truncate(self, size: int) -> None:
        self._tree.spend()
        super().truncate(size)


class CrashingFiles(MemoryFiles):
    """Stops for good after a number of operations that change something."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = 10**9

    def spend(self) -> None:
        self.budget -= 1
        if self.budget < 0:
            raise Crashed

    def open(self, path: str, *, create: bool = False) -> CrashingFile:
        if create and not self.exists(path):
            self.spend()
        found = super().open(path, create=create)
        return CrashingFile(path, found._content, self)

    def rename(self, source: str, target: str) -> None:
        self.spend()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        if self.exists(path):
            self.spend()
        super().remove(path)

    def write_whole(self, path: str, content: bytes, *, sync: bool = True) -> None:
        self.spend()
        super().write_whole(path, content, sync=sync)


def records_of(log: Log) -> list[Record]:
    """What a reader gets from the start to the end."""
    records: list[Record] = []
    offset = log.start_offset
    while (found := log.read(offset, 250, log.high_watermark_mark)) is not None:
        raw = found.read()
        while raw:
            header = decode_header(raw)
            records += open_batch(raw[: header.size], header)
            assert header.next_offset > offset
            offset = header.next_offset
            raw = raw[header.size :]
    return records


def values_of(records: list[Record]) -> dict[bytes, bytes]:
    values: dict[bytes, bytes | None] = {}
    for record in records:
        if record.key is not None:
            values[record.key] = record.value
    return {key: value for key, value in values.items() if value is not None}


keys = st.one_of(st.sampled_from([b"a", b"b", b"c", b"a key that is longer than a digest"]), st.none())
values = st.one_of(st.none(), st.binary(max_size=40))
batches = st.tuples(
    st.lists(st.tuples(keys, values), min_size=1, max_size=5),
    st.integers(0, 4),
    st.integers(-1, 1),
    st.sampled_from([False, False, False, True]),
)


def write(
    files: MemoryFiles, drawn: list[tuple[list[tuple[bytes | None, bytes | None]], int, int, bool]]
) -> Log:
    log, _ = reopen(files, limits=LIMITS)
    sequences = {0: 0, 1: 0}
    for number, (pairs, codec, producer, rolls) in enumerate(drawn):
        batch = keyed_batch(pairs, time_ms=100 + number, codec=codec)
        if producer >= 0:
            batch = with_header(
                batch, producer_id=producer, producer_epoch=0, base_sequence=sequences[producer]
            )
            sequences[producer] += len(pairs)
        append(log, batch)
        if rolls:
            log.roll(1_000)
    log.roll(1_000)
    sync(log)
    return log


def compact(log: Log, now_ms: int, keys_max: int = 1_000) -> bool:
    plan = choose(log, Config(), now_ms, log.high_watermark)
    if plan is None:
        return False
    assert install(log, plan, rewrite(log.files, plan, lambda _: None, keys_max))
    return True


few = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@few
@given(st.lists(batches, min_size=1, max_size=25), st.integers(1, 12))
def test_compaction_keeps_the_last_of_every_key(drawn: list, keys_max: int) -> None:
    log = write(MemoryFiles(), drawn)
    before = records_of(log)
    producers = [(key, one.epoch, one.batches) for key, one in log.producers.items()]
    rounds = 0
    while compact(log, 2_000, keys_max=keys_max):
        rounds += 1
        assert rounds <= len(drawn) + 1
    after = records_of(log)
    assert values_of(after) == values_of(before)
    assert [record for record in before if record in after] == after
    assert len({record.key for record in after}) == len(after)
    assert not any(record.key is None for record in after)
    for offset in range(log.start_offset, log.end_offset):
        found = log.read(offset, 1, log.high_watermark_mark)
        if found is not None:
            assert decode_header(found.read()).next_offset > offset
    again, words = reopen(log.files, recovery_offset=log.end_offset, limits=LIMITS)
    assert words == []
    assert records_of(again) == after
    from_scratch, words = reopen(_without_snapshots(log.files), recovery_offset=0, limits=LIMITS)
    assert words == []
    sync(from_scratch)
    assert records_of(from_scratch) == after
    kept = dict(from_scratch.producers.items())
    for producer_id, epoch, written in producers:
        assert kept[producer_id].epoch == epoch
        assert kept[producer_id].batches[-1][:4] == written[-1][:4]


def _without_snapshots(files: MemoryFiles) -> MemoryFiles:
    copied = copy.deepcopy(files)
    for name in copied.names(DIRECTORY):
        if name.endswith(".snapshot"):
            copied.remove(f"{DIRECTORY}/{name}")
    return copied


@few
@given(st.lists(batches, min_size=1, max_size=15))
def test_tombstones_go_when_their_time_has_come_and_not_before(drawn: list) -> None:
    log = write(MemoryFiles(), drawn)
    expected = values_of(records_of(log))
    compact(log, 2_000)
    first = [record for record in records_of(log) if record.value is None]
    for now_ms, gone in ((2_999, False), (3_001, True)):
        append(log, keyed_batch([(b"else", b"%d" % now_ms)], time_ms=now_ms), now_ms=now_ms)
        log.roll(now_ms)
        sync(log)
        compact(log, now_ms)
        left = [record for record in records_of(log) if record.value is None]
        assert left == ([] if gone else first)
        assert {**expected, b"else": b"%d" % now_ms} == values_of(records_of(log))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(batches, min_size=3, max_size=12))
def test_a_crash_at_any_step_leaves_the_old_or_the_new(drawn: list) -> None:
    files = CrashingFiles()
    log = write(files, drawn)
    before = records_of(log)
    saved = copy.deepcopy(files._contents), copy.deepcopy(files._directories)
    compact(log, 2_000)
    after = records_of(log)
    step = 0
    while True:
        crashing = CrashingFiles()
        crashing._contents, crashing._directories = copy.deepcopy(saved[0]), copy.deepcopy(saved[1])
        log, _ = reopen(crashing, recovery_offset=0, limits=LIMITS)
        sync(log)
        crashing.budget = step
        try:
            compact(log, 2_000)
            return
        except Crashed:
            step += 1
        crashing.budget = step % 7
        with suppress(Crashed):  # a second crash, while the first is being settled
            reopen(crashing, recovery_offset=log.end_offset, limits=LIMITS)
        crashing.budget = 10**9
        log, _ = reopen(crashing, recovery_offset=log.end_offset, limits=LIMITS)
        assert _is_between(records_of(log), before, after)
        assert not [name for name in crashing.names(DIRECTORY) if ".cleaned" in name or ".swap" in name]
        compact(log, 2_000)
        assert values_of(records_of(log)) == values_of(before)


def _is_between(found: list[Record], before: list[Record], after: list[Record]) -> bool:
    """Groups of segments are swapped one by one: everything that stays is there, and nothing that never was."""
    return all(record in found for record in after) and all(record in before for record in found)
