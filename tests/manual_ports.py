"""The ports of a node under control of the test: a clock that the test sets, workers that it releases.

No time passes and no flush happens unless the test says so.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from log_samples import filled_batch
from penstock.core.errors import BrokerError
from penstock.core.log.log import LogLimits
from penstock.core.log.recovery import open_log
from penstock.core.machines.catalog.events import Topic
from penstock.core.ports import Files
from penstock.core.topic_config import resolve, validate
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from sim import loop as simulation
from sim.chance import SimRng
from sim.disk import SimDisk
from sim.loop import SimLoop
from sim.machine import Machine

T = TypeVar("T")
NOW_MS = 1_750_000_000_000
DIRECTORY = "topics/orders/0"


class SetClock:
    """The time is what was set."""

    def __init__(self) -> None:
        self.ms = NOW_MS

    def now_ms(self) -> int:
        return self.ms


class HeldWorkers:
    """Work waits until the test lets it be done, one piece after the other."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.done = 0

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self.jobs.append((work, done))

    def do_next(self) -> None:
        """Do the oldest piece of work and hand over its outcome."""
        work, done = self.jobs.popleft()
        self.done += 1
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - handed over whole, as the real workers do
            outcome = error
        done(outcome)

    async def do_all(self) -> None:
        """Until nothing is left, with turns of the loop in between for what follows from it."""
        while True:
            await turns()
            if not self.jobs:
                return
            self.do_next()


class PromptWorkers:
    """Every piece of work is done in the next turn of the loop."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self.count += 1
        asyncio.get_running_loop().call_soon(self._perform, work, done)

    def _perform(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        outcome: T | BaseException
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - handed over whole, as the real workers do
            outcome = error
        done(outcome)


async def turns(count: int = 5) -> None:
    """Let everything run that is ready, and what that makes ready."""
    for _ in range(count):
        await asyncio.sleep(0)


class Hand:
    """One disk with its faults, a clock and workers, and a partition over them."""

    def __init__(self, files: Files | None = None, workers: Any = None) -> None:
        self.disk = SimDisk(random.Random(1))
        self.files: Files = files or self.disk.mount()
        self.clock = SetClock()
        self.workers = workers or HeldWorkers()
        self.runtime = Runtime(self.clock, SimRng(random.Random(2)), self.files, self.workers)
        self.words: list[str] = []

    def partition(self, *, recovery_offset: int = 0, leader_epoch: int = 0, **overrides: str) -> Partition:
        """One that this node leads."""
        partition = self.replica(recovery_offset=recovery_offset, **overrides)
        partition.lead(leader_epoch)
        return partition

    def replica(self, *, recovery_offset: int = 0, **overrides: str) -> Partition:
        """A partition without a role, of a topic with these settings; `flush_ms="5"` means flush.ms. Needs a running
        loop."""
        settings = {key.replace("_", "."): value for key, value in overrides.items()}
        config = resolve({key: validate(key, value) for key, value in settings.items()}, {})
        limits = LogLimits(config.segment_bytes, config.segment_ms, config.index_interval_bytes)
        log = open_log(
            self.files,
            DIRECTORY,
            limits,
            recovery_offset=recovery_offset,
            now_ms=self.clock.ms,
            report=self.words.append,
        )
        return Partition(Topic(bytes(16), "orders", 1), 0, log, config, self.runtime)

    def batch(self, count: int = 1, size: int = 10, **more: int) -> memoryview:
        """A batch of records of about now."""
        return memoryview(filled_batch(count, b"x" * size, **{"time_ms": self.clock.ms, **more}))


class Waiter:
    """Remembers how a promise was settled."""

    def __init__(self) -> None:
        self.outcomes: list[BrokerError | None] = []

    def __call__(self, error: BrokerError | None) -> None:
        self.outcomes.append(error)

    @property
    def is_acknowledged(self) -> bool:
        return self.outcomes == [None]


def append(hand: Hand, partition: Partition, **more: int) -> Waiter:
    """Append a batch and wait for it as a producer does."""
    waiter = Waiter()
    partition.when_committed(partition.append(hand.batch(**more)).end_offset, waiter)
    return waiter


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run one asynchronous test."""
    return asyncio.run(work())


def simulate(work: Callable[[Machine], Coroutine[Any, Any, T]], seed: int = 1) -> T:
    """Run one asynchronous test on a simulated machine, in virtual time."""

    async def main(loop: SimLoop) -> T:
        return await Machine(loop, "broker").boot(work)

    return simulation.run(seed, main)
