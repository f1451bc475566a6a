"""A client of the queue door on a line without a socket, and a broker in memory behind it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from in_process_client import Line, receive
from manual_ports import turns
from memory_broker import SETTINGS, until, with_broker
from penstock.apps.doorways import Doorways
from penstock.node.broker import Broker
from penstock.wire.queue.frames import Frame, FrameStream, MessageType, encode


class Peer:
    """One client: sends frames or bytes, reads frames."""

    def __init__(self, doors: Doorways) -> None:
        self.connection = doors.listeners["queue"].connect()
        self.line = Line(self.connection)
        self._stream = FrameStream(1 << 20)
        self._frames: list[Frame] = []
        self.connection.connection_made(self.line)  # type: ignore[arg-type]

    def feed(self, content: bytes) -> None:
        receive(self.connection, self.line, content)

    def send(
        self, kind: MessageType, *properties: str, sequence: int = -1, body: bytes = b"", time_ms: int = 0
    ) -> None:
        pairs = tuple((name, value) for name, _, value in (one.partition("=") for one in properties))
        self.feed(encode(Frame(kind, sequence, time_ms, pairs, body)))

    def _take(self) -> list[Frame]:
        self._frames += self._stream.feed(bytes(self.line.sent))
        self.line.sent.clear()
        return self._frames

    async def read(self, count: int = 1) -> list[Frame]:
        """So many frames."""
        await until(lambda: len(self._take()) >= count)
        found, self._frames = self._frames[:count], self._frames[count:]
        return found

    async def rest(self) -> list[Frame]:
        """What comes without waiting for it."""
        await turns()
        found, self._frames = self._take(), []
        return found

    async def ask(self, kind: MessageType, *properties: str, **more: Any) -> dict[str, str]:
        """The words of the answer."""
        self.send(kind, *properties, **more)
        (answer,) = await self.read()
        return dict(answer.properties)

    async def refused(self, kind: MessageType, *properties: str, **more: Any) -> tuple[str, str]:
        """(code, words) of the error that answers it."""
        words = await self.ask(kind, *properties, **more)
        assert words["@status"] == "error", words
        return words["@code"], words["@error"]

    async def subscribe(self, name: str, *properties: str) -> None:
        words = await self.ask(MessageType.SUBSCRIBE, f"@subscription={name}", *properties)
        assert words["@status"] == "success", words


Talk = Callable[[Doorways, Broker], Coroutine[Any, Any, None]]


def at_the_queue_door(talk: Talk, **settings: Any) -> None:
    """Run a talk with a broker of its own."""

    async def test(broker: Broker) -> None:
        await talk(Doorways(broker), broker)

    with_broker(test, replace(SETTINGS, queue_port=0, **settings))
