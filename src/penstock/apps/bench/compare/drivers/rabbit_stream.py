"""RabbitMQ's stream protocol on a bare socket. Reads only the header of a chunk."""

from __future__ import annotations

from struct import Struct, pack

from penstock.apps.bench.compare.drivers.driver import Load
from penstock.apps.bench.compare.drivers.kafka import ResponseSplitter
from penstock.apps.bench.harness.link import Address, Link, UnexpectedResponse
from penstock.apps.bench.harness.payload import payload

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


def encode_text(value: str) -> bytes:
    content = value.encode()
    return pack(">h", len(content)) + content


def encode_stream_frame(key: int, *pieces: bytes) -> bytes:
    body = _HEAD.pack(key, 1) + b"".join(pieces)
    return pack(">I", len(body)) + body


class StreamLink(Link):
    """A connection after login, with its virtual host open."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.ask(PEER_PROPERTIES, pack(">i", 0))
        self.ask(SASL_HANDSHAKE)
        login = b"\0guest\0guest"
        self.ask(SASL_AUTHENTICATE, encode_text("PLAIN"), pack(">i", len(login)), login)
        key, _, frame_bytes_max, _ = _TUNED.unpack(self._whole())
        if key != TUNE:
            raise UnexpectedResponse(f"RabbitMQ sent {key} instead of TUNE")
        self.send(encode_stream_frame(TUNE, pack(">II", frame_bytes_max, 0)))
        self.ask(OPEN, encode_text("/"))

    def ask(self, key: int, *pieces: bytes) -> None:
        """Send one request and check that it succeeded; not timed."""
        self.send(encode_stream_frame(key, pack(">I", 1), *pieces))
        answered, _, _, code = _ANSWERED.unpack_from(self._whole())
        if answered != key | ANSWER or code != OK:
            raise UnexpectedResponse(f"RabbitMQ replied {answered:#x} with code {code} to {key}")

    def _whole(self) -> bytes:
        return self.read(int.from_bytes(self.read(4), "big"))


class RabbitStreamDriver:
    """One stream."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self._address = address
        self._size = size
        self._stream = stream

    def create_stream(self) -> None:
        link = StreamLink(self._address)
        link.ask(CREATE, encode_text(self._stream), pack(">i", 0))
        link.close()

    def delete_stream(self) -> None:
        link = StreamLink(self._address)
        link.ask(DELETE, encode_text(self._stream))
        link.close()

    def writer(self) -> RabbitStreamWriter:
        return RabbitStreamWriter(self._address, self._size, self._stream)

    def reader(self, *, from_start: bool) -> RabbitStreamReader:
        return RabbitStreamReader(self._address, self._stream, FROM_FIRST if from_start else FROM_NEXT)


class RabbitStreamWriter:
    """Many messages per frame; a publisher without a name may repeat a publishing id."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self.link = StreamLink(address)
        self.link.ask(DECLARE_PUBLISHER, pack(">B", 1), encode_text(""), encode_text(stream))
        self._value = payload(size)
        self._splitter = ResponseSplitter()

    def load(self, messages: int) -> Load:
        one = pack(">QI", 1, len(self._value)) + self._value
        return Load(encode_stream_frame(PUBLISH, pack(">Bi", 1, messages), one * messages), messages)

    @property
    def acks(self) -> RabbitStreamWriter:
        return self

    def take(self, received: memoryview) -> int:
        confirmed = 0
        for response in self._splitter.take(received):
            key, _ = _HEAD.unpack_from(response)
            if key == CONFIRM:
                confirmed += _CONFIRMED.unpack_from(response)[3]
            elif key != HEARTBEAT:
                raise UnexpectedResponse(f"RabbitMQ sent {key} to a publisher")
        return confirmed


class RabbitStreamReader:
    """Receives chunks and returns one credit for each."""

    def __init__(self, address: Address, stream: str, where: int) -> None:
        self.link = StreamLink(address)
        self._stream = stream
        self._where = where
        self._splitter = ResponseSplitter()
        self._more = encode_stream_frame(CREDIT_MORE, pack(">BH", 1, 1))

    def start(self) -> None:
        spec = pack(">H", self._where)
        self.link.ask(
            SUBSCRIBE, pack(">B", 1), encode_text(self._stream), spec, pack(">H", CREDIT), pack(">i", 0)
        )

    @property
    def messages(self) -> RabbitStreamReader:
        return self

    def take(self, received: memoryview) -> int:
        count = 0
        for response in self._splitter.take(received):
            key, _ = _HEAD.unpack_from(response)
            if key == DELIVER:
                count += _CHUNK.unpack_from(response)[6]
                self.link.send(self._more)
            elif key != HEARTBEAT:
                raise UnexpectedResponse(f"RabbitMQ sent {key} to a subscriber")
        return count
