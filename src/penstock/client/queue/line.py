"""One blocking queue connection: a socket, its session and two locks. Its owner reconnects.

Sending does not hold the session lock, so the reader keeps running while a send blocks.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from penstock.client.access import Encryption
from penstock.client.errors import ClientError, TimedOut, TlsFailed, Unreachable
from penstock.client.queue.requests import QueueRequest
from penstock.client.queue.session import HeldMessage, Message, QueueResponse, QueueSession
from penstock.client.queue.tls_socket import TlsSocket
from penstock.client.tls import speaks_tls
from penstock.core.model import Address
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.request_properties import CLIENT

READ_BYTES = 1 << 18


class QueueLine:
    """Created by `open_line`; usable until the connection fails or is closed."""

    def __init__(self, connection: socket.socket | TlsSocket, session: QueueSession) -> None:
        self._socket = connection
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        self._send_lock = threading.Lock()
        self._session_lock = threading.RLock()
        self._session = session
        self.sent_at = time.monotonic()
        self.is_closed = False

    # -- out

    def send(self, raw: bytes) -> None:
        """Raises OSError if the connection is lost or a write times out."""
        if raw:
            with self._send_lock:
                self._socket.sendall(raw)
                self.sent_at = time.monotonic()

    def ask(self, request: QueueRequest) -> Future[QueueResponse | ClientError]:
        """Send a request; `read` completes the future. Raises OSError as `send` does."""
        response: Future[QueueResponse | ClientError] = Future()
        with self._session_lock:
            raw = self._session.request(
                request.kind,
                request.properties,
                response.set_result,
                body=request.body,
                timestamp_ms=request.timestamp_ms,
            )
        self.send(raw)
        return response

    def settle(self, held: HeldMessage, outcome: str, reason: str = "") -> None:
        with self._session_lock:
            raw = self._session.settle(held, outcome, reason)
        self.send(raw or b"")

    def forget(self, subscription: str) -> None:
        """Drop the held messages of a subscription that the client has left."""
        with self._session_lock:
            self._session.forget(subscription)

    def keep_alive(self, silence_s: float, held_s: float) -> None:
        """Renew messages held for `held_s`; send a heartbeat after `silence_s` without traffic."""
        now = time.monotonic()
        with self._session_lock:
            raw = self._session.renew(now, held_s)
            if not raw and now - self.sent_at >= silence_s:
                raw = self._session.heartbeat()
        self.send(raw)

    # -- in

    def read(self, wait_s: float) -> None:
        """Process what arrives within `wait_s`. Raises Unreachable at the end of the connection."""
        if not self._selector.select(max(0.0, wait_s)):
            return
        content = self._socket.recv(READ_BYTES)
        if content is None:
            return  # a part of a TLS record
        if not content:
            raise Unreachable("the broker closed the connection")
        with self._session_lock:
            self._session.feed(content, time.monotonic())

    def call_unread(self, request: QueueRequest, deadline: float) -> QueueResponse:
        """Send a request and read until its response: only before a reader thread owns the line. Raises ClientError."""
        response = self.ask(request)
        while not response.done():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimedOut("the broker accepted the connection but does not respond")
            self.read(left_s)
        return settled(response.result())

    def end(self, error: ClientError) -> None:
        """Close the line and fail its pending requests with `error`."""
        self.is_closed = True
        with self._session_lock:
            self._session.lose(error)
        self._socket.close()


def settled(outcome: QueueResponse | ClientError) -> QueueResponse:
    """The response, or the error raised."""
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
    encryption: Encryption | None = None,
) -> QueueLine:
    """Connect and identify this client. Raises Unreachable if no queue listener responds at the address, TlsFailed."""
    try:
        connection = _connect(Address(host, port), max(0.01, deadline - time.monotonic()), encryption)
    except OSError as error:
        raise Unreachable(
            f"Cannot reach a broker at {host}:{port}: {error.strerror or error}. "
            "Check that the broker is running and that this is its queue port."
        ) from None
    line = QueueLine(connection, QueueSession(deliver, end, refuse))
    try:
        line.call_unread(QueueRequest(MessageType.HEARTBEAT, ((CLIENT, client_id),)), deadline)
    except (OSError, ClientError) as error:
        line.end(Unreachable(str(error)))
        if encryption is None and speaks_tls(Address(host, port)):
            raise TlsFailed(f"{host}:{port} is a TLS port: turn on tls.", code="TLS_PORT") from None
        raise Unreachable(f"{host}:{port} does not respond as a queue listener: {error}") from None
    return line


def _connect(address: Address, wait_s_max: float, encryption: Encryption | None) -> socket.socket | TlsSocket:
    opened = socket.create_connection(address, wait_s_max)
    try:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened if encryption is None else TlsSocket(opened, address, encryption)
    except BaseException:
        opened.close()
        raise
