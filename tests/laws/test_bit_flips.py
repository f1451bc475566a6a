"""Flip one bit anywhere in a segment: recovery cuts it, the start refuses it or the read does; it is never served."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_samples import DIRECTORY, append, opaque_batch, reopen, sync
from penstock.core.errors import CorruptBatch, Damaged, TornSegment
from penstock.core.log.log import Log
from penstock.node.runtime.memory import MemoryFiles

BATCHES = 40
EPOCH_AT = range(12, 16)


def written(saved_at: int) -> tuple[MemoryFiles, list[bytes], int]:
    """Some segments; the state was saved and synced before batch `saved_at`, which is the recovery point."""
    files = MemoryFiles()
    log, _ = reopen(files)
    batches: list[bytes] = []
    recovery_offset = 0
    for number in range(BATCHES):
        if number == saved_at:
            recovery_offset = log.end_offset
            log.save_state()
        batch = opaque_batch(1 + number % 3, bytes([number]) * (number * 7 % 90), time_ms=number)
        append(log, batch, epoch=number // 15)
        batches.append(bytes(batch))
    sync(log)
    log.close()
    return files, batches, recovery_offset


def serve(log: Log) -> list[bytes]:
    """Everything that a reader gets, batch by batch; stops where the log refuses."""
    served: list[bytes] = []
    offset = log.start_offset
    while (found := log.read(offset, 300, log.high_watermark_mark)) is not None:
        raw = found.read()
        while raw:
            size = int.from_bytes(raw[8:12]) + 12
            served.append(raw[:size])
            offset = int.from_bytes(raw[:8]) + int.from_bytes(raw[23:27]) + 1
            raw = raw[size:]
    return served


def test_an_epoch_that_descends_from_one_segment_to_the_next_is_damage() -> None:
    files, _, _ = written(BATCHES)
    last = f"{DIRECTORY}/{max(name for name in files.names(DIRECTORY) if name.endswith('.log'))}"
    content = bytearray(files.read_whole(last) or b"")
    assert int.from_bytes(content[12:16]) == (BATCHES - 1) // 15 > 0
    content[12:16] = (0).to_bytes(4)
    files.write_whole(last, bytes(content))
    with pytest.raises(TornSegment, match="leader epoch 0, a batch before it 2"):
        reopen(files)


@settings(max_examples=400, deadline=None)
@given(st.data(), st.integers(0, BATCHES - 1))
def test_a_flipped_bit_is_never_served(data: st.DataObject, saved_at: int) -> None:
    files, batches, recovery_offset = written(saved_at)
    names = [
        name for name in files.names(DIRECTORY) if name.endswith(".log") and files.size(f"{DIRECTORY}/{name}")
    ]
    path = f"{DIRECTORY}/{data.draw(st.sampled_from(names))}"
    content = bytearray(files.read_whole(path) or b"")
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    files.write_whole(path, bytes(content))
    try:
        log, words = reopen(files, recovery_offset=recovery_offset)
        sync(log)
        served = serve(log)
    except Damaged:
        return  # it was found out, and nothing behind it was handed out as if it were whole
    assert served == batches[: len(served)] or _only_a_late_epoch_differs(served, batches, saved_at)
    assert len(served) == len(batches) or any("truncated" in one for one in words)
    assert log.end_offset >= recovery_offset


def _only_a_late_epoch_differs(served: list[bytes], batches: list[bytes], saved_at: int) -> bool:
    """An epoch written after the last save, changed to one that its neighbours do not contradict: nothing can tell."""
    differing = [at for at in range(len(served)) if served[at] != batches[at]]
    epochs = [int.from_bytes(one[12:16], signed=True) for one in served]
    assert len(differing) == 1 and differing[0] >= saved_at
    ours, theirs = served[differing[0]], batches[differing[0]]
    return ours[:12] + ours[16:] == theirs[:12] + theirs[16:] and epochs == sorted(epochs)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_before_the_recovery_point_nothing_is_cut(data: st.DataObject) -> None:
    files, _, _ = written(BATCHES)
    log, _ = reopen(files)
    end = log.end_offset
    sync(log)
    log.save_state()
    log.close()
    names = [
        name for name in files.names(DIRECTORY) if name.endswith(".log") and files.size(f"{DIRECTORY}/{name}")
    ]
    path = f"{DIRECTORY}/{data.draw(st.sampled_from(names))}"
    content = bytearray(files.read_whole(path) or b"")
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    files.write_whole(path, bytes(content))
    found_out = False
    try:
        log, words = reopen(files, recovery_offset=end)
        assert words == []
        serve(log)
    except CorruptBatch:
        found_out = True
    assert found_out
    assert files.read_whole(path) == bytes(content)
