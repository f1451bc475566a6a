"""A bare TCP connection for load: one preallocated buffer, a timeout, and no protocol."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from contextlib import contextmanager

Address = tuple[str, int]
RECEIVE_BYTES = 1 << 20
STALL_S_MAX = 45.0
"""A run in which nothing arrives for this long fails."""


class UnexpectedResponse(Exception):
    """The server rejected a request, sent something else than was requested, or closed the connection."""


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Keep the load generator's own garbage collection out of the figures."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Link:
    """One connected socket."""

    def __init__(
        self, address: Address, *, receive_bytes: int = RECEIVE_BYTES, stall_s_max: float = STALL_S_MAX
    ) -> None:
        self.socket = socket.create_connection(address, timeout=stall_s_max)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(receive_bytes)
        self.view = memoryview(self.buffer)

    def send(self, content: bytes | bytearray | memoryview) -> None:
        self.socket.sendall(content)

    def receive(self) -> memoryview:
        """At least one received byte; the view is valid until the next call."""
        return self.view[: received(self.socket.recv_into(self.buffer))]

    def read_line(self) -> bytes:
        """Read one line byte by byte. Slow: only for handshakes."""
        line = b""
        while not line.endswith(b"\r\n"):
            line += self.read(1)
        return line[:-2]

    def read(self, count: int) -> bytes:
        """Read exactly `count` bytes."""
        content = b""
        while len(content) < count:
            more = self.socket.recv(count - len(content))
            received(len(more))
            content += more
        return content

    def close(self) -> None:
        self.socket.close()


def received(count: int) -> int:
    """Return the result of a `recv`. Raises UnexpectedResponse if the server closed the connection."""
    if not count:
        raise UnexpectedResponse("the server closed the connection during a run")
    return count
