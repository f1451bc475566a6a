"""Penstock's queue protocol on a bare socket: publish, and workers that acknowledge each message. Uses no client."""

from __future__ import annotations

from struct import Struct

from penstock.apps.bench.compare.drivers.driver import Load
from penstock.apps.bench.harness.link import Address, Link, UnexpectedResponse
from penstock.apps.bench.harness.payload import payload
from penstock.wire.queue.frames import Frame, MessageType, decode, encode
from penstock.wire.queue.request_properties import PARTITION, SUBSCRIPTION, TOPIC, WINDOW

_HEAD = Struct(">IIq")
_SEQUENCE = Struct(">q")
SEQUENCE_AT = 8


class QueueLink(Link):
    """A connection that keeps an incomplete frame until the rest arrives."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._held = b""

    def ask(self, kind: MessageType, *properties: tuple[str, str]) -> None:
        """Send one request and check that it succeeded; not timed."""
        self.send(encode(Frame(kind, properties=properties)))
        size = self.read(4)
        response = decode(size + self.read(int.from_bytes(size, "big") - 4))
        if ("@status", "success") not in response.properties:
            raise UnexpectedResponse(f"{kind.name}: {response.properties}")

    def frames(self, received: memoryview) -> list[tuple[int, int]]:
        """Type and sequence of each frame that is now complete."""
        content = self._held + bytes(received)
        found, position = [], 0
        while len(content) - position >= _HEAD.size:
            size, kind, sequence = _HEAD.unpack_from(content, position)
            if position + size > len(content):
                break
            found.append((kind, sequence))
            position += size
        self._held = content[position:]
        return found


class QueueDriver:
    """One topic with one partition, and one subscription to it."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self._address = address
        self._size = size
        self._topic, self._group = stream, f"{stream}-workers"

    def create_stream(self) -> None:
        link = QueueLink(self._address)
        link.ask(MessageType.CREATE_TOPIC, (TOPIC, self._topic))
        link.close()

    def delete_stream(self) -> None:
        """Delete the subscription. The protocol cannot delete topics, and a run leaves only a few megabytes."""
        link = QueueLink(self._address)
        link.ask(MessageType.DELETE_SUBSCRIPTION, (SUBSCRIPTION, self._group))
        link.close()

    def create_group(self) -> None:
        link = QueueLink(self._address)
        link.ask(MessageType.CREATE_SUBSCRIPTION, (SUBSCRIPTION, self._group), (TOPIC, self._topic))
        link.close()

    def writer(self) -> QueueWriter:
        return QueueWriter(self._address, self._size, self._topic)

    def worker(self, number: int, window: int) -> QueueWorker:
        del number  # the broker assigns member names
        return QueueWorker(self._address, self._group, window)


class QueueWriter:
    """Sends PUBLISH frames; each gets a response."""

    def __init__(self, address: Address, size: int, topic: str) -> None:
        self.link = QueueLink(address)
        self._one = encode(Frame(MessageType.PUBLISH, properties=((TOPIC, topic),), body=payload(size)))

    def load(self, messages: int) -> Load:
        return Load(self._one * messages, messages)

    @property
    def acks(self) -> QueueWriter:
        return self

    def take(self, received: memoryview) -> int:
        return len(self.link.frames(received))


class QueueWorker:
    """Receives DATA frames and sends one ACK for each."""

    def __init__(self, address: Address, group: str, window: int) -> None:
        self.link = QueueLink(address)
        self._group = group
        self._window = window
        ack = encode(Frame(MessageType.ACK, properties=((SUBSCRIPTION, group), (PARTITION, "0"))))
        self._ack_start, self._ack_end = ack[:SEQUENCE_AT], ack[SEQUENCE_AT + _SEQUENCE.size :]

    def start(self) -> None:
        properties = ((SUBSCRIPTION, self._group), (WINDOW, str(self._window)))
        self.link.send(encode(Frame(MessageType.SUBSCRIBE, properties=properties)))

    @property
    def messages(self) -> QueueWorker:
        return self

    def take(self, received: memoryview) -> int:
        offsets = [offset for kind, offset in self.link.frames(received) if kind == MessageType.DATA]
        start, end, pack = self._ack_start, self._ack_end, _SEQUENCE.pack
        if offsets:
            self.link.send(b"".join([start + pack(offset) + end for offset in offsets]))
        return len(offsets)
