"""RabbitMQ's quorum queues over AMQP 0-9-1 on a bare socket. Uses no client library."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, pack

from penstock.apps.bench.compare.drivers.driver import Load
from penstock.apps.bench.harness.link import Address, Link, UnexpectedResponse
from penstock.apps.bench.harness.payload import payload

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
END = b"\xce"
_HEAD = Struct(">BHI")
_METHOD = Struct(">HH")
_TAG = Struct(">HHQB")
START_OK, TUNE_OK, OPEN, CHANNEL_OPEN = (10, 11), (10, 31), (10, 40), (20, 10)
QUEUE_DECLARE, QUEUE_DELETE, QOS, CONSUME, PUBLISH, ACK, DELIVER = (
    (50, 10),
    (50, 40),
    (60, 10),
    (60, 20),
    (60, 40),
    (60, 80),
    (60, 60),
)
CONFIRM_SELECT = (85, 10)
FRAME_BYTES_MAX = 1 << 17


def short(value: str) -> bytes:
    content = value.encode()
    return pack(">B", len(content)) + content


def long(value: bytes) -> bytes:
    return pack(">I", len(value)) + value


def encode_frame(kind: int, channel: int, content: bytes) -> bytes:
    return _HEAD.pack(kind, channel, len(content)) + content + END


def encode_method(channel: int, which: tuple[int, int], *pieces: bytes) -> bytes:
    return encode_frame(METHOD, channel, _METHOD.pack(*which) + b"".join(pieces))


class AmqpLink(Link):
    """A connection with one channel open."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._held = b""
        self.send(b"AMQP\0\0\x09\x01")
        self._whole()
        login = long(b"\0guest\0guest")
        self.send(encode_method(0, START_OK, long(b""), short("PLAIN"), login, short("en_US")))
        self._whole()
        self.send(encode_method(0, TUNE_OK, pack(">HIH", 1, FRAME_BYTES_MAX, 0)))
        self.ask(0, OPEN, short("/"), short(""), b"\0")
        self.ask(1, CHANNEL_OPEN, short(""))

    def ask(self, channel: int, which: tuple[int, int], *pieces: bytes) -> None:
        """Send one method and wait for its `-ok`; not timed."""
        self.send(encode_method(channel, which, *pieces))
        response = self._whole()
        answered = _METHOD.unpack_from(response)
        if answered != (which[0], which[1] + 1):
            raise UnexpectedResponse(
                f"RabbitMQ replied {answered} to {which}: {response[4:].decode(errors='replace')}"
            )

    def _whole(self) -> bytes:
        _, _, size = _HEAD.unpack(self.read(_HEAD.size))
        return self.read(size + 1)

    def frames(self, received: memoryview) -> Iterator[tuple[int, bytes]]:
        """Kind and content of each frame that is now complete."""
        content = self._held + bytes(received)
        position = 0
        while len(content) - position >= _HEAD.size:
            kind, _, size = _HEAD.unpack_from(content, position)
            end = position + _HEAD.size + size + 1
            if end > len(content):
                break
            yield kind, content[position + _HEAD.size : end - 1]
            position = end
        self._held = content[position:]


class QuorumDriver:
    """One quorum queue: flushed to disk before the confirm."""

    def __init__(self, address: Address, size: int, queue: str) -> None:
        self._address = address
        self._size = size
        self._queue = queue

    def create_stream(self) -> None:
        link = AmqpLink(self._address)
        kind = short("x-queue-type") + b"S" + long(b"quorum")
        link.ask(1, QUEUE_DECLARE, pack(">H", 0), short(self._queue), b"\x02", long(kind))
        link.close()

    def delete_stream(self) -> None:
        link = AmqpLink(self._address)
        link.ask(1, QUEUE_DELETE, pack(">H", 0), short(self._queue), b"\0")
        link.close()

    def writer(self) -> QuorumWriter:
        return QuorumWriter(self._address, self._size, self._queue)

    def create_group(self) -> None:
        """All consumers of a queue share it."""

    def worker(self, number: int, window: int) -> QuorumWorker:
        del number  # consumer tags are unique per channel
        return QuorumWorker(self._address, self._queue, window)


class QuorumWriter:
    """Publishes to the default exchange with confirms."""

    def __init__(self, address: Address, size: int, queue: str) -> None:
        self.link = AmqpLink(address)
        self.link.ask(1, CONFIRM_SELECT, b"\0")
        self._queue = queue
        self._value = payload(size)
        self._confirmed = 0
        """The tag up to which all messages are confirmed, or their number if confirmed one by one."""

    def load(self, messages: int) -> Load:
        body = self._value
        one = (
            encode_method(1, PUBLISH, pack(">H", 0), short(""), short(self._queue), b"\0")
            + encode_frame(HEADER, 1, pack(">HHQHB", 60, 0, len(body), 0x1000, 2))
            + encode_frame(BODY, 1, body)
        )
        return Load(one * messages, messages)

    @property
    def acks(self) -> QuorumWriter:
        return self

    def take(self, received: memoryview) -> int:
        before = self._confirmed
        for kind, content in self.link.frames(received):
            if kind == HEARTBEAT:
                continue
            if _METHOD.unpack_from(content) != ACK:
                raise UnexpectedResponse(f"RabbitMQ sent {_METHOD.unpack_from(content)} to a publisher")
            _, _, tag, is_multiple = _TAG.unpack_from(content)
            self._confirmed = tag if is_multiple else self._confirmed + 1
        return self._confirmed - before


class QuorumWorker:
    """Receives messages and acknowledges each."""

    def __init__(self, address: Address, queue: str, window: int) -> None:
        self.link = AmqpLink(address)
        self._queue = queue
        self.link.ask(1, QOS, pack(">IHB", 0, window, 0))

    def start(self) -> None:
        self.link.send(
            encode_method(1, CONSUME, pack(">H", 0), short(self._queue), short("w"), b"\0", long(b""))
        )

    @property
    def messages(self) -> QuorumWorker:
        return self

    def take(self, received: memoryview) -> int:
        acks = []
        for kind, content in self.link.frames(received):
            if kind == METHOD and _METHOD.unpack_from(content) == DELIVER:
                at = _METHOD.size + 1 + content[_METHOD.size]
                acks.append(encode_method(1, ACK, content[at : at + 8], b"\0"))
        if acks:
            self.link.send(b"".join(acks))
        return len(acks)
