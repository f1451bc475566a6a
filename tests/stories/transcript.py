"""How stories are told: a broker on a simulated machine, clients that say what they do, a transcript to compare.

A story is one behaviour in the words of the people who see it; what is printed is what the broker really answered.
Never asserts anything itself: the story shows its transcript, and the test compares it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from textwrap import dedent
from typing import Any

import request_builders
from in_process_client import Caller, open_doors
from log_samples import with_header
from penstock.apps.doorways import Doorways
from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch, open_batches
from penstock.node.broker import Broker, start_broker
from penstock.node.runtime.runtime import Runtime
from penstock.node.settings import Settings
from penstock.wire.kafka import ApiKey, ErrorCode
from sim import loop as simulation
from sim.loop import Order, SimLoop
from sim.machine import Machine
from sim.workers import WorkerKnobs

NOW_MS = 1_750_000_000_000


class Story:
    """The scene: one machine, one broker at a time, and the lines so far."""

    def __init__(self, machine: Machine, settings: Settings) -> None:
        self.machine = machine
        self.settings = settings
        self.lines: list[str] = []
        self.broker: Broker
        self.doors: Doorways

    async def start(self) -> None:
        machine = self.machine
        runtime = Runtime(machine.clock, machine.rng, machine.files, machine.workers)
        self.broker = await start_broker(self.settings, runtime)
        self.doors = open_doors(self.broker)
        self.say(f"the broker starts, epoch {self.broker.identity.run_epoch}")

    async def stop(self) -> None:
        await self.doors.close()
        is_clean = await self.broker.stop()
        self.say("the broker stops clean" if is_clean else "the broker stops, not clean")

    async def topic(self, name: str, **overrides: str) -> None:
        configs = {key.replace("_", "."): value for key, value in overrides.items()}
        topic_id = self.broker.new_topic_id()
        await self.broker.change(
            lambda catalog: catalog.decide_create_topic(name, 1, configs, topic_id=topic_id, now_ms=1)
        )

    def say(self, line: str) -> None:
        self.lines.append(line)

    def client(self, name: str) -> Client:
        return Client(self, name)


class Client:
    """One client and its connection; every call is a line of the story."""

    def __init__(self, story: Story, name: str) -> None:
        self._story = story
        self.name = name
        self._caller = Caller(story.doors)

    def say(self, line: str) -> None:
        self._story.say(f"{self.name}: {line}")

    async def _ask(self, api_key: ApiKey, version: int, body: Any) -> Any:
        self._caller.send(api_key, version, body)
        return await self._answer()

    async def _answer(self) -> Any:
        """In virtual time there is no hurry: look again every millisecond."""
        while (body := self._caller.take()) is None:
            await asyncio.sleep(0.001)
        return body

    async def produce(self, topic: str, *values: str, producer: tuple[int, int, int] | None = None) -> None:
        """Send one batch; `producer` is id, epoch and sequence."""
        batch = build_batch([NewRecord(None, value.encode()) for value in values], NOW_MS)
        told = ""
        if producer is not None:
            identity, epoch, sequence = producer
            batch = with_header(batch, producer_id=identity, producer_epoch=epoch, base_sequence=sequence)
            told = f" (producer {identity}, epoch {epoch}, sequence {sequence})"
        answer = await self._ask(ApiKey.PRODUCE, 9, request_builders.produce(topic, batch))
        one = answer.responses[0].partition_responses[0]
        outcome = ErrorCode(one.error_code).name if one.error_code else f"offset {one.base_offset}"
        self.say(f"produces {' '.join(values)}{told} -> {outcome}")

    async def fetch(self, topic: str, offset: int, *, wait_ms: int = 0, epoch: int = -1) -> None:
        request = request_builders.fetch((topic, 0, offset), wait_ms=wait_ms, epoch=epoch)
        one = (await self._ask(ApiKey.FETCH, 12, request)).responses[0].partitions[0]
        told = f" as of epoch {epoch}" if epoch >= 0 else ""
        if one.error_code:
            self.say(f"fetches from {offset}{told} -> {ErrorCode(one.error_code).name}")
            return
        records = [f"{found.offset}={(found.value or b'').decode()}" for found in open_batches(one.records)]
        self.say(
            f"fetches from {offset}{told} -> {' '.join(records) or 'nothing'}, the end is {one.high_watermark}"
        )

    async def epoch_end(self, topic: str, epoch: int) -> None:
        answer = await self._ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request_builders.epoch_end(topic, epoch))
        one = answer.topics[0].partitions[0]
        self.say(f"asks where epoch {epoch} ended -> {one.end_offset}")

    async def offset_at(self, topic: str, time_ms: int, words: str) -> None:
        answer = await self._ask(ApiKey.LIST_OFFSETS, 7, request_builders.list_offsets(topic, time_ms))
        one = answer.topics[0].partitions[0]
        outcome = ErrorCode(one.error_code).name if one.error_code else str(one.offset)
        self.say(f"asks for the {words} offset -> {outcome}")


def tell(play: Callable[[Story], Coroutine[Any, Any, None]], **settings: Any) -> str:
    """Play a story on a simulated machine; returns its transcript."""

    async def on_machine(machine: Machine) -> str:
        story = Story(machine, Settings(node_id=1, auto_create_topics=False, drain_ms_max=10, **settings))
        await story.start()
        await play(story)
        return "\n".join(story.lines)

    async def main(loop: SimLoop) -> str:
        return await Machine(loop, "broker", workers=WorkerKnobs(slow_chance=0)).boot(on_machine)

    return simulation.run(1, main, order=Order.FIFO)


def transcript(text: str) -> str:
    """The expected lines, as written in a test."""
    return dedent(text).strip()
