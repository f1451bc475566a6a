"""Stable offset and aborted transactions of a log equal those of a plain walk over its batches, whatever happens."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from laws.test_log_model import Kept, LogMachine
from log_samples import append, opaque_batch
from penstock.core.log.transactions import Aborted
from penstock.core.records.batch import TRANSACTIONAL, decode_header
from penstock.core.records.control import Marker, build_marker, read_marker

PRODUCERS = st.integers(10, 13)


class Walked(NamedTuple):
    """What a walk over all batches finds."""

    open: dict[int, int]
    unseen: list[int]
    aborted: list[Aborted]


def walk(batches: list[Kept], visible_offset: int) -> Walked:
    found = Walked({}, [], [])
    for header, raw in batches:
        if header.is_control:
            marker = read_marker(raw, header)
            first = found.open.pop(header.producer_id, None)
            assert marker is not None
            if first is None:
                continue
            if header.base_offset >= visible_offset:
                found.unseen.append(first)
            if not marker.is_commit:
                stable = min([*found.open.values(), header.base_offset + 1])
                found.aborted.append(Aborted(header.producer_id, first, header.base_offset, stable))
        elif header.is_transactional:
            found.open.setdefault(header.producer_id, header.base_offset)
    return found


class TransactionalLogMachine(LogMachine):
    """The log machine with transactions in it."""

    @initialize(may_drop=st.booleans())
    def choose(self, may_drop: bool) -> None:
        self.may_drop = may_drop

    @rule(producer=PRODUCERS, count=st.integers(1, 3), size=st.integers(0, 300))
    def write_in_transaction(self, producer: int, count: int, size: int) -> None:
        sequence = self.sequences.get(producer, 0)
        batch = opaque_batch(
            count,
            bytes(size),
            producer_id=producer,
            producer_epoch=0,
            sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        self.sequences[producer] = sequence + count
        self._keep_new(batch)

    @rule(producer=PRODUCERS, is_commit=st.booleans())
    def end_transaction(self, producer: int, is_commit: bool) -> None:
        self._keep_new(build_marker(producer, 0, Marker(is_commit, 1), 1_000))

    def _keep_new(self, batch: bytearray) -> None:
        assert append(self.log, batch, epoch=self.epoch) == self.end
        self.kept.append(Kept(decode_header(batch), bytes(batch)))
        self.end += self.kept[-1].header.last_offset_delta + 1

    @precondition(lambda self: self.may_drop)
    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        super().advance_start(data)

    @precondition(lambda self: self.may_drop and len(self.log.segments) > 1)
    @rule(data=st.data())
    def drop_first(self, data: st.DataObject) -> None:
        super().drop_first(data)

    @invariant()
    def stable_offset_agrees(self) -> None:
        if not hasattr(self, "log"):
            return
        visible = self.log.high_watermark
        found = walk(self.kept, visible)
        stable = self.log.stable()
        expected = min([visible, *found.open.values(), *found.unseen])
        if not self.may_drop:
            assert stable.offset == expected
            read = self.log.read(0, 1 << 20, stable) if self.kept else None
            assert (read is None) == (stable.offset == 0)
        else:  # of transactions whose records are gone the log may know more, or less: nobody can read them
            assert min(self.start, visible) <= stable.offset <= visible

    @invariant()
    def aborted_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        expected = walk(self.kept, self.log.high_watermark).aborted
        for start in range(self.start, self.end + 1, 3):
            reached = [one for one in expected if one.last_offset >= start]
            if not self.may_drop:
                assert self.log.transactions.aborted_between(start, self.end) == reached
            half = (start + self.end) // 2
            listed = self.log.transactions.aborted_between(start, half)
            for one in reached:
                readable = self._readable(one, start)
                covered = any(
                    other.producer_id == one.producer_id
                    and other.last_offset == one.last_offset
                    and other.first_offset <= readable
                    for other in listed
                )
                assert covered or readable >= half, "a reader would take aborted records for good"

    def _readable(self, aborted: Aborted, start: int) -> int:
        """The first offset from `start` on that holds a record of the transaction; the end of the log if there is none.

        After a restart without a snapshot a log may not know transactions whose records were all deleted.
        """
        for header, _ in self.kept:
            is_within = aborted.first_offset <= header.base_offset < aborted.last_offset
            if is_within and header.producer_id == aborted.producer_id and header.next_offset > start:
                return max(header.base_offset, start)
        return self.end


TestTransactionalLog = TransactionalLogMachine.TestCase
TestTransactionalLog.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
