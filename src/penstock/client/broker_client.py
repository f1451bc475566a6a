"""BrokerClient: topics, publishing and subscriptions over the queue door, blocking, with handlers in the background.

    with BrokerClient(client_id="reader") as client:
        client.create_subscription("billing", "orders")
        client.subscribe_to_subscription("billing", handler=print)

Every message is acknowledged once its handler returns. If the handler raises, the message is given back and delivered
again, to whomever; if it raises `Reject`, it goes to the dead letter topic. A lost connection is made again, and its
subscriptions with it. What a call asked for is asked again on the new connection: publishing is at least once.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import TimeoutError as NoAnswer
from types import TracebackType
from typing import Any, Self

from penstock.client.errors import ClientError, IllegalState, TimedOut, Unreachable
from penstock.client.handling import ACCEPT, REJECT, RELEASE, Reject, failure_on, held_place, tell_refused
from penstock.client.queue_line import QueueLine, open_line, settled
from penstock.client.queue_member import QueueMember
from penstock.client.queue_requests import (
    Asked,
    ask_about,
    ask_create_subscription,
    ask_create_topic,
    ask_list,
    ask_publish,
    ask_redrive,
    ask_subscribe,
    count_in,
    described_in,
    listed_in,
    was_created,
)
from penstock.client.queue_session import Answer, Message
from penstock.wire.queue.frames import MessageType

__all__ = ["BrokerClient", "Message", "Reject"]

logger = logging.getLogger("penstock.client")

TICK_S = 0.25
"""How often the reader looks whether a sign of life is due."""
RETRY_S, RETRY_S_MAX = 0.05, 1.0

Handler = Callable[[Message], object]


class BrokerClient(QueueMember[Handler]):
    """One client. Its methods may be called from any thread; handlers run one after the other in one thread."""

    def _prepare(self) -> None:
        self._state = threading.Condition()
        self._line: QueueLine | None = None
        self._inbox: queue.SimpleQueue[tuple[QueueLine | None, Message] | None] = queue.SimpleQueue()
        self._handling = threading.RLock()
        self._threads: list[threading.Thread] = []

    # -- life

    def connect(self) -> None:
        """Connect to the broker. Raises Unreachable if it cannot be."""
        if self._is_open:
            raise IllegalState("this client is connected already")
        line = self._open(time.monotonic() + self._request_timeout_s)
        self._is_open = True
        self._put_line(line)
        self._inbox = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, name=f"penstock-{name}", daemon=True)
            for name, work in (("reader", self._read_forever), ("handlers", self._handle_forever))
        ]
        for thread in self._threads:
            thread.start()

    def disconnect(self) -> None:
        """Leave every subscription and close the connection. Does nothing if there is none."""
        if not self._is_open:
            return
        for name in list(self._subscribed):
            try:
                self.unsubscribe_from_subscription(name)
            except ClientError as error:
                logger.warning("leaving %r: %s", name, error)
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
        """Create a topic; False if it was there already."""
        return was_created(self._call(ask_create_topic(topic, partitions)))

    def publish_text(self, topic: str, text: str, **properties: object) -> int:
        """Publish text, with properties as headers; returns its offset once it is as durable as the topic promises."""
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
        """Publish bytes, or None for a message without a value; returns its offset. `timestamp_ms` 0 is now."""
        asked = ask_publish(
            topic,
            body,
            key=key,
            partition=partition,
            headers=headers,
            properties=properties or {},
            timestamp_ms=timestamp_ms,
        )
        return self._call(asked).sequence

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
        """Create a subscription that outlives broker and clients; False if it was there already.

        `start_offset` counts in every partition; -1 is the end, -2 the first message there is.
        """
        asked = ask_create_subscription(name, topic, start_offset, hold_ms, max_deliveries)
        return was_created(self._call(asked))

    def delete_subscription(self, name: str) -> None:
        self._call(ask_about(MessageType.DELETE_SUBSCRIPTION, name))

    def subscribe_to_subscription(self, name: str, handler: Handler, *, window: int | None = None) -> None:
        """Join a subscription: its messages come to `handler`, at most `window` of them ahead of it."""
        self._enter(name, handler, window)
        try:
            self._terms = self._terms.joined(self._call(ask_subscribe(name, window)))
        except ClientError:
            self._subscribed.pop(name, None)
            raise

    def unsubscribe_from_subscription(self, name: str) -> None:
        """Leave a subscription, once the handler is done with what it works on. The rest goes to other members."""
        self._strike(name)
        with self._handling:
            line = self._line
            if line is not None:
                line.forget(name)
            self._call(ask_about(MessageType.UNSUBSCRIBE, name))

    def list_subscriptions(self) -> list[dict[str, Any]]:
        return listed_in(self._call(ask_list()))

    def describe_subscription(self, name: str) -> dict[str, Any]:
        """Its terms, its members, and how far it is with every partition."""
        return described_in(self._call(ask_about(MessageType.DESCRIBE_SUBSCRIPTION, name)))

    def redrive(self, name: str, count: int | None = None) -> int:
        """Bring dead letters back to their topic, for this subscription alone; returns how many."""
        return count_in(self._call(ask_redrive(name, count)))

    # -- calls

    def _call(self, asked: Asked) -> Answer:
        """Ask until there is an answer or the time is up, over as many connections as it takes."""
        deadline = time.monotonic() + self._request_timeout_s
        pause_s = RETRY_S
        while True:
            line = self._await_line(deadline)
            try:
                outcome = line.ask(asked).result(max(0.0, deadline - time.monotonic()))
                return settled(outcome)
            except NoAnswer:
                raise TimedOut(
                    f"no answer to {asked.kind.name} within {self._request_timeout_s} s; it may have happened or not"
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
                    raise IllegalState("this client is not connected; call connect() first")
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise Unreachable(
                        f"no broker at {self.host}:{self.port} for {self._request_timeout_s} s; still trying"
                    )
                self._state.wait(left_s)
            return self._line

    # -- the connection

    def _open(self, deadline: float) -> QueueLine:
        """A new connection, with all that this client is subscribed to."""
        holder: list[QueueLine] = []
        line = open_line(
            self.host,
            self.port,
            self.client_id,
            deadline,
            deliver=lambda message: self._inbox.put((holder[0] if holder else None, message)),
            end=self._ended,
            refuse=tell_refused,
        )
        holder.append(line)
        try:
            for name, (_, window) in list(self._subscribed.items()):
                try:
                    self._terms = self._terms.joined(line.ask_alone(ask_subscribe(name, window), deadline))
                except ClientError as error:
                    if error.retriable:
                        raise
                    self._ended(name, error)
        except (OSError, ClientError) as error:
            line.end(Unreachable(str(error)))
            raise Unreachable(f"{self.host}:{self.port}: {error}") from None
        return line

    def _put_line(self, line: QueueLine) -> None:
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
                line.show_life(self._terms.heartbeat_s, self._terms.renewal_s)
            except (OSError, ClientError) as error:
                if self._is_open:
                    logger.warning("connection to %s:%d lost: %s", self.host, self.port, error)
                self._drop_line(line, Unreachable(f"the connection was lost: {error}"))

    def _reconnect(self) -> None:
        pause_s = RETRY_S
        while self._is_open:
            try:
                self._put_line(self._open(time.monotonic() + self._request_timeout_s))
            except ClientError as error:
                logger.info("no connection yet: %s", error)
            else:
                logger.info("connected again to %s:%d", self.host, self.port)
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
                if line is not None and not line.is_over and subscribed is not None:
                    self._handle(line, message, subscribed.handler)

    def _handle(self, line: QueueLine, message: Message, handler: Handler) -> None:
        outcome, reason = ACCEPT, ""
        try:
            handler(message)
        except Reject as error:
            outcome, reason = REJECT, str(error)
        except Exception as error:
            logger.exception(failure_on(message))
            outcome, reason = RELEASE, f"{type(error).__name__}: {error}"
        try:
            line.settle(held_place(message), outcome, reason)
        except OSError as error:
            self._drop_line(line, Unreachable(str(error)))
