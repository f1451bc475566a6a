"""A machine of the simulated world with all that a node needs from outside. Never knows what runs on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sim.chance import SimClock, SimRng
from sim.disk import SimDisk, SimFiles
from sim.loop import SimLoop
from sim.net import Farewell
from sim.workers import SimWorkers, WorkerKnobs

T = TypeVar("T")


class Machine:
    """Disk, clock, chance and workers of one named host. The disk and the clock outlive its crashes."""

    def __init__(self, loop: SimLoop, name: str, *, workers: WorkerKnobs | None = None) -> None:
        self._loop = loop
        self.name = name
        self.disk = SimDisk(loop.random_for(f"disk/{name}"))
        self.clock = SimClock(loop)
        self.rng = SimRng(loop.random_for(f"rng/{name}"))
        self.workers = SimWorkers(loop, name, workers)
        self._disks = 1
        self.files: SimFiles = self.disk.mount()
        self._lost_disks: list[SimDisk] = []

    def boot(self, main: Callable[[Machine], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Start the machine, or start it again after a crash, and run `main` on it."""
        if not self.files.alive:
            self.files = self.disk.mount()
        return self._loop.spawn(self.name, main(self), name=f"{self.name}-main")

    def kill(self, farewell: Farewell = Farewell.RESET) -> None:
        """kill -9: the process is gone, all that it wrote is in the page cache."""
        self._loop.net.crash(self.name, farewell)
        self.disk.kill()

    def lose_power(self, farewell: Farewell = Farewell.SILENCE) -> None:
        """Pull the plug: what was not synced is lost, torn or kept by chance."""
        self._loop.net.crash(self.name, farewell)
        self.disk.crash()

    def lose_disk(self, farewell: Farewell = Farewell.SILENCE) -> None:
        """An empty disk is there in the place of this one."""
        self.lose_power(farewell)
        self._disks += 1
        self._lost_disks.append(self.disk)
        self.disk = SimDisk(self._loop.random_for(f"disk/{self.name}/{self._disks}"))

    def find_disk(self) -> None:
        """An operator has found the disk that was lost last. The process has ended."""
        assert not self.files.alive
        self.disk = self._lost_disks.pop()

    def interrupt_at(self, operation: int, *, power: bool = True) -> None:
        """Lose power, or be killed, in the middle of the n-th disk operation from now on."""
        self.disk.interrupt_at(operation, self.lose_power if power else self.kill)
