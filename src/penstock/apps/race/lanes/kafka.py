"""Kafka's protocol on a bare socket: Penstock's lane, and Apache Kafka's. Never uses a client library."""

from __future__ import annotations

import time
from struct import Struct
from typing import cast

from penstock.apps.measuring.frames import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    FetchFrame,
    delete_topic_frame,
    produce_frame,
)
from penstock.apps.measuring.loader import Loader, UnexpectedAnswer, next_offset
from penstock.apps.race.lanes.lane import Address, Link, Load
from penstock.apps.race.payload import payload
from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch
from penstock.wire.kafka import ApiKey, decode_response, encode_response, messages

FETCH_BYTES = 1 << 20
_SIZE = Struct(">i")
_SENTINEL = 0x5EED


class KafkaLane:
    """One topic of one partition."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self._address = address
        self._size = size
        self.topic = stream

    def make_stream(self) -> None:
        with Loader(self._address) as loader:
            loader.create_topics([self.topic])

    def drop_stream(self) -> None:
        with Loader(self._address) as loader:
            (dropped,) = loader.call(delete_topic_frame(self.topic)).responses
        if dropped.error_code:
            raise UnexpectedAnswer(f"{self.topic} was not deleted, error code {dropped.error_code}")

    def feed(self) -> KafkaFeed:
        return KafkaFeed(self._address, self._size, self.topic)

    def tail(self, *, from_start: bool) -> KafkaTail:
        start = 0
        if not from_start:
            with Loader(self._address) as loader:
                (start,) = loader.end_offsets(self.topic)
        return KafkaTail(self._address, self.topic, start)


class Answers:
    """Cuts whole answers out of what comes in."""

    def __init__(self) -> None:
        self._held = bytearray()

    def take(self, received: memoryview) -> list[memoryview]:
        """The answers that are whole now, without their size; valid until the next call."""
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


def _place_of_code(topic: str) -> int:
    """Where the error code lies in the answer to a Produce of one partition, its size left out."""
    answer = messages.ProduceResponse
    one = answer.PartitionProduceResponse(index=0, error_code=_SENTINEL, base_offset=0)
    only = answer.TopicProduceResponse(name=topic, partition_responses=[one])
    encoded = encode_response(ApiKey.PRODUCE, PRODUCE_VERSION, 1, answer(responses=[only]))
    frame = b"".join(cast("list[bytes]", encoded))
    return frame.index(_SENTINEL.to_bytes(2, "big")) - _SIZE.size


class KafkaFeed:
    """One batch a request; its own counter of acknowledgements. Of an answer it looks at the error code alone."""

    def __init__(self, address: Address, size: int, topic: str) -> None:
        self.link = Link(address)
        self._topic = topic
        self._value = payload(size)
        self._answers = Answers()
        self._messages_per_answer = 0
        self._code_at = _place_of_code(topic)

    def load(self, messages: int) -> Load:
        batch = bytes(build_batch([NewRecord(None, self._value)] * messages, time.time_ns() // 1_000_000))
        self._messages_per_answer = messages
        return Load(produce_frame(self._topic, batch), messages)

    @property
    def acks(self) -> KafkaFeed:
        return self

    def take(self, received: memoryview) -> int:
        answers = self._answers.take(received)
        at = self._code_at
        for answer in answers:
            if answer[at] or answer[at + 1]:
                raise UnexpectedAnswer(
                    f"produce was refused: {decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, answer)[1]}"
                )
        return len(answers) * self._messages_per_answer


class WholeLink(Link):
    """Receives one large answer after another, each into one piece of memory."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._whole = memoryview(bytearray(2 * FETCH_BYTES))
        self._end = 0

    def receive(self) -> memoryview:
        count = self.socket.recv_into(self._whole[self._end :])
        if not count:
            raise UnexpectedAnswer("the connection ended in the middle of a row")
        self._end += count
        return self._whole[: self._end]

    def taken(self) -> memoryview | None:
        """The answer without its size, once all of it is there; valid until the next receive."""
        end = self._end
        if end < _SIZE.size or end < (size := _SIZE.size + _SIZE.unpack_from(self._whole)[0]):
            return None
        assert end == size, "an answer that was not asked for"
        self._end = 0
        return self._whole[_SIZE.size : size]


class KafkaTail:
    """Fetches one after another, each asked for as soon as the one before is there."""

    def __init__(self, address: Address, topic: str, start: int) -> None:
        self.link = WholeLink(address)
        self._request = FetchFrame(topic, FETCH_BYTES)
        self._offset = start

    def start(self) -> None:
        self.link.send(self._request.at(self._offset))

    @property
    def messages(self) -> KafkaTail:
        return self

    def take(self, received: memoryview) -> int:
        del received  # it lies in the link's own memory, behind what came before
        answer = self.link.taken()
        if answer is None:
            return 0
        _, body = decode_response(ApiKey.FETCH, FETCH_VERSION, answer)
        part = body.responses[0].partitions[0]
        if body.error_code or part.error_code:
            raise UnexpectedAnswer(f"fetch was refused, error codes {body.error_code} and {part.error_code}")
        before = self._offset
        if part.records:
            self._offset = next_offset(part.records)
        self.start()
        return self._offset - before
