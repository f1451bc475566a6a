"""Whatever is done to a log in whatever order, it equals a plain list of batches. Over memory and over a real disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log_samples import DIRECTORY, append, opaque_batch, reopen, sync
from penstock.core.errors import OffsetOutOfRange
from penstock.core.log.producers import Producers
from penstock.core.log.transactions import PartitionTransactions
from penstock.core.ports import Files
from penstock.core.records.batch import BatchHeader, decode_header
from penstock.node.runtime.disk import DiskFiles
from penstock.node.runtime.memory import MemoryFiles

SIDE_FILES = (".index", ".snapshot", "leader-epochs", "log-start", "aborted-transactions")


class Kept(NamedTuple):
    header: BatchHeader
    raw: bytes


def cuts_in(words: list[str]) -> list[str]:
    """What recovery said of data that it took away."""
    return [one for one in words if "truncated " in one or "set aside" in one]


class LogMachine(RuleBasedStateMachine):
    """`self.kept` is the model: the batches that must be there."""

    def make_files(self) -> Files:
        return MemoryFiles()

    @initialize()
    def begin(self) -> None:
        self.files = self.make_files()
        self.log, _ = reopen(self.files)
        self.kept: list[Kept] = []
        self.start = self.end = 0
        self.stored_start = 0
        self.synced = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.deleted_upto = 0
        """How far records were ever deleted: a log opened since then knows their producers by snapshots only."""

    # -- writing

    @rule(
        count=st.integers(1, 5),
        size=st.integers(0, 700),
        time_ms=st.integers(-1, 200),
        producer=st.integers(-1, 2),
        new_epoch=st.sampled_from([0, 0, 0, 1]),
    )
    def append(self, count: int, size: int, time_ms: int, producer: int, new_epoch: int) -> None:
        self.epoch += new_epoch
        sequence = -1 if producer < 0 else self.sequences.get(producer, 0)
        batch = opaque_batch(
            count,
            bytes(size),
            time_ms=time_ms,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            sequence=sequence,
        )
        offset = append(self.log, batch, epoch=self.epoch)
        assert offset == self.end
        if producer >= 0:
            self.sequences[producer] = sequence + count
        self.kept.append(Kept(decode_header(batch), bytes(batch)))
        self.end = self.kept[-1].header.next_offset

    @rule()
    def roll(self) -> None:
        self.log.roll(1_000)

    @rule()
    def sync(self) -> None:
        sync(self.log)
        self.synced = self.log.end_offset
        assert self.log.high_watermark == self.end

    @rule(data=st.data())
    def advance(self, data: st.DataObject) -> None:
        """The watermark is told, whatever was synced."""
        offset = data.draw(st.sampled_from([self.start, *(one.header.next_offset for one in self.kept)]))
        before = self.log.high_watermark
        self.log.advance(offset)
        assert self.log.high_watermark == max(before, offset)

    @rule()
    def save(self) -> None:
        self.log.save_state()

    # -- reading

    @rule(data=st.data(), bytes_max=st.integers(-1, 2_500))
    def read(self, data: st.DataObject, bytes_max: int) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        found = self.log.read(offset, bytes_max, self.log.high_watermark_mark)
        expected = [one for one in self.kept if one.header.next_offset > offset]
        expected = [one for one in expected if one.header.next_offset <= self.log.high_watermark]
        if found is None:
            assert not expected or offset >= self.log.high_watermark
            return
        raw = found.read()
        taken = 0
        while raw:
            assert raw.startswith(expected[taken].raw)
            raw = raw[len(expected[taken].raw) :]
            taken += 1
        assert taken == 1 or found.length <= bytes_max
        assert taken >= 1

    @rule()
    def read_outside(self) -> None:
        for offset in (self.start - 1, self.end + 1):
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, 100, self.log.high_watermark_mark)

    @rule(time_ms=st.integers(-2, 210))
    def find_time(self, time_ms: int) -> None:
        found = self.log.find_time(time_ms, self.log.high_watermark_mark)
        visible = [one for one in self.kept if self.start < one.header.next_offset <= self.log.high_watermark]
        expected = next((one for one in visible if one.header.max_timestamp_ms >= time_ms), None)
        assert (None if found is None else bytes(found.raw)) == (None if expected is None else expected.raw)

    # -- shrinking

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.truncate(offset, 1_000)
        whole = [one for one in self.kept if one.header.next_offset <= offset]
        self._keep(whole)

    def _keep(self, batches: list[Kept]) -> None:
        if len(batches) < len(self.kept):
            self.end = self.kept[len(batches)].header.base_offset
        self.kept = batches
        self.start = min(self.start, self.end)
        self.stored_start = min(self.stored_start, self.end)
        self.synced = min(self.synced, self.end)
        self.sequences = {}
        for one in self.kept:
            if one.header.producer_id >= 0 and not one.header.is_control:
                self.sequences[one.header.producer_id] = one.header.base_sequence + one.header.count

    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, max(self.start, self.log.high_watermark)))
        if offset <= self.start:
            return
        self.log.persist_start(offset)
        self.stored_start = offset
        self.log.advance_start(offset)
        self.start = offset
        self.deleted_upto = max(self.deleted_upto, offset)
        self._drop_lost_segments()

    @precondition(lambda self: len(self.log.segments) > 1)
    @rule(data=st.data())
    def drop_first(self, data: st.DataObject) -> None:
        self.log.drop_first(data.draw(st.integers(0, len(self.log.segments) - 1)))
        self._drop_lost_segments()

    def _drop_lost_segments(self) -> None:
        first = self.log.segments[0].base_offset
        self.kept = [one for one in self.kept if one.header.base_offset >= first]
        self.start = max(self.start, first)

    # -- ending and coming back

    @rule()
    def reopen_clean(self) -> None:
        self.sync()
        self.log.save_state()
        self.log.close()
        self.log, words = reopen(self.files, recovery_offset=self.end)
        assert not cuts_in(words) and not self.log.is_dirty
        assert self.log.high_watermark == self.end

    @rule(data=st.data())
    def reopen_unclean(self, data: st.DataObject) -> None:
        self.log.close()
        self.log, words = reopen(self.files, recovery_offset=data.draw(st.integers(0, self.synced)))
        assert not cuts_in(words)
        self.sync()

    @rule(data=st.data(), garbage=st.binary(max_size=150))
    def reopen_torn(self, data: st.DataObject, garbage: bytes) -> None:
        if not self.log.segments:
            return
        self.log.close()
        active = self.log.segments[-1]
        first_position = 0
        for one in self.kept:
            if active.base_offset <= one.header.base_offset < self.synced:
                first_position += len(one.raw)
        file = self.files.open(active.file.path)
        cut = data.draw(st.integers(first_position, file.size()))
        file.truncate(cut)
        file.append((garbage,))
        file.close()
        position, survivors = 0, []
        for one in self.kept:
            if one.header.base_offset >= active.base_offset:
                if position + len(one.raw) > cut:
                    break
                position += len(one.raw)
            survivors.append(one)
        self.log, words = reopen(self.files, recovery_offset=self.synced)
        self._keep(survivors)
        assert bool(cuts_in(words)) == (position < cut or bool(garbage))
        self.sync()

    @rule(data=st.data(), flip=st.booleans())
    def damage_side_files(self, data: st.DataObject, flip: bool) -> None:
        self.sync()
        self.log.save_state()
        self.log.close()
        names = [name for name in self.files.names(DIRECTORY) if name.endswith(SIDE_FILES)]
        for name in data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []:
            path = f"{DIRECTORY}/{name}"
            content = bytearray(self.files.read_whole(path) or b"")
            if flip and content:
                content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
                self.files.write_whole(path, bytes(content))
            else:
                self.files.remove(path)
            if name == "log-start":
                self.stored_start = 0
        self.log, _ = reopen(self.files, recovery_offset=self.end)
        self.start = self.log.start_offset
        first = self.log.segments[0].base_offset if self.log.segments else 0
        assert self.start == max(first, min(self.stored_start, self.end))

    # -- what always holds

    @invariant()
    def offsets_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        assert self.start <= self.log.high_watermark <= self.end
        assert self.synced <= self.log.synced_offset <= self.end

    @invariant()
    def producers_agree(self) -> None:
        if not hasattr(self, "log") or (self.kept and self.kept[0].header.base_offset > 0) or not self.kept:
            return  # of producers whose batches are gone only the snapshots tell
        fresh = Producers(MemoryFiles(), DIRECTORY, PartitionTransactions(MemoryFiles(), DIRECTORY))
        for one in self.kept:
            if one.header.next_offset > max(self.start, self.deleted_upto):
                fresh.observe(one.header, one.header.base_offset, 1_000, one.raw)
        for producer_id, known in fresh.items():
            mine = dict(self.log.producers.items())[producer_id]
            assert mine.batches[-1:] == known.batches[-1:] or not known.batches
            assert mine.batches[len(mine.batches) - len(known.batches) :] == known.batches

    @invariant()
    def epochs_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        for one in self.kept:
            if one.header.base_offset >= self.start:
                assert self.log.epochs.at_offset(one.header.base_offset) == one.header.leader_epoch


class DiskLogMachine(LogMachine):
    """The same over real files, with fewer descriptors than files."""

    def make_files(self) -> Files:
        self.directory = tempfile.TemporaryDirectory()
        return DiskFiles(Path(self.directory.name), open_files_max=2)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            self.directory.cleanup()


_FEW = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLogInMemory = LogMachine.TestCase
TestLogInMemory.settings = settings(_FEW, max_examples=150)
TestLogOnDisk = DiskLogMachine.TestCase
TestLogOnDisk.settings = _FEW
