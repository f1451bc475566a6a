"""AsyncBrokerClient: BrokerClient for asyncio, method for method. Handlers may be coroutines. Never starts a thread.

async with AsyncBrokerClient(client_id="reader") as client:
    await client.create_subscription("billing", "orders")
    await client.subscribe_to_subscription("billing", handler=bill)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from penstock.client.errors import ClientError, IllegalState, TimedOut, Unreachable
from penstock.client.handling import ACCEPT, REJECT, RELEASE, Reject, failure_on, held_place, tell_refused
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
from penstock.client.queue_session import Answer, Message, QueueSession
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.words import CLIENT

logger = logging.getLogger("penstock.client")

READ_BYTES = 1 << 18
TICK_S = 0.25
RETRY_S, RETRY_S_MAX = 0.05, 1.0

Handler = Callable[[Message], Awaitable[object] | object]


class _Line:
    """One connection: its streams and its session."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: QueueSession
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.session = session
        self.said_at = asyncio.get_running_loop().time()
        self.is_over = False

    def send(self, raw: bytes | None) -> None:
        if raw and not self.is_over:
            self.writer.write(raw)
            self.said_at = asyncio.get_running_loop().time()

    async def ask(self, asked: Asked) -> Answer:
        """The answer, or the error raised."""
        done: asyncio.Future[Answer | ClientError] = asyncio.get_running_loop().create_future()

        def answered(outcome: Answer | ClientError) -> None:
            if not done.done():
                done.set_result(outcome)

        self.send(
            self.session.request(
                asked.kind, asked.words, answered, body=asked.body, timestamp_ms=asked.timestamp_ms
            )
        )
        if self.is_over:
            raise Unreachable("the connection was lost")
        await self.writer.drain()
        outcome = await done
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome

    def end(self, error: ClientError) -> None:
        if not self.is_over:
            self.is_over = True
            self.session.lose(error)
            self.writer.close()


class AsyncBrokerClient(QueueMember[Handler]):
    """One client on one loop; handlers run one after the other."""

    def _prepare(self) -> None:
        self._line: _Line | None = None
        self._has_line = asyncio.Event()
        self._inbox: asyncio.Queue[tuple[_Line, Message]] = asyncio.Queue()
        self._handling = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    # -- life

    async def connect(self) -> None:
        """Connect to the broker. Raises Unreachable if it cannot be."""
        if self._is_open:
            raise IllegalState("this client is connected already")
        line = await self._open()
        self._is_open = True
        self._put_line(line)
        self._tasks += [self._start(self._stay_connected()), self._start(self._handle_forever())]
        self._tasks.append(self._start(self._show_life()))

    @staticmethod
    def _start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    async def disconnect(self) -> None:
        """Leave every subscription and close the connection. Does nothing if there is none."""
        if not self._is_open:
            return
        for name in list(self._subscribed):
            try:
                await self.unsubscribe_from_subscription(name)
            except ClientError as error:
                logger.warning("leaving %r: %s", name, error)
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
        """Create a topic; False if it was there already."""
        return was_created(await self._call(ask_create_topic(topic, partitions)))

    async def publish_text(self, topic: str, text: str, **properties: object) -> int:
        """Publish text, with properties as headers; returns its offset once it is as durable as the topic promises."""
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
        """Publish bytes, or None for a message without a value; returns its offset. Many may be awaited at once."""
        asked = ask_publish(
            topic,
            body,
            key=key,
            partition=partition,
            headers=headers,
            properties=properties or {},
            timestamp_ms=timestamp_ms,
        )
        return (await self._call(asked)).sequence

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
        """Create a subscription that outlives broker and clients; False if it was there already."""
        return was_created(
            await self._call(ask_create_subscription(name, topic, start_offset, hold_ms, max_deliveries))
        )

    async def delete_subscription(self, name: str) -> None:
        await self._call(ask_about(MessageType.DELETE_SUBSCRIPTION, name))

    async def subscribe_to_subscription(
        self, name: str, handler: Handler, *, window: int | None = None
    ) -> None:
        """Join a subscription: its messages come to `handler`, at most `window` of them ahead of it."""
        self._enter(name, handler, window)
        try:
            self._terms = self._terms.joined(await self._call(ask_subscribe(name, window)))
        except ClientError:
            self._subscribed.pop(name, None)
            raise

    async def unsubscribe_from_subscription(self, name: str) -> None:
        """Leave a subscription, once the handler is done with what it works on. Not to be called by a handler."""
        self._strike(name)
        async with self._handling:
            if self._line is not None:
                self._line.session.forget(name)
            await self._call(ask_about(MessageType.UNSUBSCRIBE, name))

    async def list_subscriptions(self) -> list[dict[str, Any]]:
        return listed_in(await self._call(ask_list()))

    async def describe_subscription(self, name: str) -> dict[str, Any]:
        """Its terms, its members, and how far it is with every partition."""
        return described_in(await self._call(ask_about(MessageType.DESCRIBE_SUBSCRIPTION, name)))

    async def redrive(self, name: str, count: int | None = None) -> int:
        """Bring dead letters back to their topic, for this subscription alone; returns how many."""
        return count_in(await self._call(ask_redrive(name, count)))

    # -- calls and the connection

    async def _call(self, asked: Asked) -> Answer:
        """Ask until there is an answer or the time is up, over as many connections as it takes."""
        if not self._is_open:
            raise IllegalState("this client is not connected; call connect() first")
        pause_s, last = RETRY_S, None
        try:
            async with asyncio.timeout(self._request_timeout_s):
                while True:
                    await self._has_line.wait()
                    assert self._line is not None
                    try:
                        return await self._line.ask(asked)
                    except (OSError, ClientError) as error:
                        if isinstance(error, ClientError) and not error.retriable:
                            raise
                        last = error
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, RETRY_S_MAX)
        except TimeoutError:
            raise TimedOut(
                f"no answer to {asked.kind.name} within {self._request_timeout_s} s; it may have happened or not"
                + (f": {last}" if last else "")
            ) from None

    async def _open(self) -> _Line:
        """A new connection, read by nobody yet: hello, and all that this client is subscribed to."""
        try:
            async with asyncio.timeout(self._request_timeout_s):
                reader, writer = await asyncio.open_connection(self.host, self.port)
                line: _Line
                session = QueueSession(
                    lambda message: self._inbox.put_nowait((line, message)), self._ended, tell_refused
                )
                line = _Line(reader, writer, session)
                reading = self._start(_read(line))
                try:
                    await line.ask(Asked(MessageType.HEARTBEAT, ((CLIENT, self.client_id),)))
                    for name, (_, window) in list(self._subscribed.items()):
                        await self._rejoin(line, name, window)
                except BaseException:
                    reading.cancel()
                    line.end(Unreachable("the connection was given up"))
                    raise
        except (OSError, ClientError) as error:
            raise Unreachable(
                f"Cannot reach a broker at {self.host}:{self.port}: {str(error) or 'no answer'}. "
                "Is it running, and is this the port of its queue door?"
            ) from None
        self._tasks = [*(task for task in self._tasks if not task.done()), reading]
        return line

    async def _rejoin(self, line: _Line, name: str, window: int | None) -> None:
        try:
            self._terms = self._terms.joined(await line.ask(ask_subscribe(name, window)))
        except ClientError as error:
            if error.retriable:
                raise
            self._ended(name, error)

    def _put_line(self, line: _Line) -> None:
        self._line = line
        self._has_line.set()

    async def _stay_connected(self) -> None:
        """Whenever the line is over, make another."""
        while True:
            line = self._line
            assert line is not None
            await line.writer.wait_closed()
            self._has_line.clear()
            logger.warning("connection to %s:%d lost", self.host, self.port)
            pause_s = RETRY_S
            while True:
                try:
                    self._put_line(await self._open())
                    break
                except Unreachable as error:
                    logger.info("no connection yet: %s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)

    async def _show_life(self) -> None:
        """Ask for more time for what is held, and say something when nothing was said for long."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(TICK_S, self._terms.renewal_s / 2))
            line = self._line
            if line is not None and not line.is_over:
                line.send(line.session.renew(loop.time(), self._terms.renewal_s))
                if loop.time() - line.said_at >= self._terms.heartbeat_s:
                    line.send(line.session.heartbeat())

    # -- messages

    async def _handle_forever(self) -> None:
        while True:
            line, message = await self._inbox.get()
            async with self._handling:
                subscribed = self._subscribed.get(message.subscription)
                if not line.is_over and subscribed is not None:
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
            logger.exception(failure_on(message))
            outcome, reason = RELEASE, f"{type(error).__name__}: {error}"
        line.send(line.session.settle(held_place(message), outcome, reason))


async def _read(line: _Line) -> None:
    """Feed the session until the connection ends."""
    why = "the broker has closed the connection"
    try:
        while content := await line.reader.read(READ_BYTES):
            line.session.feed(content, asyncio.get_running_loop().time())
    except (OSError, ClientError) as error:
        why = str(error)
    line.end(Unreachable(f"the connection was lost: {why}"))
