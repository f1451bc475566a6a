"""One blocking connection to a queue door: a socket, its session, two locks. Never reconnects; its owner does.

Whoever sends does not hold the lock of the session, so that the reader can go on while a send is stuck.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from penstock.client.errors import ClientError, TimedOut, Unreachable
from penstock.client.queue_requests import Asked
from penstock.client.queue_session import Answer, HeldMessage, Message, QueueSession
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.words import CLIENT

READ_BYTES = 1 << 18


class QueueLine:
    """Made by `open_line`; used until it breaks or is closed."""

    def __init__(self, connection: socket.socket, session: QueueSession) -> None:
        self._socket = connection
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        self._sending = threading.Lock()
        self._thinking = threading.RLock()
        self._session = session
        self.sent_at = time.monotonic()
        self.is_over = False

    # -- out

    def send(self, raw: bytes) -> None:
        """Raises OSError when the connection is gone, or takes nothing for as long as it may."""
        if raw:
            with self._sending:
                self._socket.sendall(raw)
                self.sent_at = time.monotonic()

    def ask(self, asked: Asked) -> Future[Answer | ClientError]:
        """Send a request; the answer comes with what is read. Raises OSError as `send` does."""
        answer: Future[Answer | ClientError] = Future()
        with self._thinking:
            raw = self._session.request(
                asked.kind, asked.words, answer.set_result, body=asked.body, timestamp_ms=asked.timestamp_ms
            )
        self.send(raw)
        return answer

    def settle(self, held: HeldMessage, outcome: str, reason: str = "") -> None:
        with self._thinking:
            raw = self._session.settle(held, outcome, reason)
        self.send(raw or b"")

    def forget(self, subscription: str) -> None:
        """What came for a subscription is not this client's any more."""
        with self._thinking:
            self._session.forget(subscription)

    def show_life(self, silence_s: float, held_s: float) -> None:
        """Ask for more time for what has been held so long, and say something if nothing was said so long."""
        now = time.monotonic()
        with self._thinking:
            raw = self._session.renew(now, held_s)
            if not raw and now - self.sent_at >= silence_s:
                raw = self._session.heartbeat()
        self.send(raw)

    # -- in

    def read(self, wait_s: float) -> None:
        """Take in what comes within the time. Raises Unreachable when the connection has ended."""
        if not self._selector.select(max(0.0, wait_s)):
            return
        content = self._socket.recv(READ_BYTES)
        if not content:
            raise Unreachable("the broker has closed the connection")
        with self._thinking:
            self._session.feed(content, time.monotonic())

    def ask_alone(self, asked: Asked, deadline: float) -> Answer:
        """Ask and read until the answer is there: for a line that nobody else reads yet. Raises what went wrong."""
        answer = self.ask(asked)
        while not answer.done():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimedOut("the broker has taken the connection, but does not answer")
            self.read(left_s)
        return settled(answer.result())

    def end(self, error: ClientError) -> None:
        """The line is broken or done with: whoever waits is told."""
        self.is_over = True
        with self._thinking:
            self._session.lose(error)
        self._socket.close()


def settled(outcome: Answer | ClientError) -> Answer:
    """The answer, or the error raised."""
    if isinstance(outcome, ClientError):
        raise outcome
    return outcome


def open_line(
    host: str,
    port: int,
    client_id: str,
    deadline: float,
    *,
    deliver: Callable[[Message], None],
    end: Callable[[str, ClientError], None],
    refuse: Callable[[HeldMessage, ClientError], None],
) -> QueueLine:
    """Connect and say hello. Raises Unreachable, in words, when nobody answers there in the queue protocol."""
    try:
        connection = socket.create_connection((host, port), max(0.01, deadline - time.monotonic()))
    except OSError as error:
        raise Unreachable(
            f"Cannot reach a broker at {host}:{port}: {error.strerror or error}. "
            "Is it running, and is this the port of its queue door?"
        ) from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line = QueueLine(connection, QueueSession(deliver, end, refuse))
    try:
        line.ask_alone(Asked(MessageType.HEARTBEAT, ((CLIENT, client_id),)), deadline)
    except (OSError, ClientError) as error:
        line.end(Unreachable(str(error)))
        raise Unreachable(f"{host}:{port} does not answer as a queue door does: {error}") from None
    return line
