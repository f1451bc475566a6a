"""An index that a killed start had cut must stay cut: entries of batches that were replaced may not come back."""

from __future__ import annotations

import random

from log_samples import DIRECTORY, append, opaque_batch, reopen, sync
from sim.disk import SimDisk
from sim.platter import Content

INDEX = f"{DIRECTORY}/{0:020d}.index"


def test_a_cut_that_was_not_flushed_is_flushed_by_the_next_start() -> None:
    disk = SimDisk(random.Random(1))
    files = disk.mount()
    log, _ = reopen(files)
    for number in range(4):
        append(log, opaque_batch(1, bytes([number]) * 50, time_ms=number))
    log.roll(0)
    sync(log)
    files.open(INDEX).sync()
    files.sync_dir(DIRECTORY)
    files.open(INDEX).truncate(0)
    disk.kill()

    reopen(disk.mount())
    index = disk.tree.find(INDEX)
    assert isinstance(index, Content)
    assert bytes(index.durable) == b""
