"""The simulated loop keeps asyncio's promises, and its own: virtual time, seeded order, loud failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sim.chance import START_MS, SimClock, SimRng
from sim.loop import Order, SimLoop, Stuck, run


def test_an_hour_passes_without_waiting() -> None:
    async def main(loop: SimLoop) -> float:
        await asyncio.sleep(3_500)
        return loop.time()

    assert run(1, main) == 3_500


def test_timers_fire_in_order_and_cancelled_ones_do_not_move_time() -> None:
    async def main(loop: SimLoop) -> tuple[list[str], float]:
        seen: list[str] = []
        for name, delay in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
            loop.call_later(delay, seen.append, name)
        loop.call_later(2.5, seen.append, "never").cancel()
        await asyncio.sleep(3.0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 1.5)
        return seen, loop.time()

    assert run(1, main) == (["a", "b", "c"], 4.5)


async def _order_of_twenty(loop: SimLoop) -> list[tuple[str, int]]:
    seen: list[tuple[str, int]] = []
    for number in range(10):
        for host in ("left", "right"):
            loop.call_soon(seen.append, (host, number), context=loop.host(host).context())
    await asyncio.sleep(1)
    return seen


def test_fifo_is_the_order_of_asyncio() -> None:
    assert run(1, _order_of_twenty, order=Order.FIFO) == [
        (host, number) for number in range(10) for host in ("left", "right")
    ]


def test_hosts_interleave_but_each_keeps_its_order() -> None:
    runs = [run(seed, _order_of_twenty) for seed in range(10)]
    for seen in runs:
        for host in ("left", "right"):
            assert [number for name, number in seen if name == host] == list(range(10))
    assert len({tuple(seen) for seen in runs}) == 10


def test_any_order_breaks_even_the_order_on_one_host() -> None:
    seen = run(1, _order_of_twenty, order=Order.ANY)
    assert [number for name, number in seen if name == "left"] != list(range(10))
    assert sorted(seen) == [(host, number) for host in ("left", "right") for number in range(10)]


def test_a_deadlock_names_each_task_and_where_it_waits() -> None:
    async def wait_for_godot() -> None:
        await asyncio.Event().wait()

    async def main(loop: SimLoop) -> None:
        await loop.spawn("theatre", wait_for_godot(), name="estragon")

    with pytest.raises(Stuck) as caught:
        run(77, main)
    text = str(caught.value)
    assert "deadlock" in text
    assert "theatre: estragon at locks.py:" in text
    assert "root: main at test_loop.py:" in text
    assert any("seed 77" in note for note in caught.value.__notes__)


def test_a_run_that_spins_or_never_ends_is_stuck() -> None:
    async def spin(_: SimLoop) -> None:
        while True:
            await asyncio.sleep(0)

    async def tick(_: SimLoop) -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(Stuck, match="still busy after 1000 steps"):
        SimLoop(1, run_steps_max=1_000).run(spin)
    with pytest.raises(Stuck, match=r"still running after 60\.0 s"):
        SimLoop(1, run_s_max=60.0).run(tick)


def test_an_exception_in_a_callback_ends_the_run() -> None:
    async def main(loop: SimLoop) -> None:
        loop.call_later(1, lambda: 1 // 0)
        await asyncio.sleep(10)

    with pytest.raises(ZeroDivisionError):
        run(1, main)


def test_an_exception_that_nobody_awaits_ends_the_run() -> None:
    async def fail() -> None:
        raise LookupError("nobody looked")

    async def main(loop: SimLoop) -> None:
        loop.spawn("a", fail())
        await asyncio.sleep(10)

    with pytest.raises(LookupError, match="nobody looked"):
        run(1, main)


def test_the_exception_of_main_is_the_exception_of_the_run() -> None:
    async def main(_: SimLoop) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(1, main)


def test_a_crash_runs_no_finally_and_no_timer_of_the_host() -> None:
    seen: list[str] = []

    async def victim(loop: SimLoop) -> None:
        loop.call_later(2, seen.append, "timer of the dead")
        try:
            seen.append("started")
            await asyncio.sleep(5)
            seen.append("woke")
        finally:
            seen.append("finally")

    async def bystander() -> None:
        await asyncio.sleep(6)
        seen.append("bystander")

    async def main(loop: SimLoop) -> list[str]:
        loop.spawn("a", victim(loop))
        loop.spawn("b", bystander())
        await asyncio.sleep(1)
        loop.net.crash("a")
        await asyncio.sleep(9)
        return list(seen)

    assert run(1, main) == ["started", "bystander"]


def test_the_next_life_of_a_host_runs_and_a_future_cannot_wake_the_last_one() -> None:
    seen: list[str] = []

    async def wait(future: asyncio.Future[None], life: str) -> None:
        await future
        seen.append(life)

    async def main(loop: SimLoop) -> list[str]:
        future = loop.create_future()
        loop.spawn("a", wait(future, "first"))
        await asyncio.sleep(1)
        loop.net.crash("a")
        loop.spawn("a", wait(future, "second"))
        await asyncio.sleep(1)
        future.set_result(None)
        await asyncio.sleep(1)
        assert loop.host("a").life == 1
        return seen

    assert run(1, main) == ["second"]


def test_asyncio_primitives_work() -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(10):
            await asyncio.sleep(0.1)
            yield number

    async def put(queue: asyncio.Queue[int]) -> None:
        async for number in numbers():
            await queue.put(number)
            if number == 5:
                break

    async def main(loop: SimLoop) -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        async with asyncio.TaskGroup() as group, asyncio.timeout(5):
            group.create_task(put(queue))
            return [await queue.get() for _ in range(6)]

    for order in Order:
        assert run(3, main, order=order) == [0, 1, 2, 3, 4, 5]


def test_clock_and_chance_come_from_the_loop() -> None:
    async def main(loop: SimLoop) -> tuple[list[int], bytes, list[int]]:
        clock, rng = SimClock(loop), SimRng(loop.random_for("node"))
        times = [clock.now_ms()]
        await asyncio.sleep(1.5)
        times.append(clock.now_ms())
        clock.skew_ms = -1_000
        times.append(clock.now_ms())
        return times, rng.bytes(4), [rng.below(10) for _ in range(50)]

    times, some, below = run(5, main)
    assert times == [START_MS, START_MS + 1_500, START_MS + 500]
    assert (len(some), min(below), max(below)) == (4, 0, 9)
    assert run(5, main) == (times, some, below)
    assert run(6, main)[1:] != (some, below)


def test_a_paused_process_stands_still_and_then_finds_everything_due() -> None:
    async def tick(seen: list[float], loop: SimLoop) -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(loop.time())

    async def main(loop: SimLoop) -> tuple[list[float], list[float]]:
        paused, other = list[float](), list[float]()
        loop.spawn("paused", tick(paused, loop))
        loop.spawn("other", tick(other, loop))
        await asyncio.sleep(2.5)
        loop.pause("paused")
        await asyncio.sleep(4)
        loop.resume("paused")
        assert loop.host("paused").resumed_s == loop.time()
        await asyncio.sleep(1.2)
        return paused, other

    assert run(1, main) == ([1, 2, 6.5, 7.5], [1, 2, 3, 4, 5, 6, 7])


def test_a_process_that_dies_while_it_is_paused_never_goes_on() -> None:
    async def main(loop: SimLoop) -> list[int]:
        seen = list[int]()

        async def speak() -> None:
            await asyncio.sleep(1)
            seen.append(1)

        loop.spawn("host", speak())
        await asyncio.sleep(0.5)
        loop.pause("host")
        await asyncio.sleep(1)
        loop.net.crash("host")
        loop.host("host")
        await asyncio.sleep(5)
        return seen

    assert run(1, main) == []


def test_a_run_without_a_trace_is_the_same_run() -> None:
    assert run(3, _order_of_twenty, is_traced=False) == run(3, _order_of_twenty)
