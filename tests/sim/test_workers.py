"""Work runs off the loop, later; a crash may fall before it or between it and its answer."""

from __future__ import annotations

import asyncio

from sim.loop import SimLoop, run
from sim.workers import SimWorkers, WorkerKnobs


def test_the_result_or_the_exception_arrives_later() -> None:
    async def main(loop: SimLoop) -> tuple[list[object], bool]:
        workers, got = SimWorkers(loop, "node"), []
        workers.submit(lambda: 6 * 7, got.append)
        at_once = bool(got)
        await asyncio.sleep(2)
        workers.submit(lambda: [][1], got.append)
        await asyncio.sleep(2)
        return got, at_once

    got, at_once = run(1, main)
    assert got[0] == 42
    assert isinstance(got[1], IndexError)
    assert not at_once


def test_pieces_of_work_overtake_each_other() -> None:
    async def main(loop: SimLoop) -> list[int]:
        workers, got = SimWorkers(loop, "node"), []
        for number in range(20):
            workers.submit(lambda number=number: number, got.append)
        await asyncio.sleep(2)
        return got

    got = run(1, main)
    assert sorted(got) == list(range(20))
    assert got != sorted(got)


def test_a_crash_leaves_nothing_or_only_the_work() -> None:
    async def main(loop: SimLoop) -> tuple[str, ...]:
        seen: list[str] = []
        workers = SimWorkers(loop, "a", WorkerKnobs(delay_s_min=0, delay_s_max=1, slow_chance=0))

        async def submit() -> None:
            workers.submit(lambda: seen.append("work"), lambda _: seen.append("done"))

        await loop.spawn("a", submit())
        await asyncio.sleep(0.7)
        loop.net.crash("a")
        await asyncio.sleep(10)
        return tuple(seen)

    outcomes = {run(seed, main) for seed in range(40)}
    assert outcomes == {(), ("work",), ("work", "done")}
