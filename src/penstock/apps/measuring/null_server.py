"""A server that does nothing but answer: what the load could reach if the broker cost nothing. Never reads a request.

`python -m penstock.apps.measuring.null_server FRAME_BYTES ANSWER_HEX [FILE POSITION LENGTH]` prints its port, then
answers every FRAME_BYTES it receives with ANSWER, followed by that part of the file, until it is terminated.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import uvloop

from penstock.apps.measuring.machine import on_cpu

RECEIVE_BYTES = 1 << 18


class Body(NamedTuple):
    """Bytes of a file that follow each answer."""

    path: Path
    position: int
    length: int


class Answers(asyncio.BufferedProtocol):
    """Counts bytes, answers frames."""

    def __init__(self, frame_bytes: int, answer: bytes) -> None:
        self._frame_bytes = frame_bytes
        self._answer = answer
        self._buffer = bytearray(RECEIVE_BYTES)
        self._held_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        frames, self._held_bytes = divmod(self._held_bytes + nbytes, self._frame_bytes)
        if frames:
            self._transport.write(self._answer * frames)


async def _serve_answers(frame_bytes: int, answer: bytes) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answers(frame_bytes, answer), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _serve_file(frame_bytes: int, answer: bytes, body: Body) -> None:
    """One blocking connection is enough, and nothing is faster."""
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    connection, _ = listening.accept()
    # Without this the end of each answer waits for the acknowledgement of what came before it.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    source = os.open(body.path, os.O_RDONLY)
    while connection.recv(frame_bytes, socket.MSG_WAITALL):
        connection.sendall(answer, socket.MSG_MORE)
        position, end = body.position, body.position + body.length
        while position < end:
            position += os.sendfile(connection.fileno(), source, position, end - position)


def main(words: list[str]) -> None:
    frame_bytes, answer = int(words[0]), bytes.fromhex(words[1])
    if len(words) > 2:
        _serve_file(frame_bytes, answer, Body(Path(words[2]), int(words[3]), int(words[4])))
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_answers(frame_bytes, answer))


@contextmanager
def null_server(
    cpu: int, frame_bytes: int, answer: bytes, body: Body | None = None
) -> Iterator[tuple[str, int]]:
    """The address of such a server in a process of its own, on the broker's CPU."""
    words = [sys.executable, "-m", "penstock.apps.measuring.null_server", str(frame_bytes), answer.hex()]
    if body is not None:
        words += [str(body.path), str(body.position), str(body.length)]
    with on_cpu(cpu):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield "127.0.0.1", int(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    main(sys.argv[1:])
