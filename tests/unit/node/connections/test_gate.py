"""The gate returns the memory of connections that left, once the last of them has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from in_process_client import Line
from penstock.node.connections import gate as gate_module
from penstock.node.connections.connection import Connection
from penstock.node.connections.gate import DEPARTURES_FEW, DEPARTURES_MANY, Gate
from penstock.node.connections.listener import Listener
from penstock.node.settings import Settings
from unit.node.connections.test_ending import ANY_PORT, Echo


class Sweeping:
    """A gate whose sweeps happen when the test says so, and the number of trims so far."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.trims = 0
        self._due: list[Callable[[], None]] = []
        loop = asyncio.get_running_loop()
        patch.setattr(loop, "call_later", lambda delay, sweep: self._due.append(sweep))
        patch.setattr(gate_module, "trim_heap", self._trim)
        self._gate = Gate(Settings(connections_max=10_000, connections_per_address_max=10_000))
        self._listener = Listener(self._gate, ANY_PORT, Echo)
        self._gate.watch()

    def _trim(self) -> None:
        self.trims += 1

    def come(self, count: int) -> list[Connection]:
        connections = [self._listener.connect() for _ in range(count)]
        for connection in connections:
            line: Any = Line(connection)
            connection.connection_made(line)
        return connections

    def sweep(self) -> int:
        (sweep,), self._due = self._due, []
        sweep()
        return self.trims


def leave(connections: list[Connection]) -> None:
    for connection in connections:
        connection.connection_lost(None)


def test_memory_is_returned_when_the_last_of_many_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        node = Sweeping(monkeypatch)
        first, rest = node.come(DEPARTURES_MANY), node.come(DEPARTURES_MANY - 1)
        assert node.sweep() == 0
        leave(first)
        assert node.sweep() == 0, "more may follow"
        leave(rest)
        assert node.sweep() == 0
        assert node.sweep() == 1
        assert node.sweep() == 1, "once is enough"

    asyncio.run(test())


def test_the_few_that_always_come_and_go_do_not_keep_it_from_happening(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        node = Sweeping(monkeypatch)
        leave(node.come(DEPARTURES_MANY))
        assert node.sweep() == 0
        leave(node.come(DEPARTURES_FEW - 1))
        assert node.sweep() == 1
        leave(node.come(DEPARTURES_FEW))
        assert node.sweep() == node.sweep() == 1

    asyncio.run(test())
