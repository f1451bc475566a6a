"""A place between clients and their broker where every call passes by: a trap springs at the chosen one.

Never changes a byte. The broker must advertise this port, so that nobody finds a way around.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple, Self

from penstock.wire.kafka import ApiKey

_SIZE = Struct(">i")
_HEADER = Struct(">hhih")


class Point(NamedTuple):
    """The `nth` call of an API: as it arrives, or when its answer is about to leave; or some time later."""

    api_key: int
    nth: int
    is_answered: bool
    later_s: float = 0.0

    def __str__(self) -> str:
        where = "behind" if self.is_answered else "before"
        later = f", {self.later_s:.2f} s later" if self.later_s else ""
        return f"{where} {ApiKey(self.api_key).name} {self.nth}{later}"


class Trap:
    """Springs once, and tells from which port the call came."""

    def __init__(self, client_id: str, point: Point, spring: Callable[[int], None]) -> None:
        self.sprung = threading.Event()
        self._client_id = client_id.encode()
        self._point = point
        self._spring = spring
        self._seen = 0
        self._lock = threading.Lock()

    def sees(self, frame: bytes) -> bool:
        """Is this the call? Counts the calls that come by."""
        api_key, _, _, size = _HEADER.unpack_from(frame)
        if api_key != self._point.api_key or frame[_HEADER.size : _HEADER.size + size] != self._client_id:
            return False
        with self._lock:
            self._seen += 1
            return self._seen == self._point.nth

    def spring(self, caller_port: int, *, is_answered: bool) -> None:
        """Meanwhile the call is held up, unless the trap springs later."""
        if is_answered != self._point.is_answered:
            return
        if self._point.later_s:
            threading.Timer(self._point.later_s, self._spring_now, [caller_port]).start()
        else:
            self._spring_now(caller_port)

    def _spring_now(self, caller_port: int) -> None:
        self._spring(caller_port)
        self.sprung.set()


class Passage:
    """Listens on a free port and hands everything on to the port of the broker."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.upstream_port = 0
        self.trap: Trap | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self.upstream_port))
                except OSError:
                    client.close()
                    continue
                for one in (client, broker):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                caught: deque[Trap | None] = deque()
                for work in (self._requests, self._answers):
                    threading.Thread(target=work, args=(client, broker, caught), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, caught: deque[Trap | None]) -> None:
        with contextlib.suppress(OSError):
            port = client.getpeername()[1]
            while frame := _frame(client):
                trap = self.trap
                caught_by = trap if trap is not None and trap.sees(frame) else None
                if caught_by is not None:
                    caught_by.spring(port, is_answered=False)
                caught.append(caught_by)
                broker.sendall(_SIZE.pack(len(frame)) + frame)
        _close(client, broker)

    def _answers(self, client: socket.socket, broker: socket.socket, caught: deque[Trap | None]) -> None:
        with contextlib.suppress(OSError):
            port = client.getpeername()[1]
            while frame := _frame(broker):
                caught_by = caught.popleft()
                if caught_by is not None:
                    caught_by.spring(port, is_answered=True)
                client.sendall(_SIZE.pack(len(frame)) + frame)
        _close(client, broker)


def _frame(source: socket.socket) -> bytes:
    """One frame without its size; nothing at the end."""
    size = _exactly(source, _SIZE.size)
    return _exactly(source, *_SIZE.unpack(size)) if size else b""


def _exactly(source: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = source.recv(size - len(received))
        if not part:
            return b""
        received += part
    return bytes(received)


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
