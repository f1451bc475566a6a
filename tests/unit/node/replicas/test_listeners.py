"""Listeners are called once per turn of the loop, in the order in which they came."""

from __future__ import annotations

from manual_ports import run, turns
from penstock.node.replicas.listeners import Listeners


def test_many_changes_in_one_turn_are_one_call_each() -> None:
    async def test() -> None:
        listeners, called = Listeners(), list[str]()
        first, second = (lambda: called.append("first")), (lambda: called.append("second"))
        listeners.add(first)
        listeners.add(second)
        for _ in range(3):
            listeners.notify_soon()
        assert called == []
        await turns()
        assert called == ["first", "second"]
        listeners.remove(first)
        listeners.remove(first)
        listeners.notify_soon()
        await turns()
        assert called == ["first", "second", "second"]

    run(test)


def test_a_listener_may_leave_while_it_is_called() -> None:
    async def test() -> None:
        listeners, called = Listeners(), list[int]()

        def once() -> None:
            called.append(1)
            listeners.remove(once)

        listeners.add(once)
        listeners.notify()
        listeners.notify()
        assert called == [1] and not listeners.listening

    run(test)
