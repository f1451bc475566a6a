"""The console over real sockets: greeting, answers, token, limits and bad input."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import wraps

import pytest

from memory_services import TOKEN, MemoryFacts, MemoryServices
from penstock.apps.control.console import Console
from penstock.apps.control.console_server import CONSOLES_MAX, LINE_BYTES_MAX, SETTINGS, console_server
from penstock.apps.control.services import ServiceError
from penstock.core.model import Address
from penstock.node.settings import Settings

WAIT_S = 60.0
PROMPT = b"\n> "
ANY_PORT = Address("127.0.0.1", 0)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def until_prompt(self) -> str:
        found = await asyncio.wait_for(self.reader.readuntil(PROMPT), WAIT_S)
        return found.removesuffix(PROMPT).decode()

    async def ask(self, line: str) -> str:
        self.writer.write(f"{line}\n".encode())
        return await self.until_prompt()

    async def rest(self) -> str:
        return (await asyncio.wait_for(self.reader.read(), WAIT_S)).decode()

    def close(self) -> None:
        self.writer.close()


class Served:
    """A console and its services."""

    def __init__(self, services: MemoryServices, address: Address) -> None:
        self.services, self.address = services, address
        self._clients: list[Client] = []

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection(*self.address))
        self._clients.append(client)
        return client

    async def greeted(self) -> Client:
        client = await self.connect()
        await client.until_prompt()
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()


@asynccontextmanager
async def served(*, token: str | None = TOKEN, settings: Settings = SETTINGS) -> AsyncIterator[Served]:
    services = MemoryServices()
    console = Console(services, MemoryFacts())
    async with console_server(services, ANY_PORT, token=token, console=console, settings=settings) as address:
        found = Served(services, address)
        try:
            yield found
        finally:
            found.close()


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    return run


@in_loop
async def test_a_session() -> None:
    async with served() as at:
        client = await at.connect()
        greeting = await client.until_prompt()
        assert greeting.count("\n") == 0
        assert "8 services" in greeting and "token" in greeting
        assert (await client.ask("status")).splitlines()[0].startswith("service")
        assert json.loads(await client.ask("status --json"))["services"][0]["name"] == "metadata"
        assert "needs the coordinator's token" in await client.ask("broker stop 3")
        assert at.services.done == []
        assert await client.ask(f"token {TOKEN}") == "token accepted"
        assert await client.ask("broker stop 3") == "broker-3: stopped; it is stopped now"
        assert at.services.done == ["stop broker-3"]
        client.writer.write(b"\r\n")
        assert await asyncio.wait_for(client.reader.readexactly(2), WAIT_S) == b"> "
        client.writer.write(b"EXIT\r\n")
        assert await client.rest() == "bye; the cluster runs on\n"
        assert at.services.done == ["stop broker-3"]


@in_loop
async def test_without_a_token_file_no_token_is_needed() -> None:
    async with served(token=None) as at:
        client = await at.connect()
        assert "token" not in await client.until_prompt()
        assert await client.ask("token x") == "no token is needed here"
        await client.ask("producer stop")
        assert at.services.done == ["stop producer"]


@in_loop
async def test_a_wrong_token_ends_the_connection() -> None:
    async with served() as at:
        for line in ("token wrong", "token", f"token {TOKEN} {TOKEN}", f"token {TOKEN.upper()}"):
            client = await at.greeted()
            client.writer.write(f"{line}\nbroker stop 3\n".encode())
            assert await client.rest() == "error: this is not the token; closing the connection\n"
        assert at.services.done == []


@in_loop
async def test_lines_of_a_pipe_are_answered_in_order_after_its_end() -> None:
    async with served() as at:
        client = await at.connect()
        client.writer.write(f"token {TOKEN}\nbroker stop 1\nbroker stop 2\nstatus\nbroker start".encode())
        client.writer.write_eof()
        lines = (await client.rest()).splitlines()
        assert lines[1:4] == [
            "> token accepted",
            "> broker-1: stopped; it is stopped now",
            "> broker-2: stopped; it is stopped now",
        ]
        assert lines[-1] == "> ", "half a line is not run"
        assert at.services.done == ["stop broker-1", "stop broker-2"]


@in_loop
async def test_an_http_request_is_turned_away_and_its_body_is_not_run() -> None:
    async with served(token=None) as at:
        for head in ("POST / HTTP/1.1", "GET /api/v1/status HTTP/1.0", "status HTTP/1.1 HTTP/1.1"):
            client = await at.greeted()
            client.writer.write(f"{head}\r\nHost: x\r\n\r\nbroker stop 3\r\n".encode())
            answer = await client.rest()
            assert answer.startswith("error: ") and "HTTP API" in answer and answer.count("\n") == 1
        assert at.services.done == []


@in_loop
async def test_a_tls_handshake_is_turned_away() -> None:
    async with served() as at:
        client = await at.greeted()
        client.writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert "not TLS" in await client.rest()


@in_loop
async def test_a_long_line_gets_one_error_although_it_is_not_read_to_its_end() -> None:
    async with served(token=None) as at:
        for content in (b"x" * (1 << 20), b"x" * LINE_BYTES_MAX, b"y" * (1 << 20) + b"\nbroker stop 3\n"):
            client = await at.greeted()
            client.writer.write(content)
            answer = await client.rest()
            assert answer == "error: the line is over the limit of 4000 bytes; closing the connection\n"
        client = await at.greeted()
        assert "limit of 1000 characters" in await client.ask("z" * (LINE_BYTES_MAX - 1))
        assert at.services.done == []


@in_loop
async def test_nonsense_and_binary_are_answered() -> None:
    async with served(token=None) as at:
        client = await at.greeted()
        assert "nearest is 'status'" in await client.ask("stauts")
        client.writer.write(bytes(byte for byte in range(256) if byte != 0x0A) + b"\n")
        answer = await client.until_prompt()
        assert answer.startswith("error: ") and answer.isprintable()
        assert (await client.ask("broker list")).startswith("broker")


@in_loop
async def test_half_a_line_is_given_up_in_time() -> None:
    async with served(settings=replace(SETTINGS, frame_ms_max=50)) as at:
        client = await at.greeted()
        client.writer.write(b"stat")
        assert "incomplete" in await client.rest()


@in_loop
async def test_an_idle_console_is_closed() -> None:
    async with served(settings=replace(SETTINGS, idle_ms_max=50)) as at:
        client = await at.connect()
        assert (await client.rest()).startswith("Penstock")


@in_loop
async def test_too_many_consoles() -> None:
    async with served() as at:
        some = [await at.greeted() for _ in range(CONSOLES_MAX)]
        late = await at.connect()
        assert await late.rest() == f"error: there are {CONSOLES_MAX} consoles already; close one of them\n"
        many = [await at.connect() for _ in range(3 * CONSOLES_MAX)]
        assert (await some[0].ask("status")).startswith("service")
        for one in (*many, late, some.pop()):
            one.close()
        is_greeted = False
        while not is_greeted:  # until the server has seen that there is room again
            client = await at.connect()
            try:
                is_greeted = (await client.reader.readline()).startswith(b"Penstock")
            except ConnectionResetError:
                continue  # over the limit of connections, of which the server has not seen the end yet
            finally:
                if not is_greeted:
                    client.close()
        assert (await some[0].ask("status")).startswith("service")


@in_loop
async def test_a_client_that_does_not_read_holds_up_nobody_else() -> None:
    async with served(token=None) as at:
        lines = ["x" * 1_000] * 1_000
        at.services.logs["producer"] = lines
        slow = socket.create_connection(at.address)
        slow.setblocking(False)
        client = await at.greeted()
        requests = b"logs producer 1000\n" * 50_000  # a megabyte, for 50 gigabytes of answers
        sent_bytes = 0
        try:
            while sent_bytes < 100 * len(requests):
                try:
                    sent_bytes += slow.send(requests)
                except BlockingIOError:
                    break
                assert (await client.ask("status")).startswith("service")
            assert sent_bytes < 100 * len(requests), "the server reads on although nobody reads its answers"
            assert (await client.ask("broker list")).startswith("broker")
        finally:
            slow.close()


@in_loop
async def test_a_command_runs_on_when_its_client_leaves() -> None:
    async with served(token=None) as at:
        at.services.gate = asyncio.Event()
        client, other = await at.greeted(), await at.greeted()
        client.writer.write(b"broker stop 3\n")
        await other.ask("status")
        client.close()
        await other.ask("status")
        at.services.gate.set()
        await other.ask("producer stop")
        assert sorted(at.services.done) == ["stop broker-3", "stop producer"]


@in_loop
async def test_the_end_of_the_server_ends_commands_and_connections() -> None:
    async with served(token=None) as at:
        at.services.gate = asyncio.Event()
        client = await at.greeted()
        client.writer.write(b"restart all\n")
        await (await at.greeted()).ask("status")
    assert await client.rest() == ""
    assert at.services.done == []


@in_loop
async def test_only_loopback() -> None:
    with pytest.raises(ServiceError, match="not a loopback address"):
        async with console_server(MemoryServices(), Address("0.0.0.0", 0), token=TOKEN):
            raise AssertionError("it listens")
