"""Members of a subscription that cost as little as they can: cut frames by their length, acknowledge one by one.

Never opens a frame further than its sequence number.
"""

from __future__ import annotations

import selectors
import socket
import time
from struct import Struct

from penstock.apps.measuring.loader import UnexpectedAnswer
from penstock.wire.queue.frames import Frame, FrameStream, MessageType, encode

_HEAD = Struct(">IIq")
_SEQUENCE = Struct(">q")
_SEQUENCE_AT = 8
READ_BYTES = 1 << 18


def ask(address: tuple[str, int], kind: MessageType, **words: str) -> socket.socket:
    """A connection on which one request was answered with success."""
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(
        encode(Frame(kind, properties=tuple((f"@{name}", value) for name, value in words.items())))
    )
    stream = FrameStream(1 << 20)
    while True:
        for frame in stream.feed(connection.recv(1)):
            if ("@status", "success") not in frame.properties:
                raise UnexpectedAnswer(str(frame))
            return connection


class QueueMembers:
    """Some members of one subscription to one partition, in one thread."""

    def __init__(self, address: tuple[str, int], subscription: str, count: int, window: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._ack = bytearray(
            encode(Frame(MessageType.ACK, 0, 0, (("@subscription", subscription), ("@partition", "0"))))
        )
        self._rests: dict[int, bytes] = {}
        self.sockets = [
            ask(address, MessageType.SUBSCRIBE, subscription=subscription, window=str(window))
            for _ in range(count)
        ]
        for one in self.sockets:
            one.setblocking(False)
            self._selector.register(one, selectors.EVENT_READ)

    def take(self, count: int) -> float:
        """Take so many messages and acknowledge each; returns the seconds from the first to the last."""
        first_s, taken = 0.0, 0
        while taken < count:
            for key, _ in self._selector.select(30):
                assert isinstance(key.fileobj, socket.socket)
                if not taken:
                    first_s = time.perf_counter()
                taken += self._take_from(key.fileobj)
        return time.perf_counter() - first_s

    def _take_from(self, one: socket.socket) -> int:
        content = self._rests.pop(one.fileno(), b"") + one.recv(READ_BYTES)
        position, answers, taken = 0, bytearray(), 0
        while len(content) - position >= _HEAD.size:
            total_bytes, kind, sequence = _HEAD.unpack_from(content, position)
            if position + total_bytes > len(content):
                break
            if kind != MessageType.DATA:
                raise UnexpectedAnswer(f"a frame of type {kind}")
            position += total_bytes
            _SEQUENCE.pack_into(self._ack, _SEQUENCE_AT, sequence)
            answers += self._ack
            taken += 1
        self._rests[one.fileno()] = content[position:]
        if answers:
            one.setblocking(True)
            one.sendall(answers)
            one.setblocking(False)
        return taken

    def close(self) -> None:
        for one in self.sockets:
            one.close()
        self._selector.close()
