"""NATS JetStream over its text protocol on a bare socket. Uses no client library.

The payload contains no line end, so messages are counted by lines: two per message.
"""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from penstock.apps.bench.compare.drivers.driver import Load
from penstock.apps.bench.harness.link import Address, Link, UnexpectedResponse
from penstock.apps.bench.harness.payload import payload

_INBOXES = count(1)
"""Every reader needs its own subject: a message goes to all connections that subscribe to its subject."""
PULL_MESSAGES = 2_000
GROUP = "workers"
LINES_PER_MESSAGE = 2
PING = b"PING\r\n"
"""The server measures the round trip to a new client once, and tolerates a missing reply."""
SEAM_BYTES = len(PING) - 1


class NatsLink(Link):
    """A connection after the CONNECT handshake."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.read_line()  # INFO
        self.send(
            b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\nPING\r\n'
        )
        self._expect(b"PONG")

    def read_line(self) -> bytes:
        line = super().read_line()
        return super().read_line() if line + b"\r\n" == PING else line

    def _expect(self, word: bytes) -> None:
        line = self.read_line()
        if line != word:
            raise UnexpectedResponse(f"NATS sent {line.decode(errors='replace')}")

    def ask(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """One call of the JetStream API; not timed."""
        content = json.dumps(body).encode()
        self.send(b"SUB answers 9\r\nUNSUB 9 1\r\n")
        self.send(b"PUB $JS.API.%s answers %d\r\n%s\r\n" % (subject.encode(), len(content), content))
        header = self.read_line().split()
        if header[0] not in (b"MSG", b"HMSG"):
            raise UnexpectedResponse(f"NATS sent {header!r}")
        response: dict[str, Any] = json.loads(self.read(int(header[-1]) + 2))
        if "error" in response:
            raise UnexpectedResponse(f"{subject}: {response['error']}")
        return response


class NatsDriver:
    """One stream with file storage."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self._address = address
        self._size = size
        self._stream = stream

    def create_stream(self) -> None:
        link = NatsLink(self._address)
        link.ask(
            f"STREAM.CREATE.{self._stream}",
            {
                "name": self._stream,
                "subjects": [subject_of(self._stream)],
                "storage": "file",
                "retention": "limits",
                "num_replicas": 1,
            },
        )
        link.close()

    def delete_stream(self) -> None:
        link = NatsLink(self._address)
        link.ask(f"STREAM.DELETE.{self._stream}", {})
        link.close()

    def writer(self) -> NatsWriter:
        return NatsWriter(self._address, self._size, self._stream)

    def reader(self, *, from_start: bool) -> NatsReader:
        return NatsReader(self._address, self._stream, "all" if from_start else "new")

    def create_group(self) -> None:
        link = NatsLink(self._address)
        config = {
            "durable_name": GROUP,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "max_ack_pending": -1,
        }
        link.ask(
            f"CONSUMER.DURABLE.CREATE.{self._stream}.{GROUP}", {"stream_name": self._stream, "config": config}
        )
        link.close()

    def worker(self, number: int, window: int) -> NatsWorker:
        return NatsWorker(self._address, self._stream, number, window)


def subject_of(stream: str) -> str:
    return f"{stream}.in"


def new_inbox() -> bytes:
    return b"inbox.%d" % next(_INBOXES)


class Lines:
    """Counts line ends, including those split between two reads, but not the lines of a server's PING."""

    def __init__(self) -> None:
        self._tail = b""
        self._odd = 0

    def messages(self, received: memoryview) -> int:
        content = bytes(received)
        before, self._tail = self._tail, (self._tail + content[-SEAM_BYTES:])[-SEAM_BYTES:]
        seam = before + content[:SEAM_BYTES]
        lines = content.count(b"\r\n") + (before[-1:] == b"\r" and content[:1] == b"\n")
        lines -= content.count(PING) + seam.count(PING)
        whole, self._odd = divmod(lines + self._odd, LINES_PER_MESSAGE)
        return whole


class NatsWriter:
    """Publishes with a reply subject, where every message is acknowledged."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self.link = NatsLink(address)
        self._subject, self._inbox = subject_of(stream).encode(), new_inbox()
        self.link.send(b"SUB %s 1\r\n" % self._inbox)
        self._value = payload(size)
        self._lines = Lines()
        self._is_first = True

    def load(self, messages: int) -> Load:
        one = b"PUB %s %s %d\r\n%s\r\n" % (self._subject, self._inbox, len(self._value), self._value)
        return Load(one * messages, messages)

    @property
    def acks(self) -> NatsWriter:
        return self

    def take(self, received: memoryview) -> int:
        if self._is_first or b'"error"' in bytes(received):
            self._check(bytes(received))
        return self._lines.messages(received)

    def _check(self, received: bytes) -> None:
        self._is_first = False
        if not received.startswith((b"MSG", PING)) or b'"error"' in received:
            raise UnexpectedResponse(f"NATS sent {received[:200].decode(errors='replace')}")


class NatsReader:
    """A pull consumer that requests the next batch when half of one is outstanding."""

    def __init__(self, address: Address, stream: str, deliver: str) -> None:
        self.link = NatsLink(address)
        self._inbox = new_inbox()
        config = {
            "deliver_policy": deliver,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
        }
        created = self.link.ask(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{created['name']}".encode()
        self._lines = Lines()
        self._owed = 0
        self.link.send(b"SUB %s 1\r\n" % self._inbox)

    def start(self) -> None:
        while self._owed <= PULL_MESSAGES:
            body = b'{"batch":%d,"expires":%d}' % (PULL_MESSAGES, 60_000_000_000)
            self.link.send(b"PUB %s %s %d\r\n%s\r\n" % (self._next, self._inbox, len(body), body))
            self._owed += PULL_MESSAGES

    @property
    def messages(self) -> NatsReader:
        return self

    def take(self, received: memoryview) -> int:
        arrived = self._lines.messages(received)
        self._owed -= arrived
        if self._owed <= PULL_MESSAGES:
            self.start()
        return arrived


class NatsWorker:
    """Pulls a window of messages and acknowledges each on its reply subject."""

    def __init__(self, address: Address, stream: str, number: int, window: int) -> None:
        del number  # workers are told apart by their reply subject
        self.link = NatsLink(address)
        inbox = new_inbox()
        body = b'{"batch":%d,"expires":%d}' % (window, 60_000_000_000)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{GROUP}".encode()
        self._more = b"PUB %s %s %d\r\n%s\r\n" % (subject, inbox, len(body), body)
        self._window = window
        self._left = window
        self._held = b""
        self.link.send(b"SUB %s 1\r\n" % inbox)

    def start(self) -> None:
        self.link.send(self._more)

    @property
    def messages(self) -> NatsWorker:
        return self

    def take(self, received: memoryview) -> int:
        *lines, self._held = (self._held + bytes(received)).split(b"\r\n")
        if b"PING" in lines:
            lines.remove(b"PING")
        if len(lines) % LINES_PER_MESSAGE:
            self._held = lines.pop() + b"\r\n" + self._held
        acks = [b"PUB %s 4\r\n+ACK\r\n" % line.split()[3] for line in lines[::LINES_PER_MESSAGE]]
        self._left -= len(acks)
        if self._left <= 0:
            self._left += self._window
            acks.append(self._more)
        self.link.send(b"".join(acks))
        return len(lines) // LINES_PER_MESSAGE
