"""Which epoch began where."""

from __future__ import annotations

import pytest

from penstock.core.errors import TornSegment
from penstock.core.log.epochs import FILE_NAME, Epochs
from penstock.node.runtime.memory import MemoryFiles


def epochs(files: MemoryFiles | None = None) -> Epochs:
    made = Epochs(files or MemoryFiles(), "p")
    for epoch, offset in ((1, 0), (1, 5), (3, 10), (2, 12), (6, 20)):
        made.observe(epoch, offset)
    return made


def test_the_end_of_an_epoch_is_where_the_next_begins() -> None:
    made = epochs()
    assert made.end_of(1, 30) == (1, 10)
    assert made.end_of(2, 30) == (1, 10)
    assert made.end_of(3, 30) == (3, 20) and made.end_of(5, 30) == (3, 20)
    assert made.end_of(6, 30) == (6, 30)
    assert made.end_of(7, 30) == (-1, -1) and made.end_of(-1, 30) == (-1, -1)
    assert made.end_of(0, 30) == (0, 0)
    assert made.latest == 6 and [made.at_offset(at) for at in (0, 9, 10, 25)] == [1, 1, 3, 6]


def test_an_epoch_that_was_left_without_a_record_gives_way_to_the_next() -> None:
    made = epochs()
    made.observe(7, 30)
    made.observe(9, 30)
    assert made.end_of(7, 30) == (6, 30) and made.end_of(9, 31) == (9, 31)
    assert made.at_offset(30) == 9


def test_cuts_at_both_ends() -> None:
    made = epochs()
    made.cut_end(20)
    assert made.latest == 3
    made.cut_start(12)
    assert made.end_of(1, 15) == (1, 12) and made.at_offset(12) == 3 and made.at_offset(11) == -1


def test_the_file_comes_back_and_a_damaged_one_is_told() -> None:
    files = MemoryFiles()
    made = epochs(files)
    made.save()
    again = Epochs(files, "p")
    assert again.load() and again.end_of(3, 30) == (3, 20)
    content = bytearray(files.read_whole(f"p/{FILE_NAME}") or b"")
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        files.write_whole(f"p/{FILE_NAME}", bytes(flipped))
        if flipped[-1:] != content[-1:]:
            continue
        with pytest.raises(TornSegment):
            again.load()
    assert not Epochs(MemoryFiles(), "p").load()
