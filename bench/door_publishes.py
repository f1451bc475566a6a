"""Single messages over the text, JSON, HTTP and queue doors on bare sockets: what is sent, and how replies are counted.

Callers compare the log's end offset with what was acknowledged: it shows that every request succeeded.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import NamedTuple

from bench.session import TOPIC
from penstock.apps.bench.harness.link import Address, UnexpectedResponse, gc_disabled
from penstock.wire.queue.frames import Frame, MessageType, encode
from penstock.wire.queue.request_properties import TOPIC as TOPIC_PROPERTY

VALUE = "x" * 100
SECONDS_MAX = 60
_RECEIVE_BYTES = 1 << 18
_SEAM_BYTES = 16
"""A mark may be split between two reads: the end of the last one is looked at again."""
_QUEUE_LENGTH_BYTES = 4


class Door(NamedTuple):
    """How one message is sent over a protocol, and how successful replies are counted."""

    name: str
    request: bytes
    replies: Callable[[], Callable[[bytes], int]]
    """Makes the counter of one connection: bytes in, new replies out."""


def _by_mark(mark: bytes) -> Callable[[], Callable[[bytes], int]]:
    """Counts a mark that every reply contains once."""

    def counter() -> Callable[[bytes], int]:
        seam = b""

        def count(read: bytes) -> int:
            nonlocal seam
            seen, read = seam.count(mark), seam + read
            seam = read[-_SEAM_BYTES:]
            return read.count(mark) - seen

        return count

    return counter


def _by_length() -> Callable[[bytes], int]:
    """Counts frames of the queue door, which begin with their length."""
    held = b""

    def count(read: bytes) -> int:
        nonlocal held
        held += read
        position = found = 0
        while len(held) - position >= _QUEUE_LENGTH_BYTES:
            size = int.from_bytes(held[position : position + _QUEUE_LENGTH_BYTES], "big")
            if position + size > len(held):
                break
            position += size
            found += 1
        held = held[position:]
        return found

    return count


def _json_frame() -> bytes:
    body = json.dumps({"command": "PRODUCE", "topic": TOPIC, "message": VALUE, "id": 1}).encode()
    return len(body).to_bytes(4, "big") + body


def _http_request() -> bytes:
    body = json.dumps({"topic": TOPIC, "value": VALUE}).encode()
    head = "POST /api/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


TEXT = Door("text", f"PUB {TOPIC} {len(VALUE)}\r\n{VALUE}".encode(), _by_mark(b"\n"))
JSON = Door("json", _json_frame(), _by_mark(b'{"ok":'))
HTTP = Door("http", _http_request(), _by_mark(b"HTTP/1.1 20"))
QUEUE = Door(
    "queue",
    encode(Frame(MessageType.PUBLISH, properties=((TOPIC_PROPERTY, TOPIC),), body=VALUE.encode())),
    _by_length,
)


def publish(address: Address, door: Door, count: int, in_flight: int, at_once: int = 1) -> int:
    """Publish on one connection with at most `in_flight` unanswered requests, `at_once` in one send; returns how many
    were sent, once all are answered."""
    count_replies, burst = door.replies(), door.request * at_once
    with socket.create_connection(address, SECONDS_MAX) as line, gc_disabled():
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = answered = 0
        while answered < count:
            while sent < count and sent - answered + at_once <= in_flight:
                line.sendall(burst)
                sent += at_once
            read = line.recv(_RECEIVE_BYTES)
            if not read:
                raise UnexpectedResponse(f"the {door.name} door closed after {answered} responses")
            answered += count_replies(read)
    return sent
