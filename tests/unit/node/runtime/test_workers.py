"""Threads beside the loop: outcomes come back to it, in bunches, whatever they are."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from conditions import until
from manual_ports import turns
from penstock.core.errors import CorruptBatch
from penstock.node.runtime.workers import ThreadWorkers, run_blocking


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def workers(runner: asyncio.Runner) -> Iterator[ThreadWorkers]:
    workers = ThreadWorkers(runner.get_loop(), 2)
    yield workers
    workers.close()


def test_work_runs_apart_and_its_outcome_on_the_loop(runner: asyncio.Runner, workers: ThreadWorkers) -> None:
    async def test() -> tuple[int, int]:
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        workers.submit(
            threading.get_ident,
            lambda where: told.set_result((where, threading.get_ident())),  # type: ignore[arg-type, return-value]
        )
        return await told  # type: ignore[return-value]

    apart, here = runner.run(test())
    assert here == threading.get_ident() != apart


def test_what_is_raised_comes_back_as_it_is(runner: asyncio.Runner, workers: ThreadWorkers) -> None:
    async def test() -> None:
        with pytest.raises(ZeroDivisionError):
            await run_blocking(workers, lambda: 1 / 0)
        assert await run_blocking(workers, lambda: 5) == 5, "the thread lives on"

    runner.run(test())


def test_many_outcomes_are_all_handed_over(runner: asyncio.Runner, workers: ThreadWorkers) -> None:
    async def test() -> list[int]:
        return await asyncio.gather(*(run_blocking(workers, lambda n=n: n * n) for n in range(500)))  # type: ignore[misc]

    assert runner.run(test()) == [n * n for n in range(500)]


def test_a_defect_in_one_callback_keeps_no_other_waiting(
    runner: asyncio.Runner, workers: ThreadWorkers
) -> None:
    reported: list[Any] = []

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context["exception"])
        )
        workers.submit(lambda: 0, lambda zero: 1 / zero)  # type: ignore[arg-type, return-value]
        assert await run_blocking(workers, lambda: 5) == 5
        while not reported:
            await asyncio.sleep(0)

    runner.run(test())
    assert [type(one) for one in reported] == [ZeroDivisionError]


def test_who_stopped_waiting_is_left_alone(runner: asyncio.Runner, workers: ThreadWorkers) -> None:
    go = threading.Event()

    async def test() -> None:
        waiting = asyncio.create_task(run_blocking(workers, go.wait))
        await turns()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        go.set()
        assert await run_blocking(workers, lambda: 1) == 1

    runner.run(test())


def test_closing_lets_queued_work_finish(runner: asyncio.Runner) -> None:
    workers = ThreadWorkers(runner.get_loop(), 1)
    done: list[int] = []
    for number in range(20):
        workers.submit(lambda number=number: done.append(number), lambda _: None)  # type: ignore[misc]
    workers.close()
    assert done == list(range(20))


class Large:
    """Something that a piece of work needs much memory for."""


@pytest.mark.parametrize("fails", [True, False])
def test_nothing_of_a_job_stays_in_memory(
    runner: asyncio.Runner, workers: ThreadWorkers, fails: bool
) -> None:
    made: list[weakref.ref[Large]] = []

    def make() -> Large:
        large = Large()
        made.append(weakref.ref(large))
        if fails:
            raise ValueError("at first")
        return large

    def work() -> Large:
        try:
            return make()
        except ValueError:
            raise CorruptBatch("damaged") from None

    async def test() -> list[object]:
        outcomes: list[object] = []
        workers.submit(work, lambda outcome: outcomes.append(str(outcome)))
        while not outcomes:
            await asyncio.sleep(0)
        return outcomes

    gc.disable()
    try:
        (outcome,) = runner.run(test())
        until(lambda: made[0]() is None, "a job that is over still holds memory")
    finally:
        gc.enable()
    assert (outcome == "damaged") is fails
