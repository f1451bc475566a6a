"""RabbitMQ's stream protocol on a bare socket. Never looks into a chunk beyond its header."""

from __future__ import annotations

from struct import Struct, pack

from penstock.apps.measuring.loader import UnexpectedAnswer
from penstock.apps.race.lanes.kafka import Answers
from penstock.apps.race.lanes.lane import Address, Link, Load
from penstock.apps.race.payload import payload

CREDIT = 10
OK = 1
ANSWER = 0x8000
DECLARE_PUBLISHER, PUBLISH, CONFIRM, PUBLISH_ERROR = 1, 2, 3, 4
SUBSCRIBE, DELIVER, CREDIT_MORE, CREATE, DELETE = 7, 8, 9, 13, 14
PEER_PROPERTIES, SASL_HANDSHAKE, SASL_AUTHENTICATE, TUNE, OPEN, HEARTBEAT = 17, 18, 19, 20, 21, 23
FROM_FIRST, FROM_NEXT = 1, 3

_HEAD = Struct(">HH")
_ANSWERED = Struct(">HHIH")
_TUNED = Struct(">HHII")
_CONFIRMED = Struct(">HHBI")
_CHUNK = Struct(">HHBbbHI")
"""Key, version, subscription, then of the chunk: magic, type, entries, records."""


def text(value: str) -> bytes:
    content = value.encode()
    return pack(">h", len(content)) + content


def frame(key: int, *pieces: bytes) -> bytes:
    body = _HEAD.pack(key, 1) + b"".join(pieces)
    return pack(">I", len(body)) + body


class StreamLink(Link):
    """A connection that is logged in and has its virtual host open."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.ask(PEER_PROPERTIES, pack(">i", 0))
        self.ask(SASL_HANDSHAKE)
        login = b"\0guest\0guest"
        self.ask(SASL_AUTHENTICATE, text("PLAIN"), pack(">i", len(login)), login)
        key, _, frame_bytes_max, _ = _TUNED.unpack(self._whole())
        if key != TUNE:
            raise UnexpectedAnswer(f"RabbitMQ sent {key} where it should tune")
        self.send(frame(TUNE, pack(">II", frame_bytes_max, 0)))
        self.ask(OPEN, text("/"))

    def ask(self, key: int, *pieces: bytes) -> None:
        """One request and its good answer, off the clock."""
        self.send(frame(key, pack(">I", 1), *pieces))
        answered, _, _, code = _ANSWERED.unpack_from(self._whole())
        if answered != key | ANSWER or code != OK:
            raise UnexpectedAnswer(f"RabbitMQ answered {answered:#x} with code {code} to {key}")

    def _whole(self) -> bytes:
        return self.read(int.from_bytes(self.read(4), "big"))


class StreamLane:
    """One stream."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self._address = address
        self._size = size
        self._stream = stream

    def make_stream(self) -> None:
        link = StreamLink(self._address)
        link.ask(CREATE, text(self._stream), pack(">i", 0))
        link.close()

    def drop_stream(self) -> None:
        link = StreamLink(self._address)
        link.ask(DELETE, text(self._stream))
        link.close()

    def feed(self) -> StreamFeed:
        return StreamFeed(self._address, self._size, self._stream)

    def tail(self, *, from_start: bool) -> StreamTail:
        return StreamTail(self._address, self._stream, FROM_FIRST if from_start else FROM_NEXT)


class StreamFeed:
    """Many messages a frame; a publisher without a name may use one number again."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self.link = StreamLink(address)
        self.link.ask(DECLARE_PUBLISHER, pack(">B", 1), text(""), text(stream))
        self._value = payload(size)
        self._answers = Answers()

    def load(self, messages: int) -> Load:
        one = pack(">QI", 1, len(self._value)) + self._value
        return Load(frame(PUBLISH, pack(">Bi", 1, messages), one * messages), messages)

    @property
    def acks(self) -> StreamFeed:
        return self

    def take(self, received: memoryview) -> int:
        confirmed = 0
        for answer in self._answers.take(received):
            key, _ = _HEAD.unpack_from(answer)
            if key == CONFIRM:
                confirmed += _CONFIRMED.unpack_from(answer)[3]
            elif key != HEARTBEAT:
                raise UnexpectedAnswer(f"RabbitMQ sent {key} to a publisher")
        return confirmed


class StreamTail:
    """Chunks as they come; each gives back the credit for another."""

    def __init__(self, address: Address, stream: str, where: int) -> None:
        self.link = StreamLink(address)
        self._stream = stream
        self._where = where
        self._answers = Answers()
        self._more = frame(CREDIT_MORE, pack(">BH", 1, 1))

    def start(self) -> None:
        spec = pack(">H", self._where)
        self.link.ask(SUBSCRIBE, pack(">B", 1), text(self._stream), spec, pack(">H", CREDIT), pack(">i", 0))

    @property
    def messages(self) -> StreamTail:
        return self

    def take(self, received: memoryview) -> int:
        came = 0
        for answer in self._answers.take(received):
            key, _ = _HEAD.unpack_from(answer)
            if key == DELIVER:
                came += _CHUNK.unpack_from(answer)[6]
                self.link.send(self._more)
            elif key != HEARTBEAT:
                raise UnexpectedAnswer(f"RabbitMQ sent {key} to a subscriber")
        return came
