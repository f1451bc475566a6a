"""The sparse index: search, encoding, and what of a damaged file still counts."""

from __future__ import annotations

import pytest

from penstock.core.errors import TornSegment
from penstock.core.log import index
from penstock.core.log.index import ENTRY_BYTES, START, IndexEntry, SavedIndex, SparseIndex
from penstock.node.runtime.memory import MemoryFiles

ENTRIES = [IndexEntry(10 * n, 100 * n, 5 * n, 1_000 + n) for n in range(1, 6)]


def sparse() -> SparseIndex:
    made = SparseIndex()
    for entry in ENTRIES:
        made.add(entry)
    return made


def saved() -> SavedIndex:
    files = MemoryFiles()
    files.write_whole("a.index", bytes(sparse().unsaved))
    return SavedIndex(files.open("a.index"))


@pytest.mark.parametrize("make", [sparse, saved])
def test_both_kinds_find_the_same(make: type) -> None:
    found = make()
    assert len(found) == 5
    assert found.last() == ENTRIES[-1]
    assert found.floor(9) is START and found.floor(10) == ENTRIES[0] and found.floor(29) == ENTRIES[1]
    assert found.floor_position(99) is START and found.floor_position(10**6) == ENTRIES[-1]
    assert found.ceil_position(0) == ENTRIES[0] and found.ceil_position(101) == ENTRIES[1]
    assert found.ceil_position(501) is None
    assert (
        found.before_time(5) is START
        and found.before_time(6) == ENTRIES[0]
        and found.before_time(99) == ENTRIES[-1]
    )
    assert found.before(0) is START and found.before(3) == ENTRIES[2]


def test_an_empty_index_starts_at_the_start() -> None:
    empty = SparseIndex()
    assert empty.last() is START and empty.floor(7) is START and empty.ceil_position(0) is None


def test_a_flipped_bit_ends_what_counts() -> None:
    content = bytearray(sparse().unsaved)
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        assert len(index.decode(bytes(flipped), 10**6)) == bit // 8 // ENTRY_BYTES


def test_torn_or_too_far_entries_do_not_count() -> None:
    content = bytes(sparse().unsaved)
    assert len(index.decode(content[:-1], 10**6)) == 4
    assert len(index.decode(content, 350)) == 3
    twice = content + content
    assert len(index.decode(twice, 10**6)) == 5


def test_a_saved_index_does_not_believe_a_flipped_entry() -> None:
    files = MemoryFiles()
    content = bytearray(sparse().unsaved)
    content[ENTRY_BYTES * 2] ^= 1
    files.write_whole("a.index", bytes(content))
    with pytest.raises(TornSegment):
        SavedIndex(files.open("a.index")).floor(30)


def test_cutting_knows_what_the_file_has() -> None:
    made = sparse()
    made.unsaved.clear()
    made.add(IndexEntry(60, 600, 30, 7))
    assert made.saved_bytes == 5 * ENTRY_BYTES
    made.cut_position(500)
    assert (len(made), made.saved_bytes, bytes(made.unsaved)) == (5, 5 * ENTRY_BYTES, b"")
    made.cut_position(250)
    assert (len(made), made.saved_bytes) == (2, 2 * ENTRY_BYTES)
    made.add(ENTRIES[2])
    assert bytes(made.unsaved) == index.encode_entry(ENTRIES[2])
    assert made.count_at_most(20) == 2
