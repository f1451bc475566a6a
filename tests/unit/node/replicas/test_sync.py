"""A sync plan is carried out in its order: content first, then names; what fails stays failed."""

from __future__ import annotations

import asyncio
import random

import pytest

from log_samples import append, opaque_batch, reopen
from manual_ports import Hand, PromptWorkers, run
from penstock.core.errors import DiskFailed, OutOfDescriptors
from penstock.node.replicas.sync import run_sync, sync_log
from sim.disk import SimDisk


def test_content_before_names_and_then_it_survives() -> None:
    disk = SimDisk(random.Random(3))
    log, _ = reopen(disk.mount())
    append(log, opaque_batch())
    plan = log.take_dirty()
    assert plan.files and plan.directories
    run_sync(log.files, plan)
    assert (disk.counters.file_syncs, disk.counters.dir_syncs) == (len(plan.files), len(plan.directories))
    disk.crash()
    assert reopen(disk.mount())[0].end_offset == 1


def test_a_failure_publishes_nothing() -> None:
    async def test() -> None:
        disk = SimDisk(random.Random(3))
        hand = Hand(disk.mount(), PromptWorkers())
        log, _ = reopen(hand.files)
        append(log, opaque_batch())
        disk.fail_sync_at(1)
        with pytest.raises(DiskFailed):
            await sync_log(hand.runtime, log)
        assert log.high_watermark == 0

    run(test)


def test_nothing_dirty_costs_nothing() -> None:
    async def test() -> None:
        hand = Hand(None, PromptWorkers())
        log, _ = reopen(hand.files)
        await sync_log(hand.runtime, log)
        assert hand.workers.count == 0
        append(log, opaque_batch())
        await asyncio.gather(sync_log(hand.runtime, log), sync_log(hand.runtime, log))
        assert hand.workers.count == 1

    run(test)


def test_without_a_descriptor_the_flush_waits_and_then_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk(random.Random(3))
    log, _ = reopen(disk.mount())
    append(log, opaque_batch())
    plan = log.take_dirty()
    sync_dir, refusals, pauses = log.files.sync_dir, [OutOfDescriptors("none left")] * 2, list[float]()

    def scarce(path: str) -> None:
        if refusals:
            raise refusals.pop()
        sync_dir(path)

    monkeypatch.setattr(log.files, "sync_dir", scarce)
    run_sync(log.files, plan, pauses.append)
    assert len(pauses) == 2 and not refusals
    disk.crash()
    assert reopen(disk.mount())[0].end_offset == 1
