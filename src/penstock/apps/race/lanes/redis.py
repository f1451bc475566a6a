"""Redis streams in RESP on a bare socket, answers read by hiredis. Never uses a client library beyond that parser."""

from __future__ import annotations

from typing import Any

import hiredis

from penstock.apps.measuring.loader import UnexpectedAnswer
from penstock.apps.race.lanes.lane import Address, Link, Load
from penstock.apps.race.payload import payload

READ_COUNT = 1_000
GROUP = b"workers"


def command(*words: bytes) -> bytes:
    """One command as RESP wants it."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class RedisLink(Link):
    """A socket with a parser behind it."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.reader = hiredis.Reader()

    def ask(self, *words: bytes) -> Any:
        """One command and its answer, off the clock."""
        self.send(command(*words))
        while (answer := self.reader.gets()) is False:
            self.reader.feed(self.receive())  # type: ignore[arg-type]  # it takes any buffer
        if isinstance(answer, Exception):
            raise UnexpectedAnswer(str(answer))
        return answer

    def answers(self, received: memoryview) -> list[Any]:
        """All that are whole now."""
        self.reader.feed(received)  # type: ignore[arg-type]  # it takes any buffer
        found = []
        while (answer := self.reader.gets()) is not False:
            if isinstance(answer, Exception):
                raise UnexpectedAnswer(str(answer))
            found.append(answer)
        return found


class RedisLane:
    """One stream."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self._address = address
        self._size = size
        self._stream = stream.encode()

    def make_stream(self) -> None:
        """XADD makes it."""

    def drop_stream(self) -> None:
        link = RedisLink(self._address)
        link.ask(b"UNLINK", self._stream)
        link.close()

    def feed(self) -> RedisFeed:
        return RedisFeed(self._address, self._size, self._stream)

    def tail(self, *, from_start: bool) -> RedisTail:
        return RedisTail(self._address, self._stream, b"0-0" if from_start else b"$")

    def make_group(self) -> None:
        link = RedisLink(self._address)
        link.ask(b"XGROUP", b"CREATE", self._stream, GROUP, b"0", b"MKSTREAM")
        link.close()

    def worker(self, number: int, window: int) -> RedisWorker:
        return RedisWorker(self._address, self._stream, number, window)


class RedisFeed:
    """XADD after XADD, pipelined."""

    def __init__(self, address: Address, size: int, stream: bytes) -> None:
        self.link = RedisLink(address)
        self._stream = stream
        self._value = payload(size)

    def load(self, messages: int) -> Load:
        return Load(command(b"XADD", self._stream, b"*", b"v", self._value) * messages, messages)

    @property
    def acks(self) -> RedisFeed:
        return self

    def take(self, received: memoryview) -> int:
        return len(self.link.answers(received))


class RedisTail:
    """XREAD after XREAD, each from behind the last entry of the one before."""

    def __init__(self, address: Address, stream: bytes, after: bytes) -> None:
        self.link = RedisLink(address)
        self._stream = stream
        if after == b"$":
            last = self.link.ask(b"XREVRANGE", stream, b"+", b"-", b"COUNT", b"1")
            after = last[0][0] if last else b"0-0"
        self._after = after

    def start(self) -> None:
        words = (
            b"XREAD",
            b"COUNT",
            b"%d" % READ_COUNT,
            b"BLOCK",
            b"0",
            b"STREAMS",
            self._stream,
            self._after,
        )
        self.link.send(command(*words))

    @property
    def messages(self) -> RedisTail:
        return self

    def take(self, received: memoryview) -> int:
        came = 0
        for answer in self.link.answers(received):
            entries = answer[0][1]
            self._after = entries[-1][0]
            came += len(entries)
            self.start()
        return came


class RedisWorker:
    """XREADGROUP, then an XACK for each entry."""

    def __init__(self, address: Address, stream: bytes, number: int, window: int) -> None:
        self.link = RedisLink(address)
        self._stream = stream
        name, count = b"w%d" % number, b"%d" % window
        words = (
            b"XREADGROUP",
            b"GROUP",
            GROUP,
            name,
            b"COUNT",
            count,
            b"BLOCK",
            b"0",
            b"STREAMS",
            stream,
            b">",
        )
        self._more = command(*words)

    def start(self) -> None:
        self.link.send(self._more)

    @property
    def messages(self) -> RedisWorker:
        return self

    def take(self, received: memoryview) -> int:
        came = 0
        for answer in self.link.answers(received):
            if isinstance(answer, int):
                continue
            entries = answer[0][1]
            came += len(entries)
            self.link.send(
                b"".join(command(b"XACK", self._stream, GROUP, entry[0]) for entry in entries) + self._more
            )
        return came
