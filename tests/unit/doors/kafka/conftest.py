"""A real broker over files in memory, asked through the real codec: answers are what a client would read."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from types import GeneratorType
from typing import Any, TypeVar

import pytest

from in_process_client import KAFKA_ONLY, Caller, open_doors
from penstock.core.model import NewRecord, Storage
from penstock.core.records.build import build_batch
from penstock.core.session import Session
from penstock.doors.kafka.call import Call
from penstock.node.broker import Broker, start_broker
from penstock.node.runtime.clock import SystemClock, SystemRng
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.workers import ThreadWorkers
from penstock.node.settings import Settings
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)

T = TypeVar("T")
SIZE_BYTES = 4


class CountingWorkers(ThreadWorkers):
    """Knows how often the disk was asked for something, and can be made to wait with it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        super().__init__(loop, threads)
        self.jobs = 0
        self.held: list[Callable[[], None]] | None = None

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self.jobs += 1
        if self.held is not None:
            self.held.append(lambda: super(CountingWorkers, self).submit(work, done))
        else:
            super().submit(work, done)

    def release(self) -> None:
        held, self.held = self.held or [], None
        for job in held:
            job()


class Busiest:
    """Counts the calls of a function and knows the most in one turn of the loop."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.most = 0
        self._count = 0
        called = getattr(owner, name)

        def counted(*args: Any, **more: Any) -> Any:
            if not self._count:
                asyncio.get_running_loop().call_soon(self._end)
            self._count += 1
            self.most = max(self.most, self._count)
            return called(*args, **more)

        patch.setattr(owner, name, counted)

    def _end(self) -> None:
        self._count = 0


class Node:
    """A broker, its loop, and a way to ask it."""

    def __init__(self, settings: Settings, files: MemoryFiles) -> None:
        self._runner = asyncio.Runner()
        self.files = files
        self.loop = self._runner.get_loop()
        self.workers = CountingWorkers(self.loop, 2)
        runtime = Runtime(SystemClock(), SystemRng(), files, self.workers)
        self.broker: Broker = self.run(start_broker(settings, runtime))
        self.waist = Waist(self.broker)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def ask(self, handler: Callable[[Call, Any], Any], api_key: int, version: int, body: Any) -> Any:
        """Send a request through the codec to a handler and read its answer as a client of that version does."""

        async def handle() -> Any:
            frame = encode_request(api_key, version, 7, "test", body)[SIZE_BYTES:]
            header = decode_request_header(frame)
            request = decode_request(api_key, version, frame, header.body_position)
            nowhere: Any = None
            call = Call(
                nowhere, api_key, version, header.correlation_id, Session("kafka", client_id=header.client_id)
            )
            answer: Any = handler(call, request)
            if type(answer) is GeneratorType:
                return await self.broker.runtime.slices.run(answer)
            return await answer if inspect.isawaitable(answer) else answer

        parts = encode_response(api_key, version, 7, self.run(handle()))
        reply = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]
        correlation_id, response = decode_response(api_key, version, reply[SIZE_BYTES:])
        assert correlation_id == 7
        return response

    def make_topic(self, name: str, partitions: int = 1, **overrides: str) -> None:
        """A topic; `cleanup_policy="compact"` is written so."""
        configs: dict[str, str | None] = {key.replace("_", "."): value for key, value in overrides.items()}
        topic_id = self.broker.new_topic_id()
        self.run(
            self.broker.change(
                lambda catalog: catalog.decide_create_topic(
                    name, partitions, configs, topic_id=topic_id, now_ms=1
                )
            )
        )

    def write(self, topic: str, count: int) -> None:
        """Records, each of them in a batch of its own and readable before this returns."""

        async def write() -> None:
            partition = self.broker.partition(topic, 0)
            for number in range(count):
                batch = build_batch([NewRecord(None, b"%d" % number)], self.broker.runtime.clock.now_ms())
                partition.append(memoryview(batch))
            await partition.sync_dirty()

        self.run(write())

    def talk(self, talk: Callable[[Caller], Coroutine[Any, Any, T]]) -> T:
        """Speak with the whole door, over one connection."""

        async def main() -> T:
            caller = Caller(open_doors(self.broker))
            try:
                return await talk(caller)
            finally:
                await caller.hang_up()

        return self.run(main())

    def restart(self, settings: Settings) -> None:
        """Stop clean and start again on the same files."""
        self.run(self.broker.stop())
        self.broker = self.run(start_broker(settings, self.broker.runtime))
        self.waist = Waist(self.broker)

    def close(self) -> None:
        self.run(self.broker.stop())
        self.workers.close()
        self._runner.close()


SETTINGS = Settings(
    storage=Storage.MEMORY,
    node_id=3,
    default_partitions=2,
    retention_ms=86_400_000,
    **KAFKA_ONLY,
)


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node(SETTINGS, MemoryFiles())
    yield node
    node.close()
