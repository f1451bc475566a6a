"""Redis streams over RESP on a bare socket. Uses no client library except the parser hiredis."""

from __future__ import annotations

from typing import Any

import hiredis

from penstock.apps.bench.compare.drivers.driver import Load
from penstock.apps.bench.harness.link import Address, Link, UnexpectedResponse
from penstock.apps.bench.harness.payload import payload

READ_COUNT = 1_000
GROUP = b"workers"


def encode_command(*arguments: bytes) -> bytes:
    """One command encoded as RESP."""
    return b"*%d\r\n" % len(arguments) + b"".join(
        b"$%d\r\n%s\r\n" % (len(argument), argument) for argument in arguments
    )


class RedisLink(Link):
    """A socket with a RESP parser."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.parser = hiredis.Reader()

    def ask(self, *arguments: bytes) -> Any:
        """Send one command and return its response; not timed."""
        self.send(encode_command(*arguments))
        while (response := self.parser.gets()) is False:
            self.parser.feed(self.receive())  # type: ignore[arg-type]  # accepts any buffer
        if isinstance(response, Exception):
            raise UnexpectedResponse(str(response))
        return response

    def responses(self, received: memoryview) -> list[Any]:
        """All responses that are now complete."""
        self.parser.feed(received)  # type: ignore[arg-type]  # accepts any buffer
        found = []
        while (response := self.parser.gets()) is not False:
            if isinstance(response, Exception):
                raise UnexpectedResponse(str(response))
            found.append(response)
        return found


class RedisDriver:
    """One stream."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self._address = address
        self._size = size
        self._stream = stream.encode()

    def create_stream(self) -> None:
        """XADD creates it."""

    def delete_stream(self) -> None:
        link = RedisLink(self._address)
        link.ask(b"UNLINK", self._stream)
        link.close()

    def writer(self) -> RedisWriter:
        return RedisWriter(self._address, self._size, self._stream)

    def reader(self, *, from_start: bool) -> RedisReader:
        return RedisReader(self._address, self._stream, b"0-0" if from_start else b"$")

    def create_group(self) -> None:
        link = RedisLink(self._address)
        link.ask(b"XGROUP", b"CREATE", self._stream, GROUP, b"0", b"MKSTREAM")
        link.close()

    def worker(self, number: int, window: int) -> RedisWorker:
        return RedisWorker(self._address, self._stream, number, window)


class RedisWriter:
    """Pipelined XADD commands."""

    def __init__(self, address: Address, size: int, stream: bytes) -> None:
        self.link = RedisLink(address)
        self._stream = stream
        self._value = payload(size)

    def load(self, messages: int) -> Load:
        return Load(encode_command(b"XADD", self._stream, b"*", b"v", self._value) * messages, messages)

    @property
    def acks(self) -> RedisWriter:
        return self

    def take(self, received: memoryview) -> int:
        return len(self.link.responses(received))


class RedisReader:
    """Sends one XREAD after another, each from the last entry of the previous one."""

    def __init__(self, address: Address, stream: bytes, after: bytes) -> None:
        self.link = RedisLink(address)
        self._stream = stream
        if after == b"$":
            last = self.link.ask(b"XREVRANGE", stream, b"+", b"-", b"COUNT", b"1")
            after = last[0][0] if last else b"0-0"
        self._after = after

    def start(self) -> None:
        arguments = (
            b"XREAD",
            b"COUNT",
            b"%d" % READ_COUNT,
            b"BLOCK",
            b"0",
            b"STREAMS",
            self._stream,
            self._after,
        )
        self.link.send(encode_command(*arguments))

    @property
    def messages(self) -> RedisReader:
        return self

    def take(self, received: memoryview) -> int:
        count = 0
        for response in self.link.responses(received):
            entries = response[0][1]
            self._after = entries[-1][0]
            count += len(entries)
            self.start()
        return count


class RedisWorker:
    """Sends XREADGROUP, then one XACK per entry."""

    def __init__(self, address: Address, stream: bytes, number: int, window: int) -> None:
        self.link = RedisLink(address)
        self._stream = stream
        name, count = b"w%d" % number, b"%d" % window
        arguments = (
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
        self._more = encode_command(*arguments)

    def start(self) -> None:
        self.link.send(self._more)

    @property
    def messages(self) -> RedisWorker:
        return self

    def take(self, received: memoryview) -> int:
        count = 0
        for response in self.link.responses(received):
            if isinstance(response, int):
                continue
            entries = response[0][1]
            count += len(entries)
            self.link.send(
                b"".join(encode_command(b"XACK", self._stream, GROUP, entry[0]) for entry in entries)
                + self._more
            )
        return count
