"""The limits of the door: how many connections, for how long, and how it shuts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from asking import fetch, metadata
from handheld import turns
from in_process import Caller, open_door
from penstock.doors.kafka.server import KafkaDoor
from penstock.node.memory import MemoryFiles
from penstock.node.settings import Settings
from penstock.wire.kafka import ApiKey

from .conftest import SETTINGS, Node


@pytest.fixture
def door_test() -> Iterator[Callable[..., None]]:
    """Runs a test with the door of a node that has these settings."""

    def run(test: Callable[[KafkaDoor], Coroutine[Any, Any, None]], **settings: Any) -> None:
        node = Node(replace(SETTINGS, **settings), MemoryFiles())

        async def main() -> None:
            door = open_door(node.broker)
            await test(door)
            await door.close()
            for connection in list(door._connections):
                connection.connection_lost(None)

        try:
            node.run(main())
        finally:
            node.close()

    yield run


def test_too_many_connections_in_all(
    door_test: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(door: KafkaDoor) -> None:
        callers = [Caller(door) for _ in range(3)]
        assert [caller.is_closed for caller in callers] == [False, False, True]
        await turns()
        await callers[0].hang_up()
        assert not Caller(door).is_closed, "one left, so one may come"

    door_test(test, connections_max=2)
    assert "connections_max" in caplog.text


def test_too_many_connections_from_one_address(
    door_test: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(door: KafkaDoor) -> None:
        callers = [Caller(door) for _ in range(2)]
        assert [caller.is_closed for caller in callers] == [False, True]
        await turns()
        await callers[0].hang_up()
        assert not door._by_address

    door_test(test, connections_per_address_max=1)
    assert "connections_per_address_max" in caplog.text


def test_silent_connections_are_closed_and_busy_ones_are_not(
    door_test: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(door: KafkaDoor) -> None:
        silent, busy = Caller(door), Caller(door)
        silent.connection.active_at -= 20
        door._sweep()
        assert door._sweep_timer is not None
        assert (silent.is_closed, busy.is_closed) == (True, False)
        await turns()

    door_test(test, idle_ms_max=10_000)
    assert "idle_ms_max" in caplog.text


def test_quiet_connections_give_their_large_buffers_back(door_test: Callable[..., None]) -> None:
    async def test(door: KafkaDoor) -> None:
        caller = Caller(door)
        caller.connection._intake.widen()
        assert door._budget._used_bytes > 0
        caller.connection.active_at -= 6
        door._sweep()
        assert door._budget._used_bytes == 0

    door_test(test)


def test_closing_lets_waiting_requests_finish(door_test: Callable[..., None]) -> None:
    async def test(door: KafkaDoor) -> None:
        address = await door.open()
        await door.serve(address)
        caller = Caller(door)
        await caller.ask(ApiKey.METADATA, 12, metadata("orders", create=True))
        caller.send(ApiKey.FETCH, 12, fetch(("orders", 0, 0), wait_ms=60_000))
        closing = asyncio.create_task(door.close())
        assert (await caller.answer()).error_code == 0
        await closing
        assert caller.line.was_closed
        with pytest.raises(OSError):
            await asyncio.open_connection(address.host, address.port)

    door_test(test, port=0)


def test_buffer_sizes_of_the_settings_reach_the_sockets(door_test: Callable[..., None]) -> None:
    async def test(door: KafkaDoor) -> None:
        await door.open()
        assert door._server is not None
        listening = door._server.sockets[0]
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 12_000
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 13_000

    door_test(test, port=0, socket_receive_bytes=12_000, socket_send_bytes=13_000)


def test_a_frame_over_the_limit_ends_the_connection_that_sent_it(door_test: Callable[..., None]) -> None:
    async def test(door: KafkaDoor) -> None:
        caller, other = Caller(door), Caller(door)
        caller.feed((2_001).to_bytes(4, "big"))
        assert (caller.is_closed, other.is_closed) == (True, False)
        await turns()

    door_test(test, frame_bytes_max=2_000)


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
