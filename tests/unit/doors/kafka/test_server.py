"""The limits that a client of the Kafka door meets: how many connections, for how long, and how the doors shut."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from in_process_client import Caller, open_doors
from manual_ports import turns
from penstock.apps.doorways import KAFKA, Doorways
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.settings import Settings
from penstock.wire.kafka import ApiKey
from request_builders import fetch, metadata

from .conftest import SETTINGS, Node


@pytest.fixture
def doors_test() -> Iterator[Callable[..., None]]:
    """Runs a test with the doors of a node that has these settings."""

    def run(test: Callable[[Doorways], Coroutine[Any, Any, None]], **settings: Any) -> None:
        node = Node(replace(SETTINGS, **settings), MemoryFiles())

        async def main() -> None:
            doors = open_doors(node.broker)
            await test(doors)
            await doors.close()
            for connection in list(doors.gate.connections):
                connection.connection_lost(None)

        try:
            node.run(main())
        finally:
            node.close()

    yield run


def test_too_many_connections_in_all(
    doors_test: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(doors: Doorways) -> None:
        callers = [Caller(doors) for _ in range(3)]
        assert [caller.is_closed for caller in callers] == [False, False, True]
        await turns()
        await callers[0].hang_up()
        assert not Caller(doors).is_closed, "one left, so one may come"

    doors_test(test, connections_max=2)
    assert "connections_max" in caplog.text


def test_too_many_connections_from_one_address(
    doors_test: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(doors: Doorways) -> None:
        callers = [Caller(doors) for _ in range(2)]
        assert [caller.is_closed for caller in callers] == [False, True]
        await turns()
        await callers[0].hang_up()
        assert not doors.gate._by_address

    doors_test(test, connections_per_address_max=1)
    assert "connections_per_address_max" in caplog.text


def test_silent_connections_are_closed_and_busy_ones_are_not(
    doors_test: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(doors: Doorways) -> None:
        silent, busy = Caller(doors), Caller(doors)
        silent.connection.active_at -= 20
        doors.gate._sweep()
        assert doors.gate._sweep_timer is not None
        assert (silent.is_closed, busy.is_closed) == (True, False)
        await turns()

    doors_test(test, idle_ms_max=10_000)
    assert "idle_ms_max" in caplog.text


def test_quiet_connections_give_their_large_buffers_back(doors_test: Callable[..., None]) -> None:
    async def test(doors: Doorways) -> None:
        caller = Caller(doors)
        caller.connection._intake.widen()
        assert doors.gate.budget._used_bytes > 0
        caller.connection.active_at -= 6
        doors.gate._sweep()
        assert doors.gate.budget._used_bytes == 0

    doors_test(test)


def test_closing_lets_waiting_requests_finish(doors_test: Callable[..., None]) -> None:
    async def test(doors: Doorways) -> None:
        address = (await doors.open())[KAFKA]
        await doors.serve(address)
        caller = Caller(doors)
        await caller.ask(ApiKey.METADATA, 12, metadata("orders", create=True))
        caller.send(ApiKey.FETCH, 12, fetch(("orders", 0, 0), wait_ms=60_000))
        closing = asyncio.create_task(doors.close())
        assert (await caller.answer()).error_code == 0
        await closing
        assert caller.line.was_closed
        with pytest.raises(OSError):
            await asyncio.open_connection(address.host, address.port)

    doors_test(test, port=0)


def test_buffer_sizes_of_the_settings_reach_the_sockets(doors_test: Callable[..., None]) -> None:
    async def test(doors: Doorways) -> None:
        await doors.open()
        server = doors.listeners[KAFKA]._server
        assert server is not None
        listening = server.sockets[0]
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 12_000
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 13_000

    doors_test(test, port=0, socket_receive_bytes=12_000, socket_send_bytes=13_000)


def test_a_frame_over_the_limit_ends_the_connection_that_sent_it(doors_test: Callable[..., None]) -> None:
    async def test(doors: Doorways) -> None:
        caller, other = Caller(doors), Caller(doors)
        caller.feed((2_001).to_bytes(4, "big"))
        assert (caller.is_closed, other.is_closed) == (True, False)
        await turns()

    doors_test(test, frame_bytes_max=2_000)


def test_the_default_limits_are_all_limits() -> None:
    settings = Settings()
    for name in (
        "connections_max",
        "frame_bytes_max",
        "inflight_bytes_max",
        "requests_in_flight_max",
        "idle_ms_max",
    ):
        assert 0 < getattr(settings, name) < 2**31
    assert settings.frame_bytes_max <= settings.inflight_bytes_max
