"""Compaction: when, what, and what it must leave alone."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from threading import Thread
from typing import NamedTuple

import pytest

from log_samples import DIRECTORY, append, keyed_batch, opaque_batch, reopen, sync, with_header
from penstock.core.errors import TornSegment
from penstock.core.log import cleaner_state
from penstock.core.log.compaction import Plan, Result, choose, install, roll_is_due
from penstock.core.log.log import Log
from penstock.core.log.rewrite import rewrite
from penstock.core.model import NewRecord, Record
from penstock.core.records.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL, BatchHeader, decode_header
from penstock.core.records.build import build_batch, open_batch
from penstock.node.runtime.disk import DiskFiles
from penstock.node.runtime.memory import MemoryFiles

COMMIT, ABORT = pack(">hh", 0, 1), pack(">hh", 0, 0)


class Config(NamedTuple):
    dirty_ratio_min: float = 0.5
    compaction_lag_ms_min: int = 0
    compaction_lag_ms_max: int = 10**15
    delete_retention_ms: int = 1_000
    segment_bytes: int = 1_000
    index_interval_bytes: int = 100


def log_of(*batches: bytearray | None) -> Log:
    """The batches, a roll at each None and at the end, all durable."""
    log, _ = reopen(MemoryFiles())
    add(log, *batches)
    return log


def add(log: Log, *batches: bytearray | None) -> None:
    for batch in [*batches, None]:
        if batch is None:
            log.roll(1_000)
        else:
            append(log, batch)
    sync(log)


def one(key: bytes | None, value: bytes | None = b"v", time_ms: int = 100) -> bytearray:
    return keyed_batch([(key, value)], time_ms=time_ms)


def plan_of(log: Log, config: Config = Config(), now_ms: int = 5_000) -> Plan | None:  # noqa: B008 - a constant
    return choose(log, config, now_ms, log.high_watermark)


def compact(log: Log, config: Config = Config(), now_ms: int = 5_000) -> list[str]:  # noqa: B008 - a constant
    words: list[str] = []
    plan = plan_of(log, config, now_ms)
    assert plan is not None
    assert install(log, plan, rewrite(log.files, plan, words.append))
    return words


def batches_of(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    return batches_of_segments(log, 0)


def batches_of_segments(log: Log, first: int) -> list[tuple[BatchHeader, list[Record]]]:
    found = []
    for segment in log.segments[first:]:
        for batch in segment.walk(0, segment.size, verify=True):
            found.append((batch.header, open_batch(batch.raw, batch.header)))
    return found


def kept(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for _, records in batches_of(log) for record in records]


def test_only_closed_and_visible_segments_before_the_limit_are_chosen() -> None:
    log = log_of(one(b"a"), None, one(b"a"), None, one(b"a"))
    plan = choose(log, Config(), 5_000, 2)
    assert plan is not None and [source.base_offset for source in plan.sources] == [0, 1]
    assert choose(log, Config(), 5_000, 0) is None
    append(log, one(b"b"))
    log.roll(1_000)
    plan = plan_of(log)
    assert plan is not None and plan.end_offset == 3


def test_too_little_dirt_is_left_alone_until_it_is_too_old() -> None:
    log = log_of(one(b"a", bytes(300)), None, one(b"b", bytes(300)))
    compact(log)
    assert plan_of(log) is None
    add(log, one(b"a", b"small", 4_000))
    assert plan_of(log) is None
    assert plan_of(log, Config(dirty_ratio_min=0.01)) is not None
    assert plan_of(log, Config(compaction_lag_ms_max=999)) is not None
    assert plan_of(log, Config(compaction_lag_ms_max=1_000)) is None


def test_young_segments_wait() -> None:
    log = log_of(one(b"a", time_ms=1_000), None, one(b"a", time_ms=3_000), None, one(b"a", time_ms=1_000))
    plan = plan_of(log, Config(compaction_lag_ms_min=3_000))
    assert plan is not None and plan.end_offset == 1


def test_the_last_segment_is_due_when_its_first_record_waited_too_long() -> None:
    log = log_of()
    assert not roll_is_due(log, Config(compaction_lag_ms_max=10), 5_000)
    append(log, one(b"a", time_ms=4_000))
    assert not roll_is_due(log, Config(compaction_lag_ms_max=1_000), 5_000)
    assert roll_is_due(log, Config(compaction_lag_ms_max=999), 5_000)


def test_the_last_of_each_key_stays_where_it_was() -> None:
    log = log_of(keyed_batch([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]), one(b"c"), None, one(b"b", b"4"))
    end = log.end_offset
    compact(log)
    assert kept(log) == [(2, b"a", b"3"), (3, b"c", b"v"), (4, b"b", b"4")]
    assert log.end_offset == end
    first = batches_of(log)[0][0]
    assert (first.base_offset, first.last_offset, first.count) == (0, 2, 1)


def test_small_segments_are_merged() -> None:
    log = log_of(one(b"a"), None, one(b"b"), None, one(b"c"), None, one(b"d", bytes(900)))
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 4]
    assert [offset for offset, _, _ in kept(log)] == [0, 1, 2, 3]
    assert log.read(1, 10_000, log.high_watermark_mark) is not None


def test_a_segment_that_loses_nothing_is_not_touched() -> None:
    log = log_of(one(b"a", bytes(800)), None, one(b"b", bytes(800)))
    before = [segment.file for segment in log.segments]
    compact(log)
    assert [segment.file for segment in log.segments] == before
    assert plan_of(log) is None


@pytest.mark.parametrize("codec", range(5))
def test_compressed_batches_keep_their_codec_and_what_is_whole_keeps_its_bytes(codec: int) -> None:
    half = keyed_batch([(b"a", b"1"), (b"b", b"x" * 50)], codec=codec)
    whole = keyed_batch([(b"c", b"1"), (b"d", b"2")], codec=codec)
    log = log_of(half, whole, None, one(b"a", b"new"))
    untouched = bytes(log.segments[0].file.read(len(half), len(whole)))
    compact(log)
    headers = [header for header, _ in batches_of(log)]
    assert [header.codec for header in headers] == [codec, codec, 0]
    assert untouched in log.segments[0].file.read(0, 10_000)
    assert kept(log)[0] == (1, b"b", b"x" * 50)


def test_times_and_headers_of_survivors_stay() -> None:
    times_ms = {b"a": 900, b"b": 50, b"c": 70}
    records = [NewRecord(key, None if key == b"b" else b"v", timestamp_ms=at) for key, at in times_ms.items()]
    log = log_of(build_batch(records, 10), None, one(b"a"))
    compact(log)
    header, found = batches_of(log)[0]
    assert [(record.offset, record.timestamp_ms) for record in found] == [(1, 50), (2, 70)]
    assert header.max_timestamp_ms == 70
    assert header.attributes & DELETE_HORIZON and header.base_timestamp_ms == 6_000


def test_records_without_a_key_go_with_a_word() -> None:
    log = log_of(one(None), one(b"a"))
    assert any("1 records without a key" in word for word in compact(log))
    assert kept(log) == [(1, b"a", b"v")]


def test_the_last_batch_of_a_producer_stays_as_an_empty_one() -> None:
    def by(producer_id: int, sequence: int, key: bytes) -> bytearray:
        return with_header(one(key), producer_id=producer_id, producer_epoch=3, base_sequence=sequence)

    log = log_of(by(1, 0, b"a"), by(1, 1, b"a"), by(2, 0, b"a"), None, one(b"a", b"last"))
    compact(log)
    headers = [header for header, _ in batches_of(log)]
    found = [
        (header.producer_id, header.base_sequence, header.base_offset, header.count) for header in headers
    ]
    assert found == [(1, 1, 1, 0), (2, 0, 2, 0), (-1, -1, 3, 1)]
    add(log, by(1, 2, b"b"))
    compact(log, Config(dirty_ratio_min=0.0))
    assert [header.base_offset for header, _ in batches_of(log)] == [2, 3, 4]


def transactional(key: bytes, value: bytes, producer_id: int = 9) -> bytearray:
    batch = one(key, value)
    return with_header(
        batch, producer_id=producer_id, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
    )


def marker(kind: bytes, producer_id: int = 9) -> bytearray:
    attributes = TRANSACTIONAL | CONTROL
    return with_header(one(kind, b""), producer_id=producer_id, producer_epoch=0, attributes=attributes)


def test_an_aborted_record_hides_nothing_and_a_committed_one_does() -> None:
    log = log_of(
        one(b"a", b"old"), one(b"b", b"old"),
        transactional(b"a", b"aborted"), marker(ABORT),
        transactional(b"b", b"committed", 8), marker(COMMIT, 8),
    )  # fmt: skip
    compact(log)
    assert [(offset, value) for offset, key, value in kept(log) if key in (b"a", b"b")] == [
        (0, b"old"),
        (2, b"aborted"),
        (4, b"committed"),
    ]
    assert [header.base_offset for header, _ in batches_of(log) if header.is_control] == [3, 5]


def test_an_undecided_transaction_stays_dirty() -> None:
    log = log_of(one(b"a", b"old"), transactional(b"a", b"new"), None, one(b"b"))
    compact(log)
    assert [offset for offset, _, _ in kept(log)] == [0, 1, 2]
    assert cleaner_state.read(log.files, DIRECTORY, lambda _: None).first_dirty == 1
    add(log, marker(COMMIT))
    compact(log, Config(dirty_ratio_min=0.0))
    assert [offset for offset, key, _ in kept(log) if key == b"a"] == [1]


def test_what_lies_before_the_start_goes() -> None:
    log = log_of(keyed_batch([(b"a", b"1"), (b"b", b"2")]), None, one(b"c"))
    log.persist_start(1)
    log.advance_start(1)
    compact(log)
    assert [offset for offset, _, _ in kept(log)] == [1, 2]


def test_damage_is_never_rewritten_as_good_and_the_rest_is_compacted() -> None:
    for at in (1, 7, 15, 70):
        log = log_of(one(b"a"), one(b"b"), None, one(b"c"), one(b"c"), None, one(b"a"))
        content = log.files._contents[log.segments[0].file.path]  # type: ignore[attr-defined]
        content[at] ^= 1
        damaged = bytes(content)
        words = compact(log, Config(segment_bytes=150))
        assert bytes(log.files._contents[log.segments[0].file.path]) == damaged  # type: ignore[attr-defined]
        assert [record.offset for _, records in batches_of_segments(log, 1) for record in records] == [3, 4]
        assert any("segment 0" in one for one in words)


UNOPENABLE = {
    "random bytes": opaque_batch(2, b"\x8f\x13\x99random bytes\xff\xfe"),
    "broken gzip": opaque_batch(2, b"\x1f\x8b\x08\0broken", attributes=1),
    "huge deltas": opaque_batch(2, b"\x16\0\0\x80\x80\x80\x80\x08\x02a\x02v\0" * 2),
    "equal deltas": opaque_batch(2, b"\x10\0\0\0\x02a\x02v\0" * 2),
}


@pytest.mark.parametrize("kind", UNOPENABLE)
def test_a_batch_that_cannot_be_opened_stays_and_the_rest_is_compacted(kind: str) -> None:
    log = log_of(one(b"a"), bytearray(UNOPENABLE[kind]), one(b"b"), None, one(b"a"), one(b"b"))
    words = compact(log)
    left = [(found.header.base_offset, found.header.count) for found in log.headers_from(0)]
    assert left == [(1, 2), (4, 1), (5, 1)]
    assert ["offset 1 left unchanged" in one for one in words] == [True]


def test_a_log_that_changed_meanwhile_is_left_alone() -> None:
    log = log_of(one(b"a"), None, one(b"a"), None, one(b"b"))
    plan = plan_of(log)
    assert plan is not None
    result = rewrite(log.files, plan, lambda _: None)
    log.drop_first(1)
    assert not install(log, plan, result)
    assert [offset for offset, _, _ in kept(log)] == [1, 2]
    assert not [name for name in log.files.names(DIRECTORY) if name.endswith(".cleaned")]


def test_readers_at_the_end_go_on_over_a_swap() -> None:
    log = log_of(one(b"a", b"1"), one(b"a", b"2"))
    compact(log)
    assert log.high_watermark == 2
    found = log.read(0, 10_000, log.high_watermark_mark)
    assert found is not None and decode_header(found.read()).base_offset == 1
    assert log.read(2, 10_000, log.high_watermark_mark) is None
    append(log, one(b"c"))
    sync(log)
    assert log.read(2, 10_000, log.high_watermark_mark) is not None


def test_on_disk_a_pinned_reader_keeps_the_old_bytes_and_others_get_the_new(tmp_path: Path) -> None:
    log, _ = reopen(DiskFiles(tmp_path, open_files_max=3))
    add(log, one(b"a", b"1"), one(b"a", b"2"), None, one(b"a", b"3"), one(b"b"))
    held = log.read(0, 10_000, log.high_watermark_mark)
    assert held is not None
    before = held.read()
    held.file.pin()
    plan = plan_of(log)
    assert plan is not None
    results: list[Result] = []
    thread = Thread(target=lambda: results.append(rewrite(log.files, plan, lambda _: None)))
    thread.start()
    thread.join()
    assert install(log, plan, results[0])
    assert held.read() == before
    held.file.unpin()
    after = kept(log)
    assert [offset for offset, _, _ in after] == [2, 3]
    with pytest.raises(TornSegment):
        held.read()
    log.save_state()
    log.close()
    again, words = reopen(DiskFiles(tmp_path, open_files_max=3), recovery_offset=4)
    assert words == [] and kept(again) == after


def test_a_damaged_state_file_means_that_everything_may_be_compacted_again() -> None:
    log = log_of(one(b"a"), one(b"a"), None, one(b"b"))
    compact(log)
    log.save_state()
    log.files.write_whole(f"{DIRECTORY}/{cleaner_state.FILE_NAME}", b"garbage")
    again, words = reopen(log.files, recovery_offset=3)
    assert any("as not compacted" in word for word in words)
    assert kept(again) == kept(log) and plan_of(again) is not None
