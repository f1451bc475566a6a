"""A client of a broker and its Kafka door in the same process, through the real codec and without a socket.

The door is not mocked: its connections are real, only the transport under them is a list of bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from manual_ports import turns
from penstock.apps.doorways import KAFKA, Doorways
from penstock.node.broker import Broker
from penstock.node.connections.addresses import Address
from penstock.node.connections.connection import Connection
from penstock.wire.kafka import decode_response, encode_request

SIZE_BYTES = 4
TURNS_MAX = 200_000
ADDRESS = Address("127.0.0.1", 9092)
KAFKA_ONLY: dict[str, Any] = {"text_port": None, "json_port": None, "queue_port": None, "http_port": None}
"""Settings of a node that has no further doors."""


class Closed(Exception):
    """The door has ended the connection."""


class Line:
    """A transport without a socket that remembers what was done with it."""

    def __init__(self, connection: Connection | None = None) -> None:
        self._connection = connection
        self.sent = bytearray()
        self.unread = b""
        self.is_reading = True
        self.was_aborted = self.was_closed = self.has_ended = False

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.7", 5_000) if name == "peername" else None

    def write(self, content: bytes) -> None:
        self.sent += content

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True
        if self._connection is not None and self.unread:
            asyncio.get_running_loop().call_soon(receive, self._connection, self, b"")

    def abort(self) -> None:
        self._lose(self.was_aborted or self.was_closed)
        self.was_aborted = True

    def close(self) -> None:
        self._lose(self.was_aborted or self.was_closed)
        self.was_closed = True

    def is_closing(self) -> bool:
        return self.was_aborted or self.was_closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True

    def _lose(self, is_lost: bool) -> None:
        if self._connection is not None and not is_lost:
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


def receive(connection: Connection, line: Line, content: bytes) -> None:
    """Bytes arrive, as many at a time as there is room for; the rest waits until the connection reads again."""
    content = line.unread + content
    while content and line.is_reading and not connection.is_closed:
        room = connection.get_buffer(-1)
        count = min(len(room), len(content))
        room[:count] = content[:count]
        content = content[count:]
        connection.buffer_updated(count)
    line.unread = content


class Caller:
    """One client of a door; only Kafka's is asked in words."""

    def __init__(self, doors: Doorways, door: str = KAFKA) -> None:
        self.doors = doors
        self.connection = doors.listeners[door].connect()
        self.line = Line(self.connection)
        self._asked: deque[tuple[int, int, int]] = deque()
        self._sent = 0
        self.connection.connection_made(self.line)  # type: ignore[arg-type]

    @property
    def is_closed(self) -> bool:
        return self.connection.is_closed

    def feed(self, content: bytes) -> None:
        receive(self.connection, self.line, content)

    def send(self, api_key: int, version: int, body: Any, *, is_answered: bool = True) -> None:
        """Ask without waiting."""
        self._sent += 1
        if is_answered:
            self._asked.append((api_key, version, self._sent))
        self.feed(encode_request(api_key, version, self._sent, "test", body))

    def take(self) -> Any | None:
        """The next answer, if it is there; Closed when there will be none."""
        size = int.from_bytes(self.line.sent[:SIZE_BYTES], "big")
        if len(self.line.sent) < SIZE_BYTES or len(self.line.sent) < SIZE_BYTES + size:
            if self.is_closed:
                raise Closed
            return None
        frame = bytes(self.line.sent[SIZE_BYTES : SIZE_BYTES + size])
        del self.line.sent[: SIZE_BYTES + size]
        api_key, version, correlation_id = self._asked.popleft()
        answered_id, body = decode_response(api_key, version, frame)
        assert answered_id == correlation_id, "an answer out of its order"
        return body

    async def answer(self) -> Any:
        """The next answer, waited for."""
        for _ in range(TURNS_MAX):
            body = self.take()
            if body is not None:
                return body
            await asyncio.sleep(0)
        raise AssertionError("no answer came")

    async def ask(self, api_key: int, version: int, body: Any) -> Any:
        self.send(api_key, version, body)
        return await self.answer()

    async def hang_up(self) -> None:
        self.line.close()
        await turns()


def open_doors(broker: Broker) -> Doorways:
    """The doors of a broker, without a listening socket. Needs a running loop."""
    doors = Doorways(broker)
    doors.kafka.advertise(ADDRESS)
    return doors
