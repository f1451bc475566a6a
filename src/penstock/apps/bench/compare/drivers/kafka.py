"""Kafka's protocol on a bare socket, for Penstock and Apache Kafka. Uses no client library."""

from __future__ import annotations

import time
from struct import Struct
from typing import cast

from penstock.apps.bench.compare.drivers.driver import Load
from penstock.apps.bench.harness.frames import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    FetchFrame,
    delete_topic_frame,
    produce_frame,
)
from penstock.apps.bench.harness.link import Address, Link, UnexpectedResponse, received
from penstock.apps.bench.harness.loader import Loader, next_offset
from penstock.apps.bench.harness.payload import payload
from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch
from penstock.wire.kafka import ApiKey, decode_response, encode_response, messages

FETCH_BYTES = 1 << 20
_SIZE = Struct(">i")
_SENTINEL = 0x5EED


class KafkaDriver:
    """One topic with one partition."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self._address = address
        self._size = size
        self.topic = stream

    def create_stream(self) -> None:
        with Loader(self._address) as loader:
            loader.create_topics([self.topic])

    def delete_stream(self) -> None:
        with Loader(self._address) as loader:
            (dropped,) = loader.call(delete_topic_frame(self.topic)).responses
        if dropped.error_code:
            raise UnexpectedResponse(f"cannot delete {self.topic}, error code {dropped.error_code}")

    def writer(self) -> KafkaWriter:
        return KafkaWriter(self._address, self._size, self.topic)

    def reader(self, *, from_start: bool) -> KafkaReader:
        start = 0
        if not from_start:
            with Loader(self._address) as loader:
                (start,) = loader.end_offsets(self.topic)
        return KafkaReader(self._address, self.topic, start)


class ResponseSplitter:
    """Splits received bytes into whole responses with a four-byte size field."""

    def __init__(self) -> None:
        self._held = bytearray()

    def take(self, received: memoryview) -> list[memoryview]:
        """The responses that are now complete, without their size field; the views are valid until the next call."""
        held = self._held
        if held:
            held += received
            source = memoryview(bytes(held))
            held.clear()
        else:
            source = received
        found, position = [], 0
        while len(source) - position >= _SIZE.size:
            end = position + _SIZE.size + _SIZE.unpack_from(source, position)[0]
            if end > len(source):
                break
            found.append(source[position + _SIZE.size : end])
            position = end
        held += source[position:]
        return found


def _error_code_position(topic: str) -> int:
    """Position of the error code in the response to a Produce of one partition, without the size field."""
    response = messages.ProduceResponse
    one = response.PartitionProduceResponse(index=0, error_code=_SENTINEL, base_offset=0)
    only = response.TopicProduceResponse(name=topic, partition_responses=[one])
    encoded = encode_response(ApiKey.PRODUCE, PRODUCE_VERSION, 1, response(responses=[only]))
    frame = b"".join(cast("list[bytes]", encoded))
    return frame.index(_SENTINEL.to_bytes(2, "big")) - _SIZE.size


class KafkaWriter:
    """Sends one batch per request and checks only the error code of each response."""

    def __init__(self, address: Address, size: int, topic: str, partition: int = 0) -> None:
        self.link = Link(address)
        self._topic = topic
        self._partition = partition
        self._value = payload(size)
        self._splitter = ResponseSplitter()
        self._messages_per_response = 0
        self._code_at = _error_code_position(topic)

    def load(self, messages: int) -> Load:
        batch = bytes(build_batch([NewRecord(None, self._value)] * messages, time.time_ns() // 1_000_000))
        self._messages_per_response = messages
        return Load(produce_frame(self._topic, batch, (self._partition,)), messages)

    @property
    def acks(self) -> KafkaWriter:
        return self

    def take(self, received: memoryview) -> int:
        responses = self._splitter.take(received)
        at = self._code_at
        for response in responses:
            if response[at] or response[at + 1]:
                raise UnexpectedResponse(
                    f"produce was rejected: {decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, response)[1]}"
                )
        return len(responses) * self._messages_per_response


class FetchLink(Link):
    """Receives one large response after another, each into contiguous memory."""

    def __init__(self, address: Address) -> None:
        super().__init__(address, receive_bytes=2 * FETCH_BYTES)
        self._end = 0

    def receive(self) -> memoryview:
        self._end += received(self.socket.recv_into(self.view[self._end :]))
        return self.view[: self._end]

    def taken(self) -> memoryview | None:
        """The response without its size field once it is complete; the view is valid until the next receive."""
        end = self._end
        if end < _SIZE.size or end < (size := _SIZE.size + _SIZE.unpack_from(self.view)[0]):
            return None
        assert end == size, "a response without a request"
        self._end = 0
        return self.view[_SIZE.size : size]


class KafkaReader:
    """Sends one Fetch after another, each as soon as the previous response is complete."""

    def __init__(self, address: Address, topic: str, start: int) -> None:
        self.link = FetchLink(address)
        self._request = FetchFrame(topic, FETCH_BYTES)
        self._offset = start

    def start(self) -> None:
        self.link.send(self._request.at(self._offset))

    @property
    def messages(self) -> KafkaReader:
        return self

    def take(self, received: memoryview) -> int:
        del received  # it is part of the link's own buffer
        response = self.link.taken()
        if response is None:
            return 0
        _, body = decode_response(ApiKey.FETCH, FETCH_VERSION, response)
        part = body.responses[0].partitions[0]
        if body.error_code or part.error_code:
            raise UnexpectedResponse(
                f"fetch was rejected, error codes {body.error_code} and {part.error_code}"
            )
        before = self._offset
        if part.records:
            self._offset = next_offset(part.records)
        self.start()
        return self._offset - before
