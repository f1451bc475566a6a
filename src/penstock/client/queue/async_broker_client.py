"""AsyncBrokerClient: BrokerClient for asyncio, with the same methods. Handlers may be coroutines; uses no threads.

async with AsyncBrokerClient(client_id="reader") as client:
    await client.create_subscription("billing", "orders")
    await client.subscribe_to_subscription("billing", handler=bill)
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from penstock.client.errors import ClientError, IllegalState, TimedOut, Unreachable
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
from penstock.client.queue.session import Message, QueueResponse, QueueSession
from penstock.client.queue.settlement import (
    ACCEPT,
    REJECT,
    RELEASE,
    Reject,
    handler_failure,
    held_message,
    log_refused,
)
from penstock.client.tls import tls_failure
from penstock.core.model import Address
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.request_properties import CLIENT

logger = logging.getLogger("penstock.client")

READ_BYTES = 1 << 18
TICK_S = 0.25
RETRY_S, RETRY_S_MAX = 0.05, 1.0

Handler = Callable[[Message], Awaitable[object] | object]


class _Line:
    """One connection: its streams and its protocol session."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: QueueSession
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.session = session
        self.sent_at = asyncio.get_running_loop().time()
        self.is_closed = False

    def send(self, raw: bytes | None) -> None:
        if raw and not self.is_closed:
            self.writer.write(raw)
            self.sent_at = asyncio.get_running_loop().time()

    async def ask(self, request: QueueRequest) -> QueueResponse:
        """The response, or the error raised."""
        done: asyncio.Future[QueueResponse | ClientError] = asyncio.get_running_loop().create_future()

        def on_response(outcome: QueueResponse | ClientError) -> None:
            if not done.done():
                done.set_result(outcome)

        self.send(
            self.session.request(
                request.kind,
                request.properties,
                on_response,
                body=request.body,
                timestamp_ms=request.timestamp_ms,
            )
        )
        if self.is_closed:
            raise Unreachable("the connection was lost")
        await self.writer.drain()
        outcome = await done
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome

    def end(self, error: ClientError) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.session.lose(error)
            self.writer.close()


class AsyncBrokerClient(QueueMember[Handler]):
    """One client connection on one event loop; handlers run one at a time."""

    def _prepare(self) -> None:
        self._line: _Line | None = None
        self._has_line = asyncio.Event()
        self._inbox: asyncio.Queue[tuple[_Line, Message]] = asyncio.Queue()
        self._handling = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    # -- lifecycle

    async def connect(self) -> None:
        """Connect to the broker. Raises Unreachable."""
        if self._is_open:
            raise IllegalState("this client is already connected")
        line = await self._open()
        self._is_open = True
        self._set_line(line)
        self._tasks += [self._start(self._stay_connected()), self._start(self._handle_forever())]
        self._tasks.append(self._start(self._keep_alive()))

    @staticmethod
    def _start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    async def disconnect(self) -> None:
        """Leave all subscriptions and close the connection. No effect if not connected."""
        if not self._is_open:
            return
        for name in list(self._subscribed):
            try:
                await self.unsubscribe_from_subscription(name)
            except ClientError as error:
                logger.warning("cannot leave subscription %r, disconnecting anyway: %s", name, error)
        self._is_open = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        line, self._line = self._line, None
        if line is not None:
            line.end(IllegalState("this client was disconnected"))

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.disconnect()

    # -- topics and messages

    async def create_topic(self, topic: str, partitions: int | None = None) -> bool:
        """Create a topic; False if it already exists."""
        return was_created(await self._call(create_topic_request(topic, partitions)))

    async def publish_text(self, topic: str, text: str, **properties: object) -> int:
        """Publish text with properties as headers; returns the offset once the topic's durability is met."""
        return await self.publish(topic, text.encode(), properties=properties)

    async def publish(
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
        """Publish bytes, or None for a null value; returns the offset. Calls may be awaited concurrently."""
        request = publish_request(
            topic,
            body,
            key=key,
            partition=partition,
            headers=headers,
            properties=properties or {},
            timestamp_ms=timestamp_ms,
        )
        return (await self._call(request)).sequence

    # -- subscriptions

    async def create_subscription(
        self,
        name: str,
        topic: str,
        start_offset: int = 0,
        *,
        hold_ms: int | None = None,
        max_deliveries: int | None = None,
    ) -> bool:
        """Create a durable subscription; False if it already exists."""
        return was_created(
            await self._call(create_subscription_request(name, topic, start_offset, hold_ms, max_deliveries))
        )

    async def delete_subscription(self, name: str) -> None:
        await self._call(subscription_request(MessageType.DELETE_SUBSCRIPTION, name))

    async def subscribe_to_subscription(
        self, name: str, handler: Handler, *, window: int | None = None
    ) -> None:
        """Join a subscription and pass its messages to `handler`; at most `window` messages are in flight."""
        self._register(name, handler, window)
        try:
            self._joined(name, await self._call(subscribe_request(name, window)))
        except ClientError:
            self._subscribed.pop(name, None)
            raise

    async def unsubscribe_from_subscription(self, name: str) -> None:
        """Leave a subscription after the running handler returns. Must not be called from a handler."""
        self._unregister(name)
        async with self._handling:
            if self._line is not None:
                self._line.session.forget(name)
            if self._rejoins.forget(name):
                return  # the broker has ended the membership already
            await self._call(subscription_request(MessageType.UNSUBSCRIBE, name))

    async def list_subscriptions(self) -> list[dict[str, Any]]:
        return listed_in(await self._call(list_request()))

    async def describe_subscription(self, name: str) -> dict[str, Any]:
        """Settings, members and per-partition progress of a subscription."""
        return described_in(await self._call(subscription_request(MessageType.DESCRIBE_SUBSCRIPTION, name)))

    async def redrive(self, name: str, count: int | None = None) -> int:
        """Redeliver dead letters, to this subscription only; returns their number."""
        return count_in(await self._call(redrive_request(name, count)))

    # -- calls and the connection

    async def _call(self, request: QueueRequest) -> QueueResponse:
        """Send a request and retry it, across reconnects, until it is answered or times out."""
        if not self._is_open:
            raise IllegalState("this client is not connected: call connect() first")
        pause_s, last = RETRY_S, None
        try:
            async with asyncio.timeout(self._request_timeout_s):
                while True:
                    await self._has_line.wait()
                    assert self._line is not None
                    try:
                        return await self._line.ask(request)
                    except (OSError, ClientError) as error:
                        if isinstance(error, ClientError) and not error.retriable:
                            raise
                        last = error
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, RETRY_S_MAX)
        except TimeoutError:
            raise TimedOut(
                f"no response to {request.kind.name} within {self._request_timeout_s} s; its outcome is unknown"
                + (f": {last}" if last else "")
            ) from None

    async def _open(self) -> _Line:
        """Open a connection, identify this client and rejoin all subscriptions."""
        try:
            async with asyncio.timeout(self._request_timeout_s):
                tls: dict[str, Any] = {} if self._encryption is None else {"ssl": self._encryption.context()}
                reader, writer = await asyncio.open_connection(self.host, self.port, **tls)
                line: _Line
                session = QueueSession(
                    lambda message: self._inbox.put_nowait((line, message)), self._ended, log_refused
                )
                line = _Line(reader, writer, session)
                reading = self._start(_read(line))
                try:
                    await line.ask(QueueRequest(MessageType.HEARTBEAT, ((CLIENT, self.client_id),)))
                    self._rejoins.clear()
                    for name, (_, window) in list(self._subscribed.items()):
                        await self._rejoin(line, name, window)
                except BaseException:
                    reading.cancel()
                    line.end(Unreachable("the connection attempt was cancelled"))
                    raise
        except (OSError, ClientError) as error:
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                raise tls_failure(Address(self.host, self.port), error) from error
            raise Unreachable(
                f"Cannot reach a broker at {self.host}:{self.port}: {str(error) or 'no response'}. "
                "Check that the broker is running and that this is its queue port."
            ) from None
        self._tasks = [*(task for task in self._tasks if not task.done()), reading]
        return line

    async def _rejoin(self, line: _Line, name: str, window: int | None) -> None:
        """Join on a new connection, or again on the present one. Raises Unreachable."""
        try:
            self._joined(name, await line.ask(subscribe_request(name, window)))
        except Unreachable:
            raise
        except ClientError as error:  # others may be joined all the same
            self._ended(name, error)

    async def _rejoin_later(self, line: _Line, name: str, window: int | None) -> None:
        line.session.forget(name)
        with suppress(OSError, Unreachable):  # the next connection joins it
            await self._rejoin(line, name, window)

    def _set_line(self, line: _Line) -> None:
        self._line = line
        self._has_line.set()

    async def _stay_connected(self) -> None:
        """Reconnect whenever the connection is lost."""
        while True:
            line = self._line
            assert line is not None
            await line.writer.wait_closed()
            self._has_line.clear()
            logger.warning("connection to %s:%d lost, reconnecting", self.host, self.port)
            pause_s = RETRY_S
            while True:
                try:
                    self._set_line(await self._open())
                    break
                except Unreachable as error:
                    logger.info("reconnect failed, retrying: %s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def _keep_alive(self) -> None:
        """Renew held messages; send a heartbeat when the connection has been idle."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(TICK_S, self._terms.renewal_s / 2))
            line = self._line
            if line is not None and not line.is_closed:
                line.send(line.session.renew(loop.time(), self._terms.renewal_s))
                if loop.time() - line.sent_at >= self._terms.heartbeat_s:
                    line.send(line.session.heartbeat())
                for name in self._rejoins.take_due(self._now_s()):
                    subscribed = self._subscribed.get(name)
                    if subscribed is not None:
                        self._tasks.append(self._start(self._rejoin_later(line, name, subscribed.window)))

    # -- messages

    async def _handle_forever(self) -> None:
        while True:
            line, message = await self._inbox.get()
            async with self._handling:
                subscribed = self._subscribed.get(message.subscription)
                if not line.is_closed and subscribed is not None:
                    await self._handle(line, message, subscribed.handler)

    async def _handle(self, line: _Line, message: Message, handler: Handler) -> None:
        outcome, reason = ACCEPT, ""
        try:
            result = handler(message)
            if isinstance(result, Awaitable):
                await result
        except Reject as error:
            outcome, reason = REJECT, str(error)
        except Exception as error:
            logger.exception(handler_failure(message))
            outcome, reason = RELEASE, f"{type(error).__name__}: {error}"
        line.send(line.session.settle(held_message(message), outcome, reason))


async def _read(line: _Line) -> None:
    """Pass received bytes to the session until the connection ends."""
    why = "the broker closed the connection"
    try:
        while content := await line.reader.read(READ_BYTES):
            line.session.feed(content, asyncio.get_running_loop().time())
    except (OSError, ClientError) as error:
        why = str(error)
    line.end(Unreachable(f"the connection was lost: {why}"))
