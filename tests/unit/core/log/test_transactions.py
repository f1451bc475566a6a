"""Open and aborted transactions of one partition: what is stable, who may end what, and what survives a reopening."""

from __future__ import annotations

import pytest

from log_samples import DIRECTORY, append, opaque_batch, reopen, sync
from penstock.core.errors import InvalidTransactionState, OutOfOrder, StaleCoordinator, StaleProducer
from penstock.core.log.log import Log
from penstock.core.log.transactions import FILE_NAME, Aborted
from penstock.core.records.batch import TRANSACTIONAL, decode_header
from penstock.core.records.control import Marker, build_marker
from penstock.node.runtime.memory import MemoryFiles


def write(log: Log, producer_id: int, sequence: int = 0, *, epoch: int = 0, count: int = 1) -> int:
    batch = opaque_batch(
        count, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, attributes=TRANSACTIONAL
    )
    assert log.producers.check(decode_header(batch)) is None
    return append(log, batch)


def end(log: Log, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    return append(log, build_marker(producer_id, epoch, Marker(commit, coordinator_epoch), 1_000))


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def log(files: MemoryFiles) -> Log:
    made, _ = reopen(files)
    return made


def test_the_earliest_open_transaction_holds_the_stable_offset(log: Log) -> None:
    write(log, 1)
    write(log, 2)
    sync(log)
    assert log.stable().offset == 0
    end(log, 1, commit=True)
    sync(log)
    assert log.stable().offset == 1
    end(log, 2, commit=False)
    sync(log)
    assert log.stable() == log.high_watermark_mark
    assert log.high_watermark == 4


def test_a_marker_that_readers_cannot_see_yet_ends_nothing_for_them(log: Log) -> None:
    write(log, 1)
    sync(log)
    end(log, 1, commit=True)
    assert log.stable().offset == 0
    sync(log)
    assert log.stable().offset == 2


def test_a_stable_read_stops_at_the_batch_that_opens_a_transaction(log: Log) -> None:
    append(log, opaque_batch(3))
    write(log, 1, count=2)
    append(log, opaque_batch(1))
    sync(log)
    found = log.read(0, 10_000, log.stable())
    assert found is not None and found.end_offset == 3
    assert log.read(3, 10_000, log.stable()) is None
    everything = log.read(0, 10_000, log.high_watermark_mark)
    assert everything is not None and everything.end_offset == 6


def test_aborted_transactions_are_listed_for_those_who_may_meet_them(log: Log) -> None:
    write(log, 1)
    end(log, 1, commit=False)
    write(log, 2)
    write(log, 3)
    end(log, 3, commit=False)
    end(log, 2, commit=False)
    first, second, third = Aborted(1, 0, 1, 2), Aborted(3, 3, 4, 2), Aborted(2, 2, 5, 6)
    assert log.transactions.aborted_between(0, 6) == [first, second, third]
    assert log.transactions.aborted_between(0, 2) == [first]
    assert log.transactions.aborted_between(2, 3) == [third]
    assert log.transactions.aborted_between(5, 6) == [third]
    assert log.transactions.aborted_between(6, 9) == []


def test_a_marker_where_nothing_is_open_aborts_nothing(log: Log) -> None:
    end(log, 1, commit=False)
    assert log.transactions.aborted_count == 0


class TestMarkers:
    def check(self, log: Log, epoch: int, *, coordinator_epoch: int = 0, is_bumped: bool = False) -> bool:
        return log.producers.check_marker(1, epoch, coordinator_epoch, is_bumped=is_bumped)

    def test_an_unknown_producer_is_fenced_by_it(self, log: Log) -> None:
        assert self.check(log, 3)

    def test_one_that_was_written_before_is_not_written_again(self, log: Log) -> None:
        write(log, 1)
        assert self.check(log, 0)
        end(log, 1, commit=True)
        assert not self.check(log, 0)
        assert self.check(log, 1), "a later epoch is still to be fenced"

    def test_one_of_an_old_epoch_must_not_touch_a_newer_transaction(self, log: Log) -> None:
        write(log, 1, epoch=3)
        with pytest.raises(StaleProducer):
            self.check(log, 2)
        assert self.check(log, 3)
        with pytest.raises(StaleProducer):
            self.check(log, 3, is_bumped=True)
        assert self.check(log, 4, is_bumped=True)

    def test_one_of_an_old_coordinator_is_refused(self, log: Log) -> None:
        write(log, 1)
        end(log, 1, commit=True, coordinator_epoch=5)
        write(log, 1, 1)
        with pytest.raises(StaleCoordinator):
            self.check(log, 0, coordinator_epoch=4)
        assert self.check(log, 0, coordinator_epoch=5)

    def test_one_of_a_new_epoch_makes_the_sequence_start_again(self, log: Log) -> None:
        write(log, 1)
        write(log, 1, 1)
        end(log, 1, commit=True, epoch=1)
        with pytest.raises(StaleProducer):
            write(log, 1, 2)
        with pytest.raises(OutOfOrder):
            write(log, 1, 2, epoch=1)
        write(log, 1, 0, epoch=1)


def test_a_batch_outside_of_the_open_transaction_is_refused(log: Log) -> None:
    write(log, 1)
    outside = opaque_batch(1, producer_id=1, producer_epoch=0, sequence=1)
    with pytest.raises(InvalidTransactionState):
        log.producers.check(decode_header(outside))
    end(log, 1, commit=True)
    assert log.producers.check(decode_header(outside)) is None


def test_a_producer_with_an_open_transaction_is_not_forgotten(log: Log) -> None:
    write(log, 1)
    write(log, 2)
    end(log, 2, commit=True)
    log.producers.expire(10**6, 1)
    assert [producer_id for producer_id, _ in log.producers.items()] == [1]


class TestReopening:
    def fill(self, log: Log) -> None:
        for number in range(3):
            write(log, 1, number)
            end(log, 1, commit=False)
        write(log, 2)
        sync(log)

    @pytest.mark.parametrize("damage", ["none", "lost", "torn", "flipped"])
    def test_everything_is_known_again(self, files: MemoryFiles, log: Log, damage: str) -> None:
        self.fill(log)
        log.save_state()
        before = log.transactions.aborted_between(0, 99), log.stable()
        path = f"{DIRECTORY}/{FILE_NAME}"
        content = files.read_whole(path)
        assert content is not None and len(content) == 3 * 32
        if damage == "lost":
            files.remove(path)
        elif damage == "torn":
            files.write_whole(path, content[:50])
        elif damage == "flipped":
            files.write_whole(path, content[:40] + b"\xff" + content[41:])
        log.close()
        again, _ = reopen(files, recovery_offset=log.end_offset)
        assert (again.transactions.aborted_between(0, 99), again.stable()) == before
        assert again.transactions.first_offset(2) == 6

    def test_a_cut_takes_back_the_end_of_a_transaction(self, log: Log) -> None:
        self.fill(log)
        log.save_state()
        log.truncate(5, 1_000)
        sync(log)
        assert [one.last_offset for one in log.transactions.aborted_between(0, 99)] == [1, 3]
        assert log.stable().offset == 4
        end(log, 1, commit=True)
        log.save_state()
        log.close()
        assert log.transactions.aborted_count == 2

    def test_the_file_grows_by_what_is_new_and_is_rewritten_after_a_cut_at_the_start(
        self, files: MemoryFiles, log: Log
    ) -> None:
        self.fill(log)
        log.save_state()
        write(log, 1, 3)
        end(log, 1, commit=False)
        log.save_state()
        assert files.size(f"{DIRECTORY}/{FILE_NAME}") == 4 * 32
        sync(log)
        log.persist_start(2)
        log.advance_start(2)
        append(log, opaque_batch(1, producer_id=9, producer_epoch=0, sequence=0))
        log.save_state()
        assert files.size(f"{DIRECTORY}/{FILE_NAME}") == 3 * 32
        log.close()
        again, _ = reopen(files, recovery_offset=log.end_offset)
        assert again.transactions.aborted_between(0, 99) == log.transactions.aborted_between(0, 99)
