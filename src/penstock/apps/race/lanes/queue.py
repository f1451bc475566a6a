"""Penstock's queue door on a bare socket: publish, and workers that acknowledge each message. Never uses our client."""

from __future__ import annotations

from struct import Struct

from penstock.apps.measuring.loader import UnexpectedAnswer
from penstock.apps.race.lanes.lane import Address, Link, Load
from penstock.apps.race.payload import payload
from penstock.wire.queue.frames import Frame, MessageType, decode, encode
from penstock.wire.queue.words import PARTITION, SUBSCRIPTION, TOPIC, WINDOW

_HEAD = Struct(">IIq")
_SEQUENCE = Struct(">q")
SEQUENCE_AT = 8


class QueueLink(Link):
    """A connection with a place for half a frame."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._held = b""

    def ask(self, kind: MessageType, *properties: tuple[str, str]) -> None:
        """One request and its good answer, off the clock."""
        self.send(encode(Frame(kind, properties=properties)))
        size = self.read(4)
        answer = decode(size + self.read(int.from_bytes(size, "big") - 4))
        if ("@status", "success") not in answer.properties:
            raise UnexpectedAnswer(f"{kind.name}: {answer.properties}")

    def frames(self, received: memoryview) -> list[tuple[int, int]]:
        """Type and sequence of each frame that is whole now."""
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


class QueueLane:
    """One topic of one partition and one subscription to it."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self._address = address
        self._size = size
        self._topic, self._group = stream, f"{stream}-workers"

    def make_stream(self) -> None:
        link = QueueLink(self._address)
        link.ask(MessageType.CREATE_TOPIC, (TOPIC, self._topic))
        link.close()

    def drop_stream(self) -> None:
        """The subscription goes; this door cannot delete a topic, and a row leaves only some megabytes in it."""
        link = QueueLink(self._address)
        link.ask(MessageType.DELETE_SUBSCRIPTION, (SUBSCRIPTION, self._group))
        link.close()

    def make_group(self) -> None:
        link = QueueLink(self._address)
        link.ask(MessageType.CREATE_SUBSCRIPTION, (SUBSCRIPTION, self._group), (TOPIC, self._topic))
        link.close()

    def feed(self) -> QueueFeed:
        return QueueFeed(self._address, self._size, self._topic)

    def worker(self, number: int, window: int) -> QueueWorker:
        del number  # the broker names its members
        return QueueWorker(self._address, self._group, window)


class QueueFeed:
    """PUBLISH after PUBLISH; each is answered."""

    def __init__(self, address: Address, size: int, topic: str) -> None:
        self.link = QueueLink(address)
        self._one = encode(Frame(MessageType.PUBLISH, properties=((TOPIC, topic),), body=payload(size)))

    def load(self, messages: int) -> Load:
        return Load(self._one * messages, messages)

    @property
    def acks(self) -> QueueFeed:
        return self

    def take(self, received: memoryview) -> int:
        return len(self.link.frames(received))


class QueueWorker:
    """Takes DATA and answers each with an ACK of its own."""

    def __init__(self, address: Address, group: str, window: int) -> None:
        self.link = QueueLink(address)
        self._group = group
        self._window = window
        ack = encode(Frame(MessageType.ACK, properties=((SUBSCRIPTION, group), (PARTITION, "0"))))
        self._ack_start, self._ack_end = ack[:SEQUENCE_AT], ack[SEQUENCE_AT + _SEQUENCE.size :]

    def start(self) -> None:
        words = ((SUBSCRIPTION, self._group), (WINDOW, str(self._window)))
        self.link.send(encode(Frame(MessageType.SUBSCRIBE, properties=words)))

    @property
    def messages(self) -> QueueWorker:
        return self

    def take(self, received: memoryview) -> int:
        offsets = [offset for kind, offset in self.link.frames(received) if kind == MessageType.DATA]
        start, end, pack = self._ack_start, self._ack_end, _SEQUENCE.pack
        if offsets:
            self.link.send(b"".join([start + pack(offset) + end for offset in offsets]))
        return len(offsets)
