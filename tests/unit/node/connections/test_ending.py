"""How a connection ends well: last words that arrive, answers to a client that sends no more, and pushes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from in_process_client import Line
from manual_ports import turns
from penstock.core.errors import BrokerError, Malformed
from penstock.core.model import Address
from penstock.node.connections import connection as connection_module
from penstock.node.connections.connection import Connection
from penstock.node.connections.framing import Framing, LengthPrefixed, Unframed
from penstock.node.connections.gate import Gate
from penstock.node.connections.listener import Listener
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.settings import Settings

SECONDS_MAX = 30
ANY_PORT = Address("127.0.0.1", 0)


class Echo:
    """A dialect: `frame` is answered with itself, `later` when told, `bad` ends the connection, `bye` politely."""

    name = "echo"
    answers_after_end = True

    def __init__(self, framing: Framing | None = None) -> None:
        self.framing: Framing = framing or LengthPrefixed()
        self.connections: list[Connection] = []
        self.slots: list[ReplySlot] = []
        self.seen: list[bytes] = []
        self.released = 0

    def open(self, connection: Connection) -> Echo:
        self.connections.append(connection)
        return self

    def handle(self, frame: memoryview) -> None:
        connection = self.connections[-1]
        content = bytes(frame)
        self.seen.append(content)
        if content == b"later":
            self.slots.append(connection.reserve())
        elif content == b"in turn":
            connection.turns.in_turn(lambda slot: slot.answer([b"turn."]))
        elif content == b"bad":
            raise Malformed("bad it is")
        elif content == b"bye":
            connection.answer([b"bye."])
            connection.finish()
        else:
            connection.answer([content])

    def closing_reply(self, error: BrokerError) -> Sequence[bytes]:
        return [f"error: {error}.".encode()]

    def release_waiting(self) -> None:
        self.released += 1


def frames(*contents: bytes) -> bytes:
    return b"".join(len(one).to_bytes(4, "big") + one for one in contents)


class Wired:
    """A connection on a line without a socket."""

    def __init__(self, echo: Echo) -> None:
        self.gate = Gate(Settings())
        self.connection = Listener(self.gate, ANY_PORT, lambda: echo).connect()
        self.line = Line(self.connection)
        self.connection.connection_made(self.line)  # type: ignore[arg-type]

    def send(self, content: bytes) -> None:
        room = self.connection.get_buffer(-1)
        room[: len(content)] = content
        self.connection.buffer_updated(len(content))


def test_last_words_come_behind_the_answers_that_are_due() -> None:
    async def test() -> None:
        echo = Echo()
        wired = Wired(echo)
        wired.send(frames(b"later", b"bad", b"never"))
        await turns()
        assert wired.line.sent == b"" and not wired.line.has_ended
        echo.slots[0].answer([b"first."])
        await turns()
        assert wired.line.sent == b"first.error: bad it is." and wired.line.has_ended
        wired.send(frames(b"never"))
        assert echo.seen == [b"later", b"bad"] and not wired.line.was_aborted
        assert wired.connection.eof_received() is False

    asyncio.run(test())


def test_who_does_not_take_the_last_words_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "LINGER_S_MAX", 0.01)

    async def test() -> None:
        wired = Wired(Echo())
        wired.send(frames(b"bad"))
        async with asyncio.timeout(SECONDS_MAX):
            while not wired.connection.is_closed and wired.connection in wired.gate.connections:
                await asyncio.sleep(0.005)
        assert wired.line.was_aborted

    asyncio.run(test())


def test_a_client_that_sends_no_more_still_gets_its_answers() -> None:
    async def test() -> None:
        echo = Echo()
        wired = Wired(echo)
        wired.send(frames(b"later"))
        assert wired.connection.eof_received() is True
        await turns()
        assert not wired.line.was_closed
        echo.slots[0].answer([b"at last."])
        await turns()
        assert wired.line.sent == b"at last." and wired.line.was_closed

    asyncio.run(test())


def test_a_client_that_is_owed_nothing_goes_at_once() -> None:
    async def test() -> None:
        wired = Wired(Echo())
        wired.send(frames(b"x"))
        await turns()
        assert wired.connection.eof_received() is False

    asyncio.run(test())


def test_a_request_in_turn_begins_when_all_before_it_are_answered() -> None:
    async def test() -> None:
        echo = Echo()
        wired = Wired(echo)
        wired.send(frames(b"in turn", b"later", b"in turn", b"in turn", b"x"))
        await turns()
        assert wired.line.sent == b"turn."
        echo.slots[0].answer([b"later."])
        await turns()
        assert wired.line.sent == b"turn.later.turn.turn.x"
        assert wired.connection.is_quiet

    asyncio.run(test())


def test_who_asks_to_be_told_of_the_end_too_late_is_told_at_once() -> None:
    async def test() -> None:
        wired, told = Wired(Echo()), list[int]()
        wired.connection.on_close(lambda: told.append(1))
        wired.line.close()
        await turns()
        wired.connection.on_close(lambda: told.append(2))
        assert told == [1, 2]

    asyncio.run(test())


def test_pushes_stand_in_no_line_and_tell_when_they_have_left() -> None:
    async def test() -> None:
        echo = Echo()
        wired = Wired(echo)
        drained: list[int] = []
        wired.connection.on_drained(lambda: drained.append(wired.connection.waiting_bytes))
        wired.send(frames(b"later"))
        wired.connection.push([b"news."])
        assert wired.connection.waiting_bytes == 5
        await turns()
        assert wired.line.sent == b"news." and drained == [0]
        wired.connection.pause_writing()
        wired.connection.push([b"more."])
        await turns()
        assert wired.connection.waiting_bytes == 5 and drained == [0]
        wired.connection.resume_writing()
        await turns()
        assert wired.line.sent == b"news.more." and drained == [0, 0]

    asyncio.run(test())


def test_unframed_bytes_are_handed_on_as_they_come_and_half_requests_are_timed() -> None:
    async def test() -> None:
        echo = Echo(Unframed())
        wired = Wired(echo)
        wired.send(b"GET /")
        wired.send(b" HTTP/1.1")
        assert echo.seen == [b"GET /", b" HTTP/1.1"]
        now = wired.connection.active_at
        unfinished_s = wired.connection.unfinished_s
        assert [unfinished_s(now + later) for later in (0, 5)] == [0, 0]
        wired.connection.midway = 1
        assert [unfinished_s(now + later) for later in (5, 6, 14)] == [0, 1, 9]
        wired.send(b"more of it")
        assert unfinished_s(now + 15) == 10
        wired.connection.midway = 2
        assert unfinished_s(now + 16) == 0

    asyncio.run(test())


def test_last_words_arrive_although_the_client_had_more_to_say() -> None:
    """Over a real socket: bytes that nobody reads would make the system throw away what was to be sent."""

    async def test() -> None:
        gate = Gate(Settings())
        made: list[Any] = []
        listener = Listener(gate, ANY_PORT, lambda: made.append(1) or Echo())  # type: ignore[func-returns-value]
        address = await listener.open()
        await listener.serve()
        assert made == [], "nobody has come yet"
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(frames(b"hello", b"bad") + bytes(1 << 20))
        async with asyncio.timeout(SECONDS_MAX):
            assert await reader.read() == b"helloerror: bad it is."
        writer.close()
        listener.close()
        assert made == [1] and listener.dialect.released == 1  # type: ignore[attr-defined]
        await gate.drain()

    asyncio.run(test())


def test_half_closed_over_a_real_socket() -> None:
    async def test() -> None:
        gate, echo = Gate(Settings()), Echo()
        listener = Listener(gate, ANY_PORT, lambda: echo)
        address = await listener.open()
        await listener.serve()
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(frames(b"later", b"x"))
        writer.write_eof()
        async with asyncio.timeout(SECONDS_MAX):
            while len(echo.seen) < 2:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            echo.slots[0].answer([b"later."])
            assert await reader.read() == b"later.x"
        writer.close()
        listener.close()
        await gate.drain()

    asyncio.run(test())


def test_a_polite_end_over_a_real_socket() -> None:
    async def test() -> None:
        gate = Gate(Settings())
        listener = Listener(gate, ANY_PORT, Echo)
        address = await listener.open()
        await listener.serve()
        with socket.create_connection(address) as client:
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(client, frames(b"bye", b"x"))
            async with asyncio.timeout(SECONDS_MAX):
                assert await loop.sock_recv(client, 100) == b"bye."
                assert await loop.sock_recv(client, 100) == b""
        listener.close()
        await gate.drain()

    asyncio.run(test())
