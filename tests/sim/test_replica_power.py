"""A follower that appends, truncates and loses power at any moment: what it reported as flushed is there, unchanged.

A sync does its work at one moment and returns at another, as in a thread; truncations and appends fall in between.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from log_samples import filled_batch
from manual_ports import Hand, run, turns
from penstock.core.log.log import Log, SyncPlan
from penstock.core.records.batch import decode_header, stamp
from penstock.node.replicas.partition import Partition
from sim.disk import SimDisk

T = TypeVar("T")
SEEDS = range(150)
FSYNC = {"penstock_durability": "fsync", "segment_bytes": "1024"}


class SlowWorkers:
    """Each piece of work is performed and handed back in two steps."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._performed: deque[tuple[Callable[[Any], None], Any]] = deque()

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self._waiting.append((work, done))

    def perform(self) -> None:
        if self._waiting:
            work, done = self._waiting.popleft()
            self._performed.append((done, work()))

    def hand_back(self) -> None:
        if self._performed:
            done, outcome = self._performed.popleft()
            done(outcome)


class Life:
    """One follower, from its first batch to the loss of power, and what it must still have then."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = SimDisk(random.Random(seed + 1_000_000))
        self.workers = SlowWorkers()
        self.hand = Hand(self.disk.mount(), self.workers)
        self.replica = self.hand.replica(**FSYNC)
        self.epoch = 0
        self.written: list[bytes] = []

    async def live(self) -> None:
        self.replica.follow(self.epoch)
        for _ in range(self.chance.randrange(5, 60)):
            act = self.chance.random()
            if act < 0.4:
                self.append()
            elif act < 0.55:
                self.truncate()
            elif act < 0.75:
                self.workers.perform()
            elif act < 0.95:
                self.workers.hand_back()
            else:
                self.replica.advance_high_watermark(self.replica.flushed_offset)
            await turns()

    def append(self) -> None:
        batch = filled_batch(1, bytes(self.chance.randrange(300)), time_ms=self.hand.clock.ms)
        stamp(batch, self.replica.end_offset, self.epoch)
        self.written.append(bytes(batch))
        self.replica.append_replicated(memoryview(batch))

    def truncate(self) -> None:
        """A new leader has another log behind what is committed."""
        self.epoch += 1
        self.replica.follow(self.epoch)
        self.replica.truncate(self.chance.randint(self.replica.high_watermark, self.replica.end_offset))
        del self.written[self.replica.end_offset :]

    def lose_power(self) -> list[bytes]:
        """What is found afterwards, from the recovery point that the follower may have saved."""
        recovery_offset = self.replica.recovery_point
        self.disk.crash()
        again = Hand(self.disk.mount()).replica(recovery_offset=recovery_offset, **FSYNC)
        return batches_in(again)


def batches_in(replica: Partition) -> list[bytes]:
    segments = replica.log.segments
    return [bytes(one.raw) for segment in segments for one in segment.walk(0, segment.size, verify=True)]


def check(seed: int) -> None:
    async def test() -> None:
        life = Life(seed)
        await life.live()
        flushed = life.replica.flushed_offset
        assert flushed <= life.replica.end_offset == len(life.written)
        found = life.lose_power()
        assert found[:flushed] == life.written[:flushed]
        assert [decode_header(one).base_offset for one in found] == list(range(len(found)))

    run(test)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_reported_as_flushed_survives(seed: int) -> None:
    check(seed)


def test_a_sync_that_counts_in_spite_of_a_truncation_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def mark_synced(self: Log, plan: SyncPlan) -> None:
        self.synced_offset = max(self.synced_offset, plan.end_offset)

    monkeypatch.setattr(Log, "mark_synced", mark_synced)
    with pytest.raises(AssertionError):
        for seed in SEEDS:
            check(seed)
