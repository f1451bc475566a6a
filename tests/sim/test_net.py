"""The simulated network behaves as TCP does for asyncio's streams and protocols, and fails when told to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sim.loop import Order, SimLoop, run
from sim.net import Farewell, NetKnobs

PORT = 9092


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(4_096):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _serve_echo() -> asyncio.Server:
    return await asyncio.start_server(_echo, port=PORT)


async def _on(loop: SimLoop, host: str, start: Callable[[], Awaitable[object]]) -> object:
    async def go() -> object:
        return await start()

    return await loop.spawn(host, go())


class Recorder(asyncio.Protocol):
    """Keeps what a protocol is told, in order."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.told: list[str] = []
        self.pieces: list[bytes] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def eof_received(self) -> bool:
        self.told.append("eof")
        return False

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append(f"lost {type(exc).__name__}")
        self.lost.set_result(exc)


class Buffered(asyncio.BufferedProtocol):
    """Reads through a small buffer of its own."""

    def __init__(self, size: int) -> None:
        self.buffer = bytearray(size)
        self.data = bytearray()
        self.ended = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


async def _pair(loop: SimLoop) -> tuple[Recorder, Recorder]:
    """A recorder on host `a` connected to one that listens on host `b`."""
    accepted: list[Recorder] = []

    def accept() -> Recorder:
        accepted.append(Recorder())
        return accepted[-1]

    await _on(loop, "b", lambda: loop.create_server(accept, port=PORT))
    _, client = await loop.spawn("a", loop.create_connection(Recorder, "b", PORT))
    await asyncio.sleep(1)
    assert isinstance(client, Recorder)
    return client, accepted[0]


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("seed", range(5))
def test_streams_echo_across_hosts(seed: int, order: Order) -> None:
    async def client(size: int) -> bool:
        reader, writer = await asyncio.open_connection("server", PORT)
        sent = bytes(index % 251 for index in range(size))
        writer.write(sent)
        writer.write_eof()
        got = await reader.read()
        writer.close()
        await writer.wait_closed()
        return got == sent

    async def main(loop: SimLoop) -> list[bool]:
        await _on(loop, "server", _serve_echo)
        return await asyncio.gather(*(loop.spawn(f"c{n}", client(n * 30_000)) for n in range(5)))

    assert run(seed, main, order=order) == [True] * 5


def test_the_stream_is_cut_into_segments_of_many_sizes() -> None:
    async def main(loop: SimLoop) -> list[int]:
        client, server = await _pair(loop)
        for _ in range(20):
            client.transport.write(bytes(50_000))
            await asyncio.sleep(0.1)
        assert sum(map(len, server.pieces)) == 1_000_000
        return [len(piece) for piece in server.pieces]

    sizes = run(2, main)
    assert len(sizes) > 20
    assert min(sizes) <= 16
    assert len(set(sizes)) > 10


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_buffered_protocols_are_fed_through_their_buffer(size: int) -> None:
    async def main(loop: SimLoop) -> bool:
        accepted: list[Buffered] = []

        def accept() -> Buffered:
            accepted.append(Buffered(size))
            return accepted[-1]

        await _on(loop, "b", lambda: loop.create_server(accept, port=PORT))
        transport, _ = await loop.spawn("a", loop.create_connection(Recorder, "b", PORT))
        sent = bytes(index % 253 for index in range(3_000))
        transport.write(sent)
        transport.close()
        await asyncio.sleep(5)
        await accepted[0].ended
        return bytes(accepted[0].data) == sent

    assert run(4, main)


def test_an_empty_buffer_is_an_error_as_in_asyncio() -> None:
    async def main(loop: SimLoop) -> None:
        await _on(loop, "b", lambda: loop.create_server(lambda: Buffered(0), port=PORT))
        transport, _ = await loop.spawn("a", loop.create_connection(Recorder, "b", PORT))
        transport.write(b"x")
        await asyncio.sleep(5)

    with pytest.raises(RuntimeError, match="empty buffer"):
        run(1, main)


def test_a_reader_that_pauses_holds_the_writer_back() -> None:
    async def main(loop: SimLoop) -> None:
        client, server = await _pair(loop)
        server.transport.pause_reading()
        client.transport.set_write_buffer_limits(high=1_000)
        client.transport.write(bytes(5_000))
        assert (client.transport.get_write_buffer_size(), client.told) == (0, ["made"])
        client.transport.write(bytes(20_000))
        assert client.transport.get_write_buffer_size() == 15_000
        assert client.told == ["made", "pause"]
        await asyncio.sleep(10)
        assert (server.pieces, client.told) == ([], ["made", "pause"])
        assert not server.transport.is_reading()
        server.transport.resume_reading()
        await asyncio.sleep(10)
        assert sum(map(len, server.pieces)) == 25_000
        assert client.told == ["made", "pause", "resume"]
        assert client.transport.get_write_buffer_size() == 0

    run(3, main, net=NetKnobs(window_bytes=10_000))


def test_close_sends_what_is_buffered_and_abort_does_not() -> None:
    async def main(loop: SimLoop) -> None:
        client, server = await _pair(loop)
        client.transport.write(bytes(50_000))
        client.transport.close()
        client.transport.write(b"too late")
        assert await server.lost is None
        assert await client.lost is None
        assert sum(map(len, server.pieces)) == 50_000
        assert server.told == ["made", "eof", "lost NoneType"]
        assert loop.net.connections("a") == loop.net.connections("b") == 0

    async def aborting(loop: SimLoop) -> None:
        client, server = await _pair(loop)
        server.transport.pause_reading()
        client.transport.write(bytes(50_000))
        client.transport.abort()
        assert isinstance(await server.lost, ConnectionResetError)
        assert sum(map(len, server.pieces)) < 50_000
        assert await client.lost is None

    run(1, main, net=NetKnobs(window_bytes=1_000))
    run(1, aborting, net=NetKnobs(window_bytes=1_000))


def test_writing_to_a_closed_end_resets_the_writer() -> None:
    class Stubborn(Recorder):
        def eof_received(self) -> bool:
            self.told.append("eof")
            return True

    async def main(loop: SimLoop) -> None:
        accepted: list[Stubborn] = []

        def accept() -> Stubborn:
            accepted.append(Stubborn())
            return accepted[-1]

        await _on(loop, "b", lambda: loop.create_server(accept, port=PORT))
        transport, _ = await loop.spawn("a", loop.create_connection(Recorder, "b", PORT))
        transport.close()
        await asyncio.sleep(1)
        assert accepted[0].told == ["made", "eof"]
        accepted[0].transport.write(b"anyone there?")
        assert isinstance(await accepted[0].lost, ConnectionResetError)

    run(1, main)


def test_addresses_ports_and_extra_info() -> None:
    async def main(loop: SimLoop) -> None:
        client, server = await _pair(loop)
        assert client.transport.get_extra_info("peername") == ("b", PORT)
        assert server.transport.get_extra_info("sockname") == ("b", PORT)
        assert client.transport.get_extra_info("sockname") == server.transport.get_extra_info("peername")
        assert client.transport.get_extra_info("socket") is None
        servers = [await loop.create_server(Recorder) for _ in range(3)]
        assert len({each.sockets[0].getsockname()[1] for each in servers}) == 3
        assert all(each.sockets[0].getsockname()[0] == "root" for each in servers)
        with pytest.raises(OSError, match="in use"):
            await loop.create_server(Recorder, port=servers[0].sockets[0].getsockname()[1])
        with pytest.raises(OSError, match="no address"):
            await loop.create_server(Recorder, "10.1.2.3")

    run(1, main)


def test_who_is_refused() -> None:
    async def main(loop: SimLoop) -> None:
        server = await loop.create_server(Recorder, "127.0.0.1", PORT)
        await loop.create_connection(Recorder, "localhost", PORT)
        with pytest.raises(ConnectionRefusedError):
            await loop.spawn("a", loop.create_connection(Recorder, "root", PORT))
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "localhost", PORT)
        with pytest.raises(OSError, match="no host"):
            await loop.create_connection(Recorder, "atlantis", PORT)

    run(1, main)


def test_a_cut_holds_bytes_back_until_it_heals() -> None:
    async def main(loop: SimLoop) -> None:
        client, server = await _pair(loop)
        loop.net.cut("a", "b")
        client.transport.write(b"ping")
        server.transport.write(b"pong")
        with pytest.raises(TimeoutError):
            await loop.spawn("a", loop.create_connection(Recorder, "b", PORT))
        assert (client.pieces, server.pieces) == ([], [])
        loop.net.heal("a", "b")
        await asyncio.sleep(1)
        assert (b"".join(client.pieces), b"".join(server.pieces)) == (b"pong", b"ping")

    run(1, main)


def test_a_one_way_cut_stops_one_direction_only() -> None:
    async def main(loop: SimLoop) -> None:
        client, server = await _pair(loop)
        loop.net.cut(["a"], ["b", "c"], one_way=True)
        client.transport.write(b"ping")
        server.transport.write(b"pong")
        await asyncio.sleep(60)
        assert (b"".join(client.pieces), server.pieces) == (b"pong", [])
        loop.net.heal()
        await asyncio.sleep(1)
        assert b"".join(server.pieces) == b"ping"

    run(1, main)


def test_a_connect_during_a_short_cut_succeeds_after_it() -> None:
    async def main(loop: SimLoop) -> float:
        await _pair(loop)
        loop.net.cut("a", "b")
        loop.call_later(5, loop.net.heal)
        before = loop.time()
        await loop.spawn("a", loop.create_connection(Recorder, "b", PORT))
        return loop.time() - before

    assert 5 < run(1, main) < 10


def test_a_reset_is_seen_at_both_ends() -> None:
    async def main(loop: SimLoop) -> None:
        client, server = await _pair(loop)
        assert loop.net.reset("b", "a") == 1
        assert isinstance(await client.lost, ConnectionResetError)
        assert isinstance(await server.lost, ConnectionResetError)

    run(1, main)


def test_what_the_peer_of_a_crashed_host_sees() -> None:
    async def main(loop: SimLoop, farewell: Farewell) -> list[str]:
        client, server = await _pair(loop)
        loop.net.crash("b", farewell)
        await asyncio.sleep(1_000)
        assert server.told == ["made"]
        return client.told

    expected = {
        Farewell.RESET: ["made", "lost ConnectionResetError"],
        Farewell.EOF: ["made", "eof", "lost NoneType"],
        Farewell.SILENCE: ["made"],
    }
    for farewell, told in expected.items():
        assert run(1, lambda loop, farewell=farewell: main(loop, farewell)) == told


def test_a_silent_host_answers_with_a_reset_only_after_it_boots() -> None:
    async def main(loop: SimLoop) -> None:
        client, _ = await _pair(loop)
        loop.net.crash("b", Farewell.SILENCE)
        client.transport.write(b"hello?")
        with pytest.raises(TimeoutError):
            await loop.spawn("a", loop.create_connection(Recorder, "b", PORT))
        assert client.told == ["made"]
        loop.host("b")
        assert isinstance(await client.lost, ConnectionResetError)
        with pytest.raises(ConnectionRefusedError):
            await loop.spawn("a", loop.create_connection(Recorder, "b", PORT))

    run(1, main)


def test_a_restarted_server_serves_its_old_port_again() -> None:
    async def ask(text: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("server", PORT)
        writer.write(text)
        got = await reader.readexactly(len(text))
        writer.close()
        return got

    async def main(loop: SimLoop) -> list[bytes]:
        await _on(loop, "server", _serve_echo)
        first = await loop.spawn("c", ask(b"one"))
        loop.net.crash("server", Farewell.EOF)
        with pytest.raises(ConnectionRefusedError):
            await loop.spawn("c", ask(b"nobody"))
        await _on(loop, "server", _serve_echo)
        return [first, await loop.spawn("c", ask(b"two"))]

    assert run(1, main) == [b"one", b"two"]
