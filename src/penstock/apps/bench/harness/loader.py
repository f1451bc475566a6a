"""Kafka requests on a bare socket, with as little work per request as Python allows: the broker is what is measured.

Requests are built before the clock starts. The first response of each kind is decoded, and callers compare the log's
end offset with what was acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from penstock.apps.bench.harness.frames import (
    LIST_OFFSETS_VERSION,
    METADATA_VERSION,
    PRODUCE_VERSION,
    latest_frame,
    metadata_frame,
)
from penstock.apps.bench.harness.link import Address, Link, UnexpectedResponse, gc_disabled, received
from penstock.wire.kafka import ApiKey, decode_response

CHUNK_BYTES = 1 << 16
"""How much a pipelined run sends in one call."""
RECEIVE_BYTES = 1 << 16
RESPONSE_S_MAX = 120.0
_SIZE = Struct(">i")
SIZE_BYTES = _SIZE.size
_KEY = Struct(">hh")
"""API key and version at the start of a request."""
_BATCH = Struct(">qi11xi")
"""Base offset, length, and the last offset delta that follows epoch, magic, checksum and attributes."""
_BATCH_PREFIX_BYTES = 12


def body_of(frame: bytes, response: bytes) -> Any:
    """The response to `frame`, decoded with the API key and version of the request."""
    api_key, version = _KEY.unpack_from(frame, _SIZE.size)
    return decode_response(api_key, version, response)[1]


class Loader:
    """One connection to a Kafka broker."""

    def __init__(self, address: Address) -> None:
        self._link = Link(address, receive_bytes=RECEIVE_BYTES, stall_s_max=RESPONSE_S_MAX)

    def close(self) -> None:
        self._link.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- untimed

    def send(self, frame: bytes | bytearray) -> None:
        self._link.send(frame)

    def receive(self) -> bytes:
        """One whole response, without its size field."""
        return self._link.read(_SIZE.unpack(self._link.read(_SIZE.size))[0])

    def ask(self, frame: bytes | bytearray) -> bytes:
        """Send one request and return its response, without the size field."""
        self.send(frame)
        return self.receive()

    def call(self, frame: bytes) -> Any:
        """Send one request and return the decoded response."""
        return body_of(frame, self.ask(frame))

    def call_many(self, frames: Sequence[bytes], in_flight: int = 200) -> list[Any]:
        """Send many requests, `in_flight` at a time; returns the decoded responses in order."""
        bodies: list[Any] = []
        for at in range(0, len(frames), in_flight):
            some = frames[at : at + in_flight]
            self.send(b"".join(some))
            bodies += [body_of(frame, self.receive()) for frame in some]
        return bodies

    def leaders(self, names: list[str]) -> dict[str, list[int]]:
        """The leader of each partition; missing topics are created. Waits until all have one."""
        frame = metadata_frame(names)
        deadline = time.monotonic() + RESPONSE_S_MAX
        while True:
            _, body = decode_response(ApiKey.METADATA, METADATA_VERSION, self.ask(frame))
            codes = {topic.error_code for topic in body.topics}
            codes |= {one.error_code for topic in body.topics for one in topic.partitions}
            if codes == {0} and len(body.topics) == len(names):
                break
            if time.monotonic() > deadline:
                raise UnexpectedResponse(f"topics have no leaders, error codes {sorted(codes)}")
        found = {}
        for topic in body.topics:
            partitions = sorted(topic.partitions, key=lambda one: int(one.partition_index))
            found[topic.name] = [one.leader_id for one in partitions]
        return found

    def controller(self) -> int:
        """The broker that this one calls the controller; -1 if it knows none."""
        _, body = decode_response(ApiKey.METADATA, METADATA_VERSION, self.ask(metadata_frame([])))
        return int(body.controller_id)

    def create_topics(self, names: list[str]) -> None:
        """Create topics with the broker's default number of partitions; returns once this broker leads them all."""
        deadline = time.monotonic() + RESPONSE_S_MAX
        self.leaders(names)
        for name in names:  # Kafka announces a leader before the leader itself knows the topic
            while -1 in self.end_offsets(name):
                if time.monotonic() > deadline:
                    raise UnexpectedResponse(f"{name} has no leader")

    def produce(self, frame: bytes) -> int:
        """Send one Produce request and check it; returns the size of such a response, including its size field."""
        response = self.ask(frame)
        _, body = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, response)
        codes = {one.error_code for topic in body.responses for one in topic.partition_responses}
        if codes != {0}:
            raise UnexpectedResponse(f"produce was rejected, error codes {sorted(codes)}")
        return len(response) + _SIZE.size

    def end_offsets(self, topic: str, partitions: range = range(1)) -> list[int]:
        frame = latest_frame(topic, partitions)
        _, body = decode_response(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, self.ask(frame))
        return [one.offset for one in body.topics[0].partitions]

    # -- timed

    def latencies_us(
        self, frame: bytes, response_bytes: int, count: int, between: Callable[[], None]
    ) -> list[float]:
        """Time from send to the last byte of the response, one request in flight. `between` runs untimed."""
        times_us: list[float] = []
        clock, link = time.perf_counter_ns, self._link
        send, receive, buffer = link.socket.sendall, link.socket.recv_into, link.buffer
        with gc_disabled():
            for _ in range(count):
                start_ns = clock()
                send(frame)
                left = response_bytes
                while left > 0:
                    left -= received(receive(buffer))
                times_us.append((clock() - start_ns) / 1000)
                between()
        return times_us

    def pipeline_s(self, frame: bytes, response_bytes: int, count: int, in_flight: int) -> float:
        """Seconds for `count` requests with at most `in_flight` outstanding."""
        per_chunk = max(1, min(in_flight // 2, CHUNK_BYTES // len(frame)))
        chunk = memoryview(frame * per_chunk)
        sent = received_bytes = 0
        total_bytes = count * response_bytes
        link = self._link
        send, receive, buffer = link.socket.sendall, link.socket.recv_into, link.buffer
        with gc_disabled():
            start_ns = time.perf_counter_ns()
            while received_bytes < total_bytes:
                room = min(in_flight - (sent - received_bytes // response_bytes), count - sent)
                while room >= per_chunk or 0 < room == count - sent:
                    now = min(per_chunk, room)
                    send(chunk[: now * len(frame)])
                    sent += now
                    room -= now
                received_bytes += received(receive(buffer))
            return (time.perf_counter_ns() - start_ns) / 1e9


def next_offset(records: Any) -> int:
    """The offset after the last complete batch."""
    position = 0
    offset = -1
    while position + _BATCH.size <= len(records):
        base_offset, length, last_delta = _BATCH.unpack_from(records, position)
        position += length + _BATCH_PREFIX_BYTES
        if position > len(records):
            break
        offset = base_offset + last_delta + 1
    if offset < 0:
        raise UnexpectedResponse("a fetch before the end returned no batch")
    return offset
