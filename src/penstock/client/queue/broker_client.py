"""BrokerClient: blocking client of the queue protocol; message handlers run in a background thread.

    with BrokerClient(client_id="reader") as client:
        client.create_subscription("billing", "orders")
        client.subscribe_to_subscription("billing", handler=print)

A message is acknowledged when its handler returns. If the handler raises, the message is released and redelivered to
any member; if it raises `Reject`, the message goes to the dead-letter topic. The client reconnects and rejoins its
subscriptions after a lost connection. Pending calls are retried on the new connection: publishing is at least once.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from functools import partial
from types import TracebackType
from typing import Any, Self

from penstock.client.errors import ClientError, IllegalState, TimedOut, Unreachable
from penstock.client.queue.line import QueueLine, open_line, settled
from penstock.client.queue.member import QueueMember
from penstock.client.queue.requests import (
    QueueRequest,
    count_in,
    create_subscription_request,
    create_topic_request,
    described_in,
    list_request,
    listed_in,
    publish_request,
    redrive_request,
    subscribe_request,
    subscription_request,
    was_created,
)
from penstock.client.queue.session import Message, QueueResponse
from penstock.client.queue.settlement import (
    ACCEPT,
    REJECT,
    RELEASE,
    Reject,
    handler_failure,
    held_message,
    log_refused,
)
from penstock.wire.queue.frames import MessageType

logger = logging.getLogger("penstock.client")

TICK_S = 0.25
"""How often the reader thread checks whether a heartbeat is due."""
RETRY_S, RETRY_S_MAX = 0.05, 1.0

Handler = Callable[[Message], object]


class BrokerClient(QueueMember[Handler]):
    """One client connection. Methods are thread-safe; handlers run one at a time in a single thread."""

    def _prepare(self) -> None:
        self._state = threading.Condition()
        self._line: QueueLine | None = None
        self._inbox: queue.SimpleQueue[tuple[QueueLine | None, Message] | None] = queue.SimpleQueue()
        self._handling = threading.RLock()
        self._threads: list[threading.Thread] = []

    # -- lifecycle

    def connect(self) -> None:
        """Connect to the broker. Raises Unreachable, TlsFailed."""
        if self._is_open:
            raise IllegalState("this client is already connected")
        line = self._open(time.monotonic() + self._request_timeout_s)
        self._is_open = True
        self._set_line(line)
        self._inbox = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name=f"penstock-{name}", daemon=True)
            for name, work in (("reader", self._read_forever), ("handlers", self._handle_forever))
        ]
        for thread in self._threads:
            thread.start()

    def disconnect(self) -> None:
        """Leave all subscriptions and close the connection. No effect if not connected."""
        if not self._is_open:
            return
        for name in list(self._subscribed):
            try:
                self.unsubscribe_from_subscription(name)
            except ClientError as error:
                logger.warning("cannot leave subscription %r, disconnecting anyway: %s", name, error)
        with self._state:
            self._is_open = False
            line, self._line = self._line, None
            self._state.notify_all()
        if line is not None:
            line.end(IllegalState("this client was disconnected"))
        self._inbox.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()

    @property
    def is_connected(self) -> bool:
        return self._line is not None

    # -- topics and messages

    def create_topic(self, topic: str, partitions: int | None = None) -> bool:
        """Create a topic; False if it already exists."""
        return was_created(self._call(create_topic_request(topic, partitions)))

    def publish_text(self, topic: str, text: str, **properties: object) -> int:
        """Publish text with properties as headers; returns the offset once the topic's durability is met."""
        return self.publish(topic, text.encode(), properties=properties)

    def publish(
        self,
        topic: str,
        body: bytes | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        properties: Mapping[str, object] | None = None,
        timestamp_ms: int = 0,
    ) -> int:
        """Publish bytes, or None for a null value; returns the offset. `timestamp_ms` 0 means now."""
        request = publish_request(
            topic,
            body,
            key=key,
            partition=partition,
            headers=headers,
            properties=properties or {},
            timestamp_ms=timestamp_ms,
        )
        return self._call(request).sequence

    # -- subscriptions

    def create_subscription(
        self,
        name: str,
        topic: str,
        start_offset: int = 0,
        *,
        hold_ms: int | None = None,
        max_deliveries: int | None = None,
    ) -> bool:
        """Create a durable subscription; False if it already exists.

        `start_offset` applies to every partition; -1 is the end, -2 the first message in the log.
        """
        request = create_subscription_request(name, topic, start_offset, hold_ms, max_deliveries)
        return was_created(self._call(request))

    def delete_subscription(self, name: str) -> None:
        self._call(subscription_request(MessageType.DELETE_SUBSCRIPTION, name))

    def subscribe_to_subscription(self, name: str, handler: Handler, *, window: int | None = None) -> None:
        """Join a subscription and pass its messages to `handler`; at most `window` messages are in flight."""
        self._register(name, handler, window)
        try:
            self._joined(name, self._call(subscribe_request(name, window)))
        except ClientError:
            self._subscribed.pop(name, None)
            raise

    def unsubscribe_from_subscription(self, name: str) -> None:
        """Leave a subscription after the running handler returns. Other members get the remaining messages."""
        self._unregister(name)
        with self._handling:
            line = self._line
            if line is not None:
                line.forget(name)
            if self._rejoins.forget(name):
                return  # the broker has ended the membership already
            self._call(subscription_request(MessageType.UNSUBSCRIBE, name))

    def list_subscriptions(self) -> list[dict[str, Any]]:
        return listed_in(self._call(list_request()))

    def describe_subscription(self, name: str) -> dict[str, Any]:
        """Settings, members and per-partition progress of a subscription."""
        return described_in(self._call(subscription_request(MessageType.DESCRIBE_SUBSCRIPTION, name)))

    def redrive(self, name: str, count: int | None = None) -> int:
        """Redeliver dead letters, to this subscription only; returns their number."""
        return count_in(self._call(redrive_request(name, count)))

    # -- calls

    def _call(self, request: QueueRequest) -> QueueResponse:
        """Send a request and retry it, across reconnects, until it is answered or times out."""
        deadline = time.monotonic() + self._request_timeout_s
        pause_s = RETRY_S
        while True:
            line = self._await_line(deadline)
            try:
                outcome = line.ask(request).result(max(0.0, deadline - time.monotonic()))
                return settled(outcome)
            except NoAnswer:
                raise TimedOut(
                    f"no response to {request.kind.name} within {self._request_timeout_s} s; its outcome is unknown"
                ) from None
            except OSError as error:
                self._drop_line(line, Unreachable(str(error)))
            except ClientError as error:
                if not error.retriable or time.monotonic() + pause_s > deadline:
                    raise
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)

    def _await_line(self, deadline: float) -> QueueLine:
        with self._state:
            while self._line is None:
                if not self._is_open:
                    raise IllegalState("this client is not connected: call connect() first")
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise Unreachable(
                        f"no broker at {self.host}:{self.port} for {self._request_timeout_s} s; still reconnecting"
                    )
                self._state.wait(left_s)
            return self._line

    # -- the connection

    def _open(self, deadline: float) -> QueueLine:
        """Open a connection and rejoin all subscriptions."""
        holder: list[QueueLine] = []
        line = open_line(
            self.host,
            self.port,
            self.client_id,
            deadline,
            deliver=lambda message: self._inbox.put((holder[0] if holder else None, message)),
            end=self._ended,
            refuse=log_refused,
            encryption=self._encryption,
        )
        holder.append(line)
        self._rejoins.clear()
        try:
            for name, (_, window) in list(self._subscribed.items()):
                try:
                    self._joined(name, line.call_unread(subscribe_request(name, window), deadline))
                except (TimedOut, Unreachable):
                    raise
                except ClientError as error:  # others may be joined all the same
                    self._ended(name, error)
        except (OSError, ClientError) as error:
            line.end(Unreachable(str(error)))
            raise Unreachable(f"{self.host}:{self.port}: {error}") from None
        return line

    def _set_line(self, line: QueueLine) -> None:
        with self._state:
            self._line = line
            self._state.notify_all()

    def _drop_line(self, line: QueueLine, error: ClientError) -> None:
        with self._state:
            if self._line is line:
                self._line = None
        line.end(error)

    def _read_forever(self) -> None:
        while self._is_open:
            line = self._line
            if line is None:
                self._reconnect()
                continue
            try:
                line.read(min(TICK_S, self._terms.renewal_s / 2))
                line.keep_alive(self._terms.heartbeat_s, self._terms.renewal_s)
                self._rejoin_due(line)
            except (OSError, ClientError) as error:
                if self._is_open:
                    logger.warning("connection to %s:%d lost, reconnecting: %s", self.host, self.port, error)
                self._drop_line(line, Unreachable(f"the connection was lost: {error}"))

    def _rejoin_due(self, line: QueueLine) -> None:
        """Join subscriptions again that the broker has ended. The reader thread gets the responses."""
        for name in self._rejoins.take_due(self._now_s()):
            subscribed = self._subscribed.get(name)
            if subscribed is not None:
                line.forget(name)
                request = subscribe_request(name, subscribed.window)
                line.ask(request).add_done_callback(partial(self._rejoined, name))

    def _rejoined(self, name: str, done: Future[QueueResponse | ClientError]) -> None:
        outcome = done.result()
        if isinstance(outcome, ClientError):
            self._ended(name, outcome)
        else:
            self._joined(name, outcome)

    def _reconnect(self) -> None:
        pause_s = RETRY_S
        while self._is_open:
            try:
                self._set_line(self._open(time.monotonic() + self._request_timeout_s))
            except ClientError as error:
                logger.info("reconnect failed, retrying: %s", error)
            else:
                logger.info("reconnected to %s:%d", self.host, self.port)
                return
            with self._state:
                self._state.wait(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)

    # -- messages

    def _handle_forever(self) -> None:
        while (item := self._inbox.get()) is not None:
            line, message = item
            with self._handling:
                subscribed = self._subscribed.get(message.subscription)
                if line is not None and not line.is_closed and subscribed is not None:
                    self._handle(line, message, subscribed.handler)

    def _handle(self, line: QueueLine, message: Message, handler: Handler) -> None:
        outcome, reason = ACCEPT, ""
        try:
            handler(message)
        except Reject as error:
            outcome, reason = REJECT, str(error)
        except Exception as error:
            logger.exception(handler_failure(message))
            outcome, reason = RELEASE, f"{type(error).__name__}: {error}"
        try:
            line.settle(held_message(message), outcome, reason)
        except OSError as error:
            self._drop_line(line, Unreachable(str(error)))
