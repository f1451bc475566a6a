"""Requests of one connection take effect in order: pipelined, they are answered as if each had waited for the last.

The same requests go to two equal worlds: to one without waiting for answers, to the other one by one. Disk and workers
take as long as they like in both.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.apps.doorways import Doorways
from penstock.core.records.batch import BatchHeader, decode_header, size_at
from penstock.doors.kafka import dispatch
from penstock.node.broker import start_broker
from penstock.node.connections.addresses import Address
from penstock.node.connections.reply_slot import ReplySlot
from penstock.node.connections.turns import Turns
from penstock.node.runtime.runtime import Runtime
from penstock.node.settings import Settings
from penstock.wire.kafka import ApiKey, decode_response, messages
from penstock.wire.queue.frames import decode
from sim import every_call, scripts
from sim.kafka_client import KafkaClient
from sim.loop import SimLoop, run
from sim.machine import Machine
from sim.workers import WorkerKnobs

HOST, PORT = "broker", 9092
SETTINGS = replace(
    Settings(),
    host=HOST,
    port=PORT,
    checkpoint_interval_ms=1_000,
    retention_ms=-1,
    consumer_group_session_ms=10**7,
)
WORKERS = WorkerKnobs(slow_chance=0.3, slow_s_max=0.3)
SETTLE_S = 5.0
"""Virtual seconds in which everything that was asked is answered."""
STEPS, DOOR_STEPS = 60, 40
"""Requests of a Kafka script and of one for another door, which ends before the first check of retention."""
SEEDS = 12
REFUSED = {
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
}
"""Calls that have no better answer here: security is off, there is one broker, and the members left."""
_INCIDENTAL = re.compile(rb'17[5-9]\d{10}|(Date|Content-Length): [^\r]*\r\n|"bytes": ?\d+')
"""Times, and how many bytes the same records take: pipelined, they share batches."""


async def _serve(loop: SimLoop) -> None:
    async def boot(machine: Machine) -> None:
        broker = await start_broker(
            SETTINGS, Runtime(machine.clock, machine.rng, machine.files, machine.workers)
        )
        doors = Doorways(broker)
        await doors.open()
        await doors.serve(Address(HOST, PORT))

    await Machine(loop, HOST, workers=WORKERS).boot(boot)


async def _exchange(
    loop: SimLoop, port: int, requests: list[bytes], *, pipelined: bool, is_over: Callable[[bytes], bool]
) -> bytes:
    """Send everything, at once or with a long pause behind every request; returns all that came back."""
    chance = loop.random_for("client")
    reader, writer = await asyncio.open_connection(HOST, port)
    received = bytearray()

    async def read() -> None:
        while content := await reader.read(1 << 16):
            received.extend(content)

    reading = asyncio.create_task(read())
    for request in requests:
        writer.write(request)
        if not pipelined:
            await asyncio.sleep(SETTLE_S)
        elif chance.random() < 0.2:
            await asyncio.sleep(chance.uniform(0, 0.01))
    for _ in range(100):
        if is_over(bytes(received)):
            break
        await asyncio.sleep(SETTLE_S)
    reading.cancel()
    writer.close()
    return bytes(received)


# ---- Kafka


async def _script(chance: random.Random, client: KafkaClient) -> every_call.EveryCallScript:
    """Make topics, producers and a member; what they were given is in the script."""
    await client.create_topic(scripts.TOPIC, scripts.PARTITIONS, {})
    await client.create_topic(scripts.TXN_TOPIC, scripts.PARTITIONS, {})
    await client.create_topic(scripts.QUICK_TOPIC, 1, {"penstock.durability": "os"})
    find = messages.FindCoordinatorRequest
    await client.call(ApiKey.FIND_COORDINATOR, 4, find(key_type=0, coordinator_keys=[scripts.GROUP]))
    idempotent = (await client.init_producer(), 0)
    new, old = [await _init(client, one) for one in (scripts.TXN_ID, every_call.OLD_TXN_ID)]
    return every_call.EveryCallScript(chance, idempotent, new, old, await every_call.join(client))


async def _init(client: KafkaClient, transactional_id: str) -> tuple[int, int]:
    body = messages.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=600_000, producer_id=-1, producer_epoch=-1
    )
    answer = await client.call(ApiKey.INIT_PRODUCER_ID, 4, body)
    assert not answer.error_code
    return answer.producer_id, answer.producer_epoch


def _kafka_answers(seed: int, *, pipelined: bool, count: int = STEPS) -> list[tuple[scripts.Step, Any]]:
    async def main(loop: SimLoop) -> list[tuple[scripts.Step, Any]]:
        await _serve(loop)
        client = await KafkaClient.connect(HOST, PORT)
        script = await _script(loop.random_for("script"), client)
        client.close()
        steps = script.steps(count)
        answered = [step for step in steps if step.is_answered]
        requests = [step.encode(number) for number, step in enumerate(steps)]
        received = await _exchange(
            loop,
            PORT,
            requests,
            pipelined=pipelined,
            is_over=lambda content: len(_frames(content)) == len(answered),
        )
        frames = _frames(received)
        assert len(frames) == len(answered), (
            f"{len(frames)} of {len(answered)} requests were answered, not {answered[len(frames)]}"
        )
        return [
            (step, _timeless(decode_response(step.api_key, step.version, frame)[1]))
            for step, frame in zip(answered, frames, strict=True)
        ]

    return run(seed, main)


def _timeless(answer: Any) -> Any:
    """An answer without the times at which the broker wrote something of its own, and without the bytes of segments,
    which retention deletes later."""
    if isinstance(answer, messages.DescribeTransactionsResponse):
        for one in answer.transaction_states:
            one.transaction_start_time_ms = min(one.transaction_start_time_ms, 0)
    if isinstance(answer, messages.DescribeProducersResponse):
        for partition in answer.topics[0].partitions:
            for producer in partition.active_producers:
                producer.last_timestamp = 0
    if isinstance(answer, messages.DescribeLogDirsResponse):
        for directory in answer.results:
            for described in directory.topics:
                for one_log in described.partitions:
                    one_log.partition_size = 0
    if isinstance(answer, messages.DescribeQuorumResponse):
        for voter in answer.topics[0].partitions[0].current_voters:
            voter.last_fetch_timestamp = voter.last_caught_up_timestamp = 0
    if isinstance(answer, messages.FetchResponse):
        for topic in answer.responses:
            for part in topic.partitions:
                untyped: Any = part
                untyped.records = [
                    (header._replace(base_timestamp_ms=0, max_timestamp_ms=0, crc=0), len(raw))
                    if header.is_control
                    else raw
                    for header, raw in _batches(untyped.records)
                ]
    return answer


def _batches(content: memoryview) -> Iterator[tuple[BatchHeader, bytes]]:
    while len(content):
        raw = bytes(content[: size_at(content, 0)])
        yield decode_header(raw), raw
        content = content[len(raw) :]


def _frames(content: bytes) -> list[bytes]:
    frames, at = [], 0
    while at + 4 <= len(content) and at + 4 + (size := int.from_bytes(content[at : at + 4], "big")) <= len(
        content
    ):
        frames.append(content[at + 4 : at + 4 + size])
        at += 4 + size
    return frames


def _check_kafka(seed: int) -> None:
    expected = _kafka_answers(seed, pipelined=False)
    for number, ((step, wanted), (_, found)) in enumerate(
        zip(expected, _kafka_answers(seed, pipelined=True), strict=True)
    ):
        assert found == wanted, f"request {number} of seed {seed}, {step}"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_pipelined_kafka_requests_take_effect_in_order(seed: int) -> None:
    _check_kafka(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 1_400, 20))
def test_many_pipelined_kafka_requests_take_effect_in_order(first: int) -> None:
    for seed in range(first, first + 20):
        _check_kafka(seed)


def test_the_scripts_do_what_they_foresee() -> None:
    """The law above would be worth nothing if every request failed."""
    codes: dict[ApiKey, set[int]] = {}
    for seed in range(4):
        for step, answer in _kafka_answers(seed, pipelined=False):
            found = re.findall(r"error_code=(-?\d+)", repr(answer))
            codes.setdefault(step.api_key, set()).update(map(int, found))
    assert {key for key, found in codes.items() if 0 not in found} <= REFUSED
    assert not codes[ApiKey.PRODUCE] & {45, 46, 47, 48, 49, 59}, (
        "sequences, epochs and transactions are right"
    )
    assert codes[ApiKey.END_TXN] == {0}


def test_every_call_of_the_door_is_in_a_script() -> None:
    async def main(loop: SimLoop) -> tuple[set[int], set[int]]:
        await _serve(loop)
        client = await KafkaClient.connect(HOST, PORT)
        told = await client.call(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        script = await _script(loop.random_for("script"), client)
        made = {int(step.api_key) for step in script.steps(STEPS * SEEDS)}
        return {one.api_key for one in told.api_keys}, made

    served, made = run(0, main)
    assert served | {ApiKey.WRITE_TXN_MARKERS} == made


def test_a_connection_that_is_never_held_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "hold", lambda self: lambda: None)
    with pytest.raises(AssertionError):
        for seed in range(SEEDS):
            _check_kafka(seed)


def test_calls_that_do_not_wait_for_answers_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_BESIDE", frozenset(ApiKey))
    with pytest.raises(AssertionError):
        for seed in range(SEEDS):
            _check_kafka(seed)


# ---- the other doors

DOORS: dict[str, tuple[int, Callable[[random.Random, int], list[bytes]]]] = {
    "text": (9081, scripts.text_script),
    "json": (9082, scripts.json_script),
    "http": (9080, scripts.http_script),
    "queue": (9999, scripts.queue_script),
}


def _door_answers(door: str, seed: int, *, pipelined: bool, expected_bytes: int = 0) -> bytes:
    async def main(loop: SimLoop) -> bytes:
        await _serve(loop)
        port, make = DOORS[door]
        requests = make(loop.random_for("script"), DOOR_STEPS)
        return await _exchange(
            loop, port, requests, pipelined=pipelined, is_over=lambda content: len(content) >= expected_bytes
        )

    return run(seed, main)


def _comparable(door: str, content: bytes) -> bytes:
    if door == "queue":
        content = b"".join(_stamped_never(frame) for frame in _queue_frames(content))
    return _INCIDENTAL.sub(b"", content)


def _queue_frames(content: bytes) -> Iterator[bytes]:
    while content:
        size = int.from_bytes(content[:4], "big")
        yield content[:size]
        content = content[size:]


def _stamped_never(frame: bytes) -> bytes:
    return repr(decode(memoryview(frame))._replace(timestamp_ms=0)).encode() + b"\n"


def _check_door(door: str, seed: int) -> None:
    expected = _door_answers(door, seed, pipelined=False)
    found = _door_answers(door, seed, pipelined=True, expected_bytes=len(expected))
    assert _comparable(door, found) == _comparable(door, expected)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("seed", range(6))
def test_pipelined_requests_of_the_other_doors_take_effect_in_order(door: str, seed: int) -> None:
    _check_door(door, seed)


@pytest.mark.parametrize("door", DOORS)
def test_requests_that_overtake_an_exclusive_one_are_found(
    door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def beside(self: Turns, begin: Callable[[ReplySlot], None]) -> None:
        slot = ReplySlot(self._owner)
        self.line.append(slot)
        begin(slot)

    monkeypatch.setattr(Turns, "beside", beside)
    with pytest.raises(AssertionError):
        for seed in range(6):
            _check_door(door, seed)
