"""One broker, busy clients, and a crash after a crash: the run behind the crash tests. Never mends what it finds."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from enum import Enum
from typing import Any

from penstock.core.model import Record
from penstock.wire.kafka import ErrorCode
from sim import load, node
from sim.kafka_client import KafkaClient, KafkaError, Place
from sim.ledger import Kind, Ledger
from sim.loop import SimLoop
from sim.machine import Machine
from sim.net import Farewell

LIVES = 6
"""Crashes per run, beside those that fall into a start."""
LOAD_S_MAX = 0.4
INTERRUPT_OPERATIONS_MAX = 400
START_OPERATIONS_MAX = 60
STOP_OPERATIONS_MAX = 60
START_CRASH_CHANCE = 0.4
STEP_S = 0.002


class Crash(Enum):
    """How a life ends."""

    POWER = "power lost at some time"
    KILL = "killed at some time"
    POWER_INSIDE = "power lost inside a disk operation"
    KILL_INSIDE = "killed inside a disk operation"
    STOP_INSIDE = "power lost while stopping clean"
    STOP = "stopped clean"


class Trial:
    """One seed: a machine, its clients, and the ledger of promises."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.chance = loop.random_for("trial")
        self.machine = Machine(loop, node.NAME)
        self.ledger = Ledger()
        self.crashes: Counter[str] = Counter()
        self._writers = [load.Writer(f"plain{n}", self._stream(f"plain{n}")) for n in range(2)]
        self._idempotent = [
            load.Idempotent(load.Writer(f"idem{n}", self._stream(f"idem{n}"))) for n in range(2)
        ]
        self._changer = load.Writer("topics", self._stream("topics"))
        self._reader = self._stream("reader")
        self._lost_power = False
        self._node: node.Node | None = None

    def _stream(self, name: str) -> random.Random:
        return self._loop.random_for(f"trial/{name}")

    async def run(self) -> None:
        """Crash and check, again and again; the last check follows the last crash."""
        await self._start()
        await self._on_client("admin", self._create_topics())
        for _ in range(LIVES):
            await self._live(self.chance.choice(list(Crash)))
            await self._start()
            await self._on_client("checker", self._check())

    # ---- lives

    async def _start(self) -> None:
        """Boot until a boot is let through."""
        while self.chance.random() < START_CRASH_CHANCE:
            power = self.chance.random() < 0.5
            self.machine.boot(node.boot)
            self.machine.interrupt_at(self.chance.randint(1, START_OPERATIONS_MAX), power=power)
            await asyncio.sleep(self.chance.uniform(0, 0.5))
            if self._is_alive():
                self._end(power=power)
            self._lost_power |= power
            self.crashes["while starting"] += 1
        self._node = await self.machine.boot(node.boot)

    async def _live(self, crash: Crash) -> None:
        clients = self._start_clients()
        await asyncio.sleep(self.chance.uniform(0, LOAD_S_MAX))
        await self._crash(crash)
        for answer in await asyncio.gather(*clients, return_exceptions=True):
            if not isinstance(answer, ConnectionError):
                assert isinstance(answer, BaseException)
                raise answer
        self.crashes[crash.value] += 1

    async def _crash(self, crash: Crash) -> None:
        if crash in (Crash.POWER, Crash.KILL):
            self._end(power=crash is Crash.POWER)
        elif crash in (Crash.POWER_INSIDE, Crash.KILL_INSIDE):
            power = crash is Crash.POWER_INSIDE
            self.machine.interrupt_at(self.chance.randint(1, INTERRUPT_OPERATIONS_MAX), power=power)
            await self._until_dead(2.0)
            if self._is_alive():
                self._end(power=power)
        else:
            assert self._node is not None
            if crash is Crash.STOP_INSIDE:
                self.machine.interrupt_at(self.chance.randint(1, STOP_OPERATIONS_MAX))
            stopping = self._loop.spawn(node.NAME, self._node.stop())
            await self._until_dead(20.0, stopping)
            if self._is_alive():
                stopping.result()
                self._end(power=crash is Crash.STOP_INSIDE)
        self._lost_power |= crash in (Crash.POWER, Crash.POWER_INSIDE, Crash.STOP_INSIDE)

    def _end(self, *, power: bool) -> None:
        (self.machine.lose_power if power else self.machine.kill)(self.chance.choice(list(Farewell)))

    def _is_alive(self) -> bool:
        return self._loop.latest(node.NAME).alive

    async def _until_dead(self, wait_s: float, stopping: asyncio.Task[None] | None = None) -> None:
        until = self._loop.time() + wait_s
        while self._is_alive() and self._loop.time() < until and not (stopping and stopping.done()):
            await asyncio.sleep(STEP_S)

    # ---- clients

    def _start_clients(self) -> list[asyncio.Task[None]]:
        works = {
            "reader": load.read_along(self._dial, self.ledger, self._reader),
            "topics": load.change_topics(self._dial, self.ledger, self._changer),
        }
        now_ms = self.machine.clock.now_ms
        for writer in self._writers:
            works[writer.name] = load.write_plain(self._dial, self.ledger, writer, now_ms)
        for producer in self._idempotent:
            works[producer.writer.name] = producer.run(self._dial, self.ledger, now_ms)
        return [self._loop.spawn(name, work) for name, work in works.items()]

    async def _on_client(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        await self._loop.spawn(name, work)

    async def _dial(self) -> KafkaClient:
        try:
            return await KafkaClient.connect(node.NAME, node.PORT)
        except OSError as error:
            raise ConnectionError(f"cannot connect: {error}") from error

    async def _create_topics(self) -> None:
        client = await self._dial()
        for kind in Kind:
            name = kind.name.lower()
            self.ledger.created(await client.create_topic(name, 2, dict(kind.value)), name, kind, 2)
        client.close()

    async def _check(self) -> None:
        """Read everything there is and hold it against the ledger."""
        client = await self._dial()
        self.ledger.check_topics(await client.topics())
        for topic_id, topic in list(self.ledger.topics.items()):
            for partition in range(len(topic.partitions)):
                place = Place(topic_id, partition)
                start, end, records = await read_whole(client, place)
                self.ledger.check_partition(place, start, end, records, lost_power=self._lost_power)
        self._lost_power = False
        client.close()


async def read_whole(client: KafkaClient, place: Place) -> tuple[int, int, list[Record]]:
    """A partition from its start to its high watermark; begun again when the start moves meanwhile."""
    while True:
        offset = start = await client.start_offset(place)
        records: list[Record] = []
        while True:
            try:
                fetched = await client.fetch(place, offset)
            except KafkaError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE or await client.start_offset(place) <= offset:
                    raise
                break
            if fetched.start_offset != start:
                break
            if fetched.next_offset == offset:
                return start, fetched.high_watermark, records
            records += fetched.records
            offset = fetched.next_offset
