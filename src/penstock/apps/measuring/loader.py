"""Load on a bare socket: as little work per request as Python allows, so that the broker is what is measured.

Never builds a request while the clock runs, and never takes an answer for granted: the first one is decoded, and
the log's end is compared with what was sent.
"""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from struct import Struct
from typing import Any

from penstock.apps.measuring.frames import (
    FETCH_VERSION,
    LIST_OFFSETS_VERSION,
    METADATA_VERSION,
    PRODUCE_VERSION,
    FetchFrame,
    latest_frame,
    metadata_frame,
)
from penstock.wire.kafka import ApiKey, decode_response

CHUNK_BYTES = 1 << 16
"""How much is sent in one call while pipelining."""
RECEIVE_BYTES = 1 << 16
ANSWER_S_MAX = 120.0
_SIZE = Struct(">i")
SIZE_BYTES = _SIZE.size
_KEY = Struct(">hh")
"""The API key and the version that a request starts with."""
_BATCH = Struct(">qi11xi")
"""Base offset, length, and the last offset delta that follows epoch, magic, checksum and attributes."""
_BATCH_PREFIX_BYTES = 12

Address = tuple[str, int]


class UnexpectedAnswer(Exception):
    """The broker refused, or answered something else than was asked for."""


@contextmanager
def no_collector() -> Iterator[None]:
    """The load's own garbage collector must not show in the figures."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def body_of(frame: bytes, answer: bytes) -> Any:
    """The answer to a request, decoded as the request's own header says."""
    api_key, version = _KEY.unpack_from(frame, _SIZE.size)
    return decode_response(api_key, version, answer)[1]


class Loader:
    """One connection."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, timeout=ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(RECEIVE_BYTES)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- one at a time

    def send(self, frame: bytes | bytearray) -> None:
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """One whole answer, without the size."""
        size = _SIZE.unpack(self._read(_SIZE.size))[0]
        return self._read(size)

    def ask(self, frame: bytes | bytearray) -> bytes:
        """Send one request and return its whole answer, without the size."""
        self.send(frame)
        return self.receive()

    def call(self, frame: bytes) -> Any:
        """Send one request and return the decoded body of its answer."""
        return body_of(frame, self.ask(frame))

    def call_many(self, frames: Sequence[bytes], in_flight: int = 200) -> list[Any]:
        """Many requests, `in_flight` of them at a time, off the clock; returns the decoded bodies in order."""
        bodies: list[Any] = []
        for at in range(0, len(frames), in_flight):
            some = frames[at : at + in_flight]
            self.send(b"".join(some))
            bodies += [body_of(frame, self.receive()) for frame in some]
        return bodies

    def _read(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            more = self._socket.recv(count - len(content))
            if not more:
                raise UnexpectedAnswer("the connection ended inside an answer")
            content += more
        return content

    def create_topics(self, names: list[str]) -> None:
        """Topics with as many partitions as the broker's default; returns once each of them is led."""
        frame = metadata_frame(names)
        deadline = time.monotonic() + ANSWER_S_MAX
        while True:
            _, body = decode_response(ApiKey.METADATA, METADATA_VERSION, self.ask(frame))
            codes = {topic.error_code for topic in body.topics}
            if codes == {0} and len(body.topics) == len(names):
                break
            if time.monotonic() > deadline:
                raise UnexpectedAnswer(f"topics are not there, error codes {sorted(codes)}")
        for name in names:  # Kafka names a leader before that knows of the topic itself
            while -1 in self.end_offsets(name):
                if time.monotonic() > deadline:
                    raise UnexpectedAnswer(f"{name} has no leader that answers")

    def produce(self, frame: bytes) -> int:
        """One request, answer decoded; returns the size of such an answer, its own four bytes included."""
        answer = self.ask(frame)
        _, body = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, answer)
        codes = {one.error_code for topic in body.responses for one in topic.partition_responses}
        if codes != {0}:
            raise UnexpectedAnswer(f"produce was refused, error codes {sorted(codes)}")
        return len(answer) + _SIZE.size

    def end_offsets(self, topic: str, partitions: range = range(1)) -> list[int]:
        frame = latest_frame(topic, partitions)
        _, body = decode_response(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, self.ask(frame))
        return [one.offset for one in body.topics[0].partitions]

    # -- against the clock

    def latencies_us(
        self, frame: bytes, answer_bytes: int, count: int, between: Callable[[], None]
    ) -> list[float]:
        """One request in flight: time from send to the last byte of the answer. `between` runs off the clock."""
        times_us: list[float] = []
        clock, send, receive = time.perf_counter_ns, self._socket.sendall, self._socket.recv_into
        buffer = self._buffer
        with no_collector():
            for _ in range(count):
                start_ns = clock()
                send(frame)
                left = answer_bytes
                while left > 0:
                    left -= self._count(receive(buffer))
                times_us.append((clock() - start_ns) / 1000)
                between()
        return times_us

    def pipeline_s(self, frame: bytes, answer_bytes: int, count: int, in_flight: int) -> float:
        """Seconds for `count` requests with at most `in_flight` of them unanswered."""
        per_chunk = max(1, min(in_flight // 2, CHUNK_BYTES // len(frame)))
        chunk = memoryview(frame * per_chunk)
        sent = received_bytes = 0
        total_bytes = count * answer_bytes
        send, receive, buffer = self._socket.sendall, self._socket.recv_into, self._buffer
        with no_collector():
            start_ns = time.perf_counter_ns()
            while received_bytes < total_bytes:
                room = min(in_flight - (sent - received_bytes // answer_bytes), count - sent)
                while room >= per_chunk or 0 < room == count - sent:
                    now = min(per_chunk, room)
                    send(chunk[: now * len(frame)])
                    sent += now
                    room -= now
                received_bytes += self._count(receive(buffer))
            return (time.perf_counter_ns() - start_ns) / 1e9

    def _count(self, received: int) -> int:
        if not received:
            raise UnexpectedAnswer("the connection ended inside an answer")
        return received


class Reader:
    """One connection that fetches a partition in order."""

    def __init__(self, address: Address, topic: str, bytes_max: int) -> None:
        self._socket = socket.create_connection(address, timeout=ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(bytes_max * 2 + RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._request = FetchFrame(topic, bytes_max)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def request_bytes(self) -> int:
        return len(self._request.at(0))

    def fetch(self, offset: int) -> memoryview:
        """One whole answer, size included; valid until the next call."""
        self._socket.sendall(self._request.at(offset))
        end, wanted = 0, _SIZE.size
        while end < wanted:
            received = self._socket.recv_into(self._view[end:])
            if not received:
                raise UnexpectedAnswer("the connection ended inside an answer")
            end += received
            if wanted == _SIZE.size and end >= wanted:
                wanted += _SIZE.unpack_from(self._buffer)[0]
        return self._view[:wanted]

    def records(self, answer: memoryview) -> Any:
        """The record bytes in an answer."""
        _, body = decode_response(ApiKey.FETCH, FETCH_VERSION, answer[_SIZE.size :])
        part = body.responses[0].partitions[0]
        if body.error_code or part.error_code:
            raise UnexpectedAnswer(f"fetch was refused, error codes {body.error_code} and {part.error_code}")
        return part.records

    def replay(self, end_offset: int) -> tuple[int, float]:
        """Read from the start until `end_offset`; returns the bytes of records and the seconds."""
        offset = total_bytes = 0
        with no_collector():
            start_ns = time.perf_counter_ns()
            while offset < end_offset:
                records = self.records(self.fetch(offset))
                total_bytes += len(records)
                offset = next_offset(records)
            return total_bytes, (time.perf_counter_ns() - start_ns) / 1e9

    def replay_same(self, count: int) -> tuple[int, float]:
        """The same work over answers that repeat, for the ceiling of this reader."""
        total_bytes = 0
        with no_collector():
            start_ns = time.perf_counter_ns()
            for _ in range(count):
                records = self.records(self.fetch(0))
                total_bytes += len(records)
                next_offset(records)
            return total_bytes, (time.perf_counter_ns() - start_ns) / 1e9


def next_offset(records: Any) -> int:
    """The offset behind the last whole batch."""
    position = 0
    offset = -1
    while position + _BATCH.size <= len(records):
        base_offset, length, last_delta = _BATCH.unpack_from(records, position)
        position += length + _BATCH_PREFIX_BYTES
        if position > len(records):
            break
        offset = base_offset + last_delta + 1
    if offset < 0:
        raise UnexpectedAnswer("a fetch below the end brought no batch")
    return offset
