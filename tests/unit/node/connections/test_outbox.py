"""What goes out over a real socket, in order, whatever the reader does: bytes, runs of files, and both mixed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.core.log.segment import Slice
from penstock.core.ports import File
from penstock.node.connections import outbox as outbox_module
from penstock.node.connections.outbox import SENDFILE_BYTES_MIN, TRANSPORT_CHUNK_BYTES, Outbox, Piece
from penstock.node.runtime.disk import DiskFiles
from penstock.node.runtime.memory import MemoryFiles


class Wire:
    """Both ends of a connection: our outbox and a reader that reads when it is told to."""

    def __init__(self, transport: asyncio.Transport, far: socket.socket) -> None:
        self.transport = transport
        self.far = far
        self.drained = 0
        self.box = Outbox(asyncio.get_running_loop(), transport, self._drained)

    def _drained(self) -> None:
        self.drained += 1

    async def read(self, count: int) -> bytes:
        loop, got = asyncio.get_running_loop(), bytearray()
        while len(got) < count:
            chunk = await loop.sock_recv(self.far, min(1 << 16, count - len(got)))
            assert chunk, f"the connection ended after {len(got)} of {count} bytes"
            got += chunk
        return bytes(got)

    async def ended(self) -> bool:
        try:
            return await asyncio.get_running_loop().sock_recv(self.far, 1) == b""
        except ConnectionError:
            return True


class Near(asyncio.Protocol):
    """Our end: passes the transport's signs on, as a connection does."""

    box: Outbox | None = None

    def pause_writing(self) -> None:
        assert self.box is not None
        self.box.pause()

    def resume_writing(self) -> None:
        assert self.box is not None
        self.box.resume()


def wired(test: Callable[[Wire], Coroutine[Any, Any, None]], *, own_socket: bool = True) -> None:
    """Run a test over a socket pair with small buffers; without `own_socket` as over TLS, through the transport."""

    async def main() -> None:
        near, far = socket.socketpair()
        for end in (near, far):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8_192)
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(Near, sock=near)
        if not own_socket:
            monkeypatch = pytest.MonkeyPatch()
            monkeypatch.setattr(outbox_module, "_own_socket", lambda transport: None)
        wire = Wire(transport, far)
        protocol.box = wire.box
        try:
            await test(wire)
        finally:
            wire.box.close()
            transport.abort()
            far.close()
            if not own_socket:
                monkeypatch.undo()

    asyncio.run(main())


def disk_file(root: Path, size: int, name: str = "a.log") -> tuple[DiskFiles, File, bytes]:
    files = DiskFiles(root, 16)
    file = files.open(name, create=True)
    content = bytes(number % 251 for number in range(size))
    file.append([content])
    return files, file, content


def pinned(file: File, position: int, length: int) -> Slice:
    file.pin()
    return Slice(file, position, length, 0)


both_ways = pytest.mark.parametrize("own_socket", [True, False], ids=["socket", "transport"])


@both_ways
def test_short_answers_leave_at_once(own_socket: bool) -> None:
    async def test(wire: Wire) -> None:
        wire.box.write([b"one"])
        wire.box.write([b"two", bytearray(b"three"), memoryview(b"four"), b""])
        assert wire.box.waiting_bytes == 0
        assert await wire.read(15) == b"onetwothreefour"
        assert wire.drained == 0, "nobody had to wait"

    wired(test, own_socket=own_socket)


@both_ways
def test_bytes_and_files_keep_their_order_before_a_slow_reader(own_socket: bool, tmp_path: Path) -> None:
    _, file, content = disk_file(tmp_path, 3 * TRANSPORT_CHUNK_BYTES + 77)

    async def test(wire: Wire) -> None:
        expected = b""
        for number in range(5):
            pieces: list[Piece] = [b"head%d" % number, pinned(file, number, 200_000), b"tail%d" % number]
            wire.box.write(pieces)
            expected += b"head%d" % number + content[number : number + 200_000] + b"tail%d" % number
        wire.box.write([pinned(file, 0, len(content)), b"end"])
        expected += content + b"end"
        assert wire.box.waiting_bytes > 0
        assert await wire.read(len(expected)) == expected
        while wire.box.waiting_bytes:
            await asyncio.sleep(0)
        assert wire.drained >= 1

    wired(test, own_socket=own_socket)
    assert file._pins == 0  # type: ignore[attr-defined]


@both_ways
def test_files_in_memory_are_sent_too(own_socket: bool) -> None:
    file = MemoryFiles().open("a.log", create=True)
    file.append([b"x" * 50_000])

    async def test(wire: Wire) -> None:
        wire.box.write([b"<", Slice(file, 0, 50_000, 0), b">"])
        assert await wire.read(50_002) == b"<" + b"x" * 50_000 + b">"

    wired(test, own_socket=own_socket)


def test_a_small_run_of_a_file_leaves_in_one_piece_with_what_surrounds_it(tmp_path: Path) -> None:
    _, file, content = disk_file(tmp_path, SENDFILE_BYTES_MIN)

    async def test(wire: Wire) -> None:
        wire.box.write([b"<", pinned(file, 1, 2_000), b">"])
        assert file._pins == 0, "it is read, so the file may go"  # type: ignore[attr-defined]
        assert wire.far.recv(4_000) == b"<" + content[1:2_001] + b">"
        wire.box.write([b"<", pinned(file, 0, len(content)), b">"])
        assert await wire.read(len(content) + 2) == b"<" + content + b">"

    wired(test)
    assert file._pins == 0  # type: ignore[attr-defined]


def test_a_small_run_that_is_not_there_ends_the_connection(tmp_path: Path) -> None:
    _, file, content = disk_file(tmp_path, 1_000)

    async def test(wire: Wire) -> None:
        wire.box.write([b"<", pinned(file, 0, len(content)), pinned(file, 500, 1_000), b">"])
        assert await wire.ended()

    wired(test)
    assert file._pins == 0  # type: ignore[attr-defined]


def test_a_partial_send_is_continued_where_it_stopped() -> None:
    async def test(wire: Wire) -> None:
        content = bytes(number % 253 for number in range(1_000_000))
        wire.box.write([content])
        waiting = wire.box.waiting_bytes
        assert 0 < waiting < len(content)
        wire.box.write([b"behind"])
        assert wire.box.waiting_bytes == waiting + 6
        assert await wire.read(len(content) + 6) == content + b"behind"
        while wire.box.waiting_bytes:
            await asyncio.sleep(0)
        assert wire.drained == 1

    wired(test)


def test_one_connection_gives_others_their_turn_and_still_says_when_it_has_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, file, content = disk_file(tmp_path, 6_000)
    monkeypatch.setattr(outbox_module, "SENDFILE_TURN_BYTES", 1_000)
    monkeypatch.setattr(outbox_module, "SENDFILE_BYTES_MIN", 1_000)

    async def test(wire: Wire) -> None:
        wire.box.write([pinned(file, position, 1_000) for position in range(0, 6_000, 1_000)])
        assert wire.box.waiting_bytes == 5_000
        wire.box.write([b"behind"])
        assert wire.box.waiting_bytes == 5_006, "a second answer does not take another turn"
        assert await wire.read(6_006) == content + b"behind"
        assert wire.drained == 1

    wired(test)


@both_ways
def test_a_file_that_is_removed_while_it_waits_is_sent_whole(own_socket: bool, tmp_path: Path) -> None:
    files, file, content = disk_file(tmp_path, 900_000)

    async def test(wire: Wire) -> None:
        wire.box.write([pinned(file, 0, len(content))])
        file.close()
        files.remove("a.log")
        assert files.open_count() == 1
        assert await wire.read(len(content)) == content
        while wire.box.waiting_bytes:
            await asyncio.sleep(0)
        assert files.open_count() == 0, "the descriptor goes with its last reader"

    wired(test, own_socket=own_socket)


@both_ways
def test_closing_gives_the_pins_back(own_socket: bool, tmp_path: Path) -> None:
    files, file, _ = disk_file(tmp_path, 900_000)

    async def test(wire: Wire) -> None:
        for _ in range(3):
            wire.box.write([b"x", pinned(file, 0, 900_000)])
        wire.box.close()
        wire.box.close()
        assert wire.box.waiting_bytes == 0
        wire.box.write([pinned(file, 0, 100)])
        assert file._pins == 0  # type: ignore[attr-defined]
        file.close()
        assert files.open_count() == 0

    wired(test, own_socket=own_socket)


@both_ways
def test_a_file_that_ends_too_early_ends_the_connection(
    own_socket: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, file, _ = disk_file(tmp_path, 1_000)

    async def test(wire: Wire) -> None:
        wire.box.write([b"head", pinned(file, 500, 1_000), b"never"])
        assert wire.box.waiting_bytes == 0
        while not await wire.ended():
            pass

    wired(test, own_socket=own_socket)
    assert "ended before byte 1500" in caplog.text
    assert file._pins == 0  # type: ignore[attr-defined]


def test_a_reader_that_is_gone_ends_the_connection_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, file, _ = disk_file(tmp_path, 10_000)

    async def test(wire: Wire) -> None:
        wire.far.close()
        wire.box.write([pinned(file, 0, 10_000)])
        wire.box.write([b"more"])
        assert wire.transport.is_closing()

    wired(test)
    assert not caplog.records
    assert file._pins == 0  # type: ignore[attr-defined]
