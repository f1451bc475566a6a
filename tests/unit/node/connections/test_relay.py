"""A relayed connection: bytes both ways as they are, back-pressure, half-close, limits, and what is logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from penstock.core.errors import BrokerError
from penstock.core.model import Address
from penstock.node.connections import relay as relay_module
from penstock.node.connections.connection import Connection
from penstock.node.connections.framing import LengthPrefixedOrHttp2
from penstock.node.connections.gate import Gate
from penstock.node.connections.listener import Listener
from penstock.node.connections.relay import ByteRelay
from penstock.node.runtime.meters import Meters
from penstock.node.runtime.tasks import Tasks
from penstock.node.settings import Settings
from penstock.wire.foreign_protocol import HTTP2_PREFACE

SECONDS_MAX = 60
ANY_PORT = Address("127.0.0.1", 0)
MUCH = bytes(range(256)) * (1 << 16)
"""16 MiB: more than sockets and transports buffer."""


class Door:
    """A dialect that relays every connection whose first frame is the preface."""

    name = "kafka"
    framing = LengthPrefixedOrHttp2()
    answers_after_end = False

    def __init__(self) -> None:
        self.service = ANY_PORT
        self.tasks = Tasks()
        self.frames: list[bytes] = []
        self._connection: Connection

    def open(self, connection: Connection) -> Door:
        self._connection = connection
        return self

    def handle(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        if HTTP2_PREFACE.endswith(frame):
            ByteRelay(self._connection, self.service, HTTP2_PREFACE, self.tasks)

    def closing_reply(self, error: BrokerError) -> Sequence[bytes]:
        return ()

    def release_waiting(self) -> None:
        """Nothing waits."""


class Service:
    """The service behind the relay: a socket server whose connections the test holds."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.accepted.put((reader, writer))

    async def open(self) -> Address:
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return Address("127.0.0.1", self.server.sockets[0].getsockname()[1])


class World:
    """A listener, a service behind it, and clients."""

    def __init__(self, settings: Settings) -> None:
        self.meters = Meters()
        self.gate = Gate(settings, self.meters)
        self.door = Door()
        self.service = Service()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[World]:
        listener = Listener(self.gate, ANY_PORT, lambda: self.door)
        self.address = await listener.open()
        await listener.serve()
        self.gate.watch()
        self.door.service = await self.service.open()
        yield self
        listener.close()
        await self.gate.drain()
        await self.door.tasks.stop()
        self.service.server.close()
        await self.until(lambda: not self.gate.connections)

    async def client(self, first: bytes = HTTP2_PREFACE) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(first)
        return reader, writer

    async def until(self, what: Callable[[], object]) -> None:
        while not what():
            await asyncio.sleep(0.001)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Runs a test in a world of these settings, on either event loop."""

    def run(test: Callable[[World], Awaitable[None]], **settings: Any) -> None:
        async def main() -> None:
            async with (
                asyncio.timeout(SECONDS_MAX),
                World(replace(Settings(), **settings)).running() as world,
            ):
                await test(world)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main())

    return run


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_bytes_pass_in_both_directions_behind_a_preface_that_arrives_byte_by_byte(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: World) -> None:
        reader, writer = await world.client(b"")
        for byte in HTTP2_PREFACE:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        theirs, back = await world.service.accepted.get()
        assert await theirs.readexactly(len(HTTP2_PREFACE)) == HTTP2_PREFACE
        back.write(b"settings")
        assert await reader.readexactly(8) == b"settings"
        writer.write(b"headers")
        assert await theirs.readexactly(7) == b"headers"
        assert world.meters.door("kafka").connections == 1 and len(world.gate.connections) == 1
        writer.close()
        assert await theirs.read() == b""
        back.close()
        await world.until(lambda: not world.gate.connections)
        assert world.meters.door("kafka").connections == 0

    play(test)
    assert warnings(caplog) == []


def test_frames_before_and_behind_are_told_apart(play: Callable[..., None]) -> None:
    async def test(world: World) -> None:
        _, writer = await world.client(b"\0\0\0\2ab" + b"\0\0\0\1c")
        await world.until(lambda: world.door.frames == [b"ab", b"c"])
        assert world.service.accepted.empty()
        writer.close()

    play(test)


def test_what_came_with_the_preface_goes_with_it(play: Callable[..., None]) -> None:
    async def test(world: World) -> None:
        _, writer = await world.client(HTTP2_PREFACE + b"\0\0\0\2ab")
        theirs, back = await world.service.accepted.get()
        assert await theirs.readexactly(30) == HTTP2_PREFACE + b"\0\0\0\2ab"
        for one in (writer, back):
            one.close()

    play(test)


@pytest.mark.parametrize("first", ["client", "service"])
def test_a_side_that_ends_still_gets_what_the_other_sends(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture, first: str
) -> None:
    async def test(world: World) -> None:
        client = await world.client()
        service = await world.service.accepted.get()
        await service[0].readexactly(len(HTTP2_PREFACE))
        (reader, writer), (theirs, back) = (client, service) if first == "client" else (service, client)
        writer.write(b"last")
        writer.write_eof()
        assert await theirs.read() == b"last"
        back.write(MUCH)
        back.write_eof()
        assert await reader.read() == MUCH
        await world.until(lambda: not world.gate.connections)
        for one in (writer, back):
            one.close()

    play(test)
    assert len(warnings(caplog)) == (1 if first == "service" else 0)


@pytest.mark.parametrize("slow", ["client", "service"])
def test_a_side_that_does_not_read_holds_the_other(play: Callable[..., None], slow: str) -> None:
    async def test(world: World) -> None:
        client = await world.client()
        service = await world.service.accepted.get()
        await service[0].readexactly(len(HTTP2_PREFACE))
        (_, writer), (theirs, _) = (client, service) if slow == "service" else (service, client)
        passed = 0

        async def write() -> None:
            nonlocal passed
            for start in range(0, len(MUCH), 1 << 16):
                writer.write(MUCH[start : start + (1 << 16)])
                await writer.drain()
                passed += 1 << 16

        task = asyncio.create_task(write())
        before = -1
        while passed > before:  # until a whole interval passes without progress
            before = passed
            await asyncio.sleep(0.2)
        assert passed < len(MUCH), "the writer is held"
        assert await theirs.readexactly(len(MUCH)) == MUCH
        await task
        for one in (client[1], service[1]):
            one.close()

    play(test)


def test_no_service_closes_the_client_with_one_log_line(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: World) -> None:
        world.service.server.close()
        await world.service.server.wait_closed()
        _, writer = await world.client()
        await world.until(lambda: world.meters.door("kafka").opened)
        await world.until(lambda: not world.gate.connections)
        writer.close()

    play(test)
    assert len(warnings(caplog)) == 1
    assert "cannot be reached" in caplog.text and "grpc_relay" in caplog.text


def test_a_service_that_does_not_answer_is_not_waited_for(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "CONNECT_S_MAX", 0.0)

    async def test(world: World) -> None:
        _, writer = await world.client()
        await world.until(lambda: world.meters.door("kafka").opened and not world.gate.connections)
        writer.close()

    play(test)
    assert "no answer within 0 s" in caplog.text


def test_a_service_that_breaks_off_is_named(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: World) -> None:
        reader, writer = await world.client()
        theirs, back = await world.service.accepted.get()
        await theirs.readexactly(len(HTTP2_PREFACE))
        back.transport.abort()
        assert await reader.read() == b""
        writer.close()
        await world.until(lambda: not world.gate.connections)

    play(test)
    assert len(warnings(caplog)) == 1 and "must connect again" in caplog.text


def test_the_idle_limit_holds_for_relayed_connections(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: World) -> None:
        _, writer = await world.client()
        theirs, back = await world.service.accepted.get()
        assert await theirs.read() == HTTP2_PREFACE, "until the relay ends it"
        for one in (writer, back):
            one.close()

    play(test, idle_ms_max=200)
    assert "idle_ms_max" in caplog.text


@pytest.mark.parametrize("start", [b"PRI ", HTTP2_PREFACE[:-1]])
def test_a_preface_that_does_not_end_is_an_incomplete_request(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture, start: bytes
) -> None:
    async def test(world: World) -> None:
        _, writer = await world.client(start)
        await world.until(lambda: world.meters.door("kafka").opened and not world.gate.connections)
        assert world.service.accepted.empty()
        writer.close()

    play(test, frame_ms_max=200)
    assert "frame_ms_max" in caplog.text


@pytest.mark.parametrize("start", [b"PRIX", b"PRI * HTTP/1.1\r\n", b"PRI" + bytes(30)])
def test_other_starts_are_refused_as_ever(
    play: Callable[..., None], caplog: pytest.LogCaptureFixture, start: bytes
) -> None:
    async def test(world: World) -> None:
        reader, writer = await world.client(start)
        assert (await reader.read()).startswith(b"HTTP/1.1 400" if start.startswith(b"PRI *") else b"")
        writer.close()
        await world.until(lambda: not world.gate.connections)
        assert world.service.accepted.empty()

    play(test)
    assert len(warnings(caplog)) == 1


def test_a_stopping_broker_closes_relayed_connections(play: Callable[..., None]) -> None:
    async def test(world: World) -> None:
        reader, writer = await world.client()
        theirs, back = await world.service.accepted.get()
        await theirs.readexactly(len(HTTP2_PREFACE))
        await world.gate.drain()
        assert await reader.read() == b"" and await theirs.read() == b""
        for one in (writer, back):
            one.close()

    play(test)
