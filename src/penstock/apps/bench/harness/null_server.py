"""A server that sends a fixed response: what the load generator can reach if the broker costs nothing.

`python -m penstock.apps.bench.harness.null_server FRAME_BYTES RESPONSE_HEX [FILE POSITION LENGTH]` prints its port,
then replies to every FRAME_BYTES received with RESPONSE, followed by that part of the file, until it is terminated.
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

from penstock.apps.bench.harness.machine import on_cpu

RECEIVE_BYTES = 1 << 18


class Body(NamedTuple):
    """Bytes of a file that follow each response."""

    path: Path
    position: int
    length: int


class FixedResponse(asyncio.BufferedProtocol):
    """Counts received bytes and replies once per frame."""

    def __init__(self, frame_bytes: int, response: bytes) -> None:
        self._frame_bytes = frame_bytes
        self._answer = response
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


async def _serve_responses(frame_bytes: int, response: bytes) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: FixedResponse(frame_bytes, response), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _serve_file(frame_bytes: int, response: bytes, body: Body) -> None:
    """Serve one blocking connection: nothing is faster."""
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    connection, _ = listening.accept()
    # Without TCP_NODELAY the end of a response waits for the acknowledgement of the bytes before it.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    source = os.open(body.path, os.O_RDONLY)
    while connection.recv(frame_bytes, socket.MSG_WAITALL):
        connection.sendall(response, socket.MSG_MORE)
        position, end = body.position, body.position + body.length
        while position < end:
            position += os.sendfile(connection.fileno(), source, position, end - position)


def main(arguments: list[str]) -> None:
    frame_bytes, response = int(arguments[0]), bytes.fromhex(arguments[1])
    if len(arguments) > 2:
        _serve_file(frame_bytes, response, Body(Path(arguments[2]), int(arguments[3]), int(arguments[4])))
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_responses(frame_bytes, response))


@contextmanager
def null_server(
    cpu: int, frame_bytes: int, response: bytes, body: Body | None = None
) -> Iterator[tuple[str, int]]:
    """The address of a null server, as a child process on the broker's CPU."""
    command = [
        sys.executable,
        "-m",
        "penstock.apps.bench.harness.null_server",
        str(frame_bytes),
        response.hex(),
    ]
    if body is not None:
        command += [str(body.path), str(body.position), str(body.length)]
    with on_cpu(cpu):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield "127.0.0.1", int(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    main(sys.argv[1:])
