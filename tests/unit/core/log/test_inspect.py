"""Looking at a log from outside: every flipped bit is found, and nothing is changed by looking."""

from __future__ import annotations

import copy

import pytest

from log_samples import DIRECTORY, append, garbage, keyed_batch, reopen, sync
from penstock.core.log.inspect import Severity, dump, verify
from penstock.core.log.segment import segment_bases
from penstock.node.runtime.memory import MemoryFiles


def written() -> MemoryFiles:
    files = MemoryFiles()
    log, _ = reopen(files)
    for number in range(12):
        append(
            log, keyed_batch([(b"%d" % number, b"x" * 100), (None, None)], time_ms=number), epoch=number // 6
        )
    sync(log)
    log.persist_start(1)
    log.advance_start(1)
    log.save_state()
    log.close()
    return files


def test_a_whole_log_has_no_findings() -> None:
    files = written()
    assert list(verify(files, DIRECTORY)) == []
    assert len(segment_bases(files, DIRECTORY)) > 1
    assert segment_bases(files, "nowhere") == [] and list(verify(files, "nowhere")) == []


def test_every_flipped_bit_of_a_segment_is_damage() -> None:
    files = written()
    names = [name for name in files.names(DIRECTORY) if name.endswith(".log")]
    for name in names:
        content = files._contents[f"{DIRECTORY}/{name}"]
        for at in range(len(content)):
            content[at] ^= 1 << at % 8
            before = copy.deepcopy(files._contents)
            found = [finding.severity for finding in verify(files, DIRECTORY)]
            assert Severity.DAMAGED in found, (name, at)
            assert files._contents == before
            content[at] ^= 1 << at % 8


def test_damaged_side_files_are_named_and_no_damage() -> None:
    for name in written().names(DIRECTORY):
        if name.endswith(".log"):
            continue
        files = written()
        files._contents[f"{DIRECTORY}/{name}"][9] ^= 8
        found = list(verify(files, DIRECTORY))
        assert {finding.severity for finding in found} == {Severity.REBUILT}, name
        assert all(finding.path == f"{DIRECTORY}/{name}" for finding in found)


def test_a_lost_tail_a_lost_segment_and_a_lost_index_are_found() -> None:
    files = written()
    first, second = segment_bases(files, DIRECTORY)[:2]
    cut = copy.deepcopy(files)
    del cut._contents[f"{DIRECTORY}/{first:020d}.log"][-100:]
    assert Severity.DAMAGED in [finding.severity for finding in verify(cut, DIRECTORY)]
    gone = copy.deepcopy(files)
    gone.remove(f"{DIRECTORY}/{second:020d}.log")
    assert Severity.DAMAGED in [finding.severity for finding in verify(gone, DIRECTORY)]
    bare = copy.deepcopy(files)
    bare.remove(f"{DIRECTORY}/{first:020d}.index")
    assert [finding.severity for finding in verify(bare, DIRECTORY)] == [Severity.REBUILT]
    bare.write_whole(f"{DIRECTORY}/{first:020d}.log.cleaned", b"")
    assert Severity.NOTE in [finding.severity for finding in verify(bare, DIRECTORY)]


def test_a_dump_holds_every_batch_and_goes_on_behind_damage() -> None:
    files = written()
    whole = list(dump(files, DIRECTORY, with_records=True))
    assert [one.header.base_offset for one in whole if one.header] == list(range(0, 24, 2))
    assert (
        whole[3].records is not None and whole[3].records[0].key == b"3" and whole[3].records[1].value is None
    )
    late = list(dump(files, DIRECTORY, start_offset=13))
    assert [one.header.base_offset for one in late if one.header] == list(range(12, 24, 2))
    files._contents[whole[1].path][whole[1].position + 80] ^= 1
    hurt = list(dump(files, DIRECTORY))
    assert hurt[1].header is None and hurt[1].error is not None and hurt[1].position == whole[1].position
    assert [one.header for one in hurt] == [whole[0].header, None, *(one.header for one in whole[2:])]
    files._contents[whole[1].path][whole[1].position + 10] ^= 1
    lost = list(dump(files, DIRECTORY))
    assert [one.header for one in lost[:2]] == [whole[0].header, None], "no length, no next batch"
    assert len(lost) < len(whole) and lost[-1].header == whole[-1].header


@pytest.mark.parametrize("kind", [name for name, _ in garbage()])
def test_a_batch_that_cannot_be_opened_is_named_by_its_offsets(kind: str) -> None:
    files = MemoryFiles()
    log, _ = reopen(files)
    for batch in (keyed_batch([(b"k", b"before")]), dict(garbage())[kind], keyed_batch([(b"k", b"behind")])):
        append(log, batch)
    sync(log)
    log.close()
    before, hurt, behind = dump(files, DIRECTORY, with_records=True)
    assert hurt.error is not None and hurt.error.startswith("offsets 1 to 3 cannot be read: ")
    assert "\n" not in hurt.error and before.error is behind.error is None
    assert [one.value for one in behind.records or ()] == [b"behind"]
    (finding,) = [one for one in verify(files, DIRECTORY) if one.severity is Severity.DAMAGED]
    assert finding.message.startswith("offsets 1 to 3 cannot be read: ")
