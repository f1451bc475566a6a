"""The console of a coordinator over TCP, for `nc`: lines in, text out. Loopback only.

Every connection is greeted with one line. Commands run one after another and are answered in order; a line that is not
complete when the client ends is not run. Everything that changes something needs the token: `token SECRET`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from penstock.apps.control.commands import JSON_FLAG, LINE_CHARS_MAX, is_blank
from penstock.apps.control.console import Console
from penstock.apps.control.console_token import is_same_token
from penstock.apps.control.services import ServiceError, Services
from penstock.core.errors import BrokerError, Malformed, TooLarge, message_of
from penstock.node.connections.addresses import Address, is_loopback
from penstock.node.connections.connection import Connection
from penstock.node.connections.gate import Gate
from penstock.node.connections.listener import Listener
from penstock.node.connections.outbox import Piece
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.runtime.tasks import Tasks
from penstock.node.settings import Settings
from penstock.wire.foreign_protocol import foreign_line

CONSOLE = "console"
CONSOLE_ADDRESS = Address("127.0.0.1", 8081)
CONSOLES_MAX = 32
"""Consoles at the same time; further ones get one line that says so."""
LINE_BYTES_MAX = 4 * LINE_CHARS_MAX
START_BYTES = 8
"""Enough to detect a TLS handshake, which may never end the line."""

SETTINGS = Settings(
    connections_max=2 * CONSOLES_MAX,
    connections_per_address_max=2 * CONSOLES_MAX,
    frame_bytes_max=LINE_BYTES_MAX,
    frame_ms_max=60_000,
    idle_ms_max=600_000,
    inflight_bytes_max=4 << 20,
    requests_in_flight_max=32,
    response_queue_bytes_max=1 << 20,
    drain_ms_max=500,
)
"""Limits of the console's port. Lines of a client that does not read its answers stay unread."""

PROMPT = "> "
_TOKEN_WORD = "token"
_UNKNOWN_SIZE = 0
_UNKNOWN_PEER = "?"


class LineFraming:
    """A frame is a line with its terminator."""

    prefix_bytes = 0

    def size(self, buffer: bytearray, start: int, end: int, bytes_max: int) -> int:
        at = buffer.find(b"\n", start, min(end, start + LINE_BYTES_MAX))
        if at >= 0:
            return at + 1 - start
        if foreign_line(bytes(buffer[start : min(end, start + START_BYTES)])) is not None:
            raise Malformed("the console is plain text, not TLS; closing the connection")
        if end - start >= LINE_BYTES_MAX:
            raise TooLarge(f"the line is over the limit of {LINE_BYTES_MAX} bytes; closing the connection")
        return _UNKNOWN_SIZE


class ConsoleDoor:
    """The dialect of the console."""

    name = CONSOLE

    def __init__(self, console: Console, token: str | None) -> None:
        self.console = console
        self.token = token
        self.tasks = Tasks()
        self.open_count = 0

    def open(self, connection: Connection) -> ConsoleConversation:
        return ConsoleConversation(self, connection)

    def release_waiting(self) -> None:
        """Commands that run are cancelled by whoever closes the server."""


class ConsoleConversation:
    """One console."""

    __slots__ = ("_connection", "_door", "_is_counted", "_is_trusted")

    framing = LineFraming()
    answers_after_end = True

    def __init__(self, door: ConsoleDoor, connection: Connection) -> None:
        self._door = door
        self._connection = connection
        self._is_trusted = door.token is None
        self._is_counted = False
        connection.on_close(self._left)
        connection.soon(self._greet)

    def _left(self) -> None:
        self._door.open_count -= self._is_counted

    def _greet(self) -> None:
        connection = self._connection
        if connection.peer == _UNKNOWN_PEER:  # the loop has not told yet that it is connected
            connection.soon(self._greet)
            return
        if self._door.open_count >= CONSOLES_MAX:
            connection.push((_line(f"error: there are {CONSOLES_MAX} consoles already; close one of them"),))
            connection.finish()
            return
        self._is_counted = True
        self._door.open_count += 1
        services = self._door.console.services
        asks = "" if self._is_trusted else "; changes need: token SECRET"
        greeting = f"Penstock, cluster {services.cluster_id}: {len(services.names)} services. Type help{asks}"
        connection.push((f"{greeting}\n{PROMPT}".encode(),))

    def handle(self, frame: memoryview) -> None:
        line = bytes(frame).rstrip(b"\r\n")
        connection = self._connection
        connection.timing = None
        if foreign_line(line) is not None:
            raise Malformed(
                "this is the console, which does not speak HTTP; use the port of the HTTP API (8080 by default);"
                " closing the connection"
            )
        text = line.decode("utf-8", "replace")
        words = text.split()
        if words[:1] and words[0].lower() == _TOKEN_WORD:
            self._take_token(words[1:])
        elif is_blank(text) and JSON_FLAG not in words:
            connection.answer((PROMPT.encode(),))
        else:
            connection.turns.in_turn(partial(self._begin, text, self._is_trusted))

    def _take_token(self, given: Sequence[str]) -> None:
        """A wrong token ends the connection: nobody tries many of them."""
        token = self._door.token
        if token is None:
            self._connection.answer((_line("no token is needed here", PROMPT),))
        elif len(given) == 1 and is_same_token(given[0], token):
            self._is_trusted = True
            self._connection.answer((_line("token accepted", PROMPT),))
        else:
            self._connection.answer((_line("error: this is not the token; closing the connection"),))
            self._connection.finish()

    def _begin(self, text: str, is_trusted: bool, slot: ReplySlot) -> None:
        connection = self._connection
        self._door.tasks.spawn(
            self._run(text, is_trusted, slot), lambda error: connection.close(f"defect: {error!r}")
        )

    async def _run(self, text: str, is_trusted: bool, slot: ReplySlot) -> None:
        result, as_json = await self._door.console.answer(text, is_trusted=is_trusted)
        connection = self._connection
        if connection.is_closed:
            return
        slot.answer((_line(result.render(as_json=as_json), "" if result.leaves else PROMPT),))
        if result.leaves:
            connection.finish()

    def closing_reply(self, error: BrokerError) -> Sequence[Piece]:
        return (_line(f"error: {message_of(error)}"),)


def _line(text: str, prompt: str = "") -> bytes:
    return f"{text}\n{prompt}".encode("utf-8", "backslashreplace")


@asynccontextmanager
async def console_server(
    services: Services,
    address: Address = CONSOLE_ADDRESS,
    *,
    token: str | None,
    console: Console | None = None,
    settings: Settings = SETTINGS,
) -> AsyncIterator[Address]:
    """Serve the console over TCP; yields the address that it listens on. With `token` None, no client needs one.

    Raises ServiceError if the address is not loopback, and OSError if it cannot listen there.
    """
    if not is_loopback(address.host):
        raise ServiceError(
            f"The console is for this machine only; {address.host} is not a loopback address. Use the HTTP API from"
            " other machines."
        )
    door = ConsoleDoor(console or Console(services), token)
    gate = Gate(settings)
    listener = Listener(gate, address, lambda: door)
    bound = await listener.open()
    await listener.serve()
    gate.watch()
    try:
        yield bound
    finally:
        listener.close()
        await door.tasks.stop()
        await gate.drain()
