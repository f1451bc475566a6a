"""Callbacks that wait for an offset: in their order, once each, and one timer for all of them."""

from __future__ import annotations

import asyncio

from manual_ports import Waiter, run, simulate
from penstock.core.errors import BrokerError, NotLeader, TimedOut
from penstock.node.replicas.offset_waits import EXPIRY_STEP_S, OffsetWaits
from sim.machine import Machine


def test_they_are_called_in_their_order_and_no_sooner() -> None:
    async def test() -> None:
        waits, called = OffsetWaits("orders-0", "flushed"), list[int]()
        for offset in (1, 2, 2, 5):
            waits.add(offset, lambda _, offset=offset: called.append(offset), 0)  # type: ignore[misc]
        waits.settle(1)
        assert called == [1]
        waits.settle(4)
        assert called == [1, 2, 2] and len(waits.pending) == 1

    run(test)


def test_one_that_is_called_may_wait_again() -> None:
    async def test() -> None:
        waits, again = OffsetWaits("orders-0", "flushed"), Waiter()
        waits.add(1, lambda _: waits.add(2, again, 0), 0)
        waits.settle(1)
        assert not again.outcomes
        waits.settle(2)
        assert again.is_acknowledged

    run(test)


def test_those_behind_an_offset_fail_and_the_others_wait_on() -> None:
    async def test() -> None:
        waits, kept, gone = OffsetWaits("orders-0", "flushed"), Waiter(), Waiter()
        waits.add(3, kept, 0)
        waits.add(4, gone, 0)
        error = NotLeader("moved")
        waits.fail(error, 3)
        assert (kept.outcomes, gone.outcomes) == ([], [error])
        waits.fail(error)
        assert kept.outcomes == [error] and not waits.pending

    run(test)


def test_a_failure_inside_a_call_tells_everybody_once() -> None:
    async def test() -> None:
        waits, first, second, third = OffsetWaits("orders-0", "flushed"), Waiter(), Waiter(), Waiter()
        gone = NotLeader("gone")
        waits.add(1, lambda _: waits.fail(gone), 0)
        for offset, waiter in ((2, first), (3, second), (4, third)):
            waits.add(offset, waiter, 0)
        waits.settle(3)
        assert [waiter.outcomes for waiter in (first, second, third)] == [[gone]] * 3

    run(test)


def test_each_times_out_at_its_own_deadline() -> None:
    async def test(machine: Machine) -> None:
        loop = asyncio.get_running_loop()
        waits, ended = OffsetWaits("orders-0", "committed"), dict[int, float]()
        started_s = loop.time()

        def ends(number: int) -> None:
            def settled(error: BrokerError | None) -> None:
                assert isinstance(error, TimedOut) and "committed" in str(error)
                ended[number] = loop.time() - started_s

            waits.add(9, settled, number)

        for timeout_ms in (500, 20, 300, 300_000):
            ends(timeout_ms)
        await asyncio.sleep(1)
        assert list(ended) == [20, 300, 500]
        assert all(0 <= at_s - number / 1000 <= 2 * EXPIRY_STEP_S for number, at_s in ended.items())
        waits.close()

    simulate(test)


def test_what_is_settled_in_time_needs_no_timer_of_its_own() -> None:
    async def test() -> None:
        loop, armed = asyncio.get_running_loop(), list[float]()
        waits = OffsetWaits("orders-0", "flushed")
        arm = loop.call_at
        loop.call_at = lambda at, *rest, **more: armed.append(at) or arm(at, *rest, **more)  # type: ignore[assignment, method-assign, func-returns-value]
        for offset in range(1, 1_001):
            waits.add(offset, lambda _: None, 30_000)
            waits.settle(offset)
        assert len(armed) == 1
        waits.close()

    run(test)
