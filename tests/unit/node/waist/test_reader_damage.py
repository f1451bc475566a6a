"""Readers of records go past what they cannot open, and open large batches in a worker. They decode what they need."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from log_samples import filled_batch, garbage, with_header
from manual_ports import NOW_MS, Hand, HeldWorkers, PromptWorkers, run
from memory_broker import make_topic, until, with_broker
from penstock.core.codecs import ZSTD
from penstock.core.errors import BrokerError, Offline
from penstock.core.limits import LOOP_DECOMPRESSED_BYTES_MAX
from penstock.core.machines.subscriptions.subscription import Outcome
from penstock.core.model import Isolation, NewRecord
from penstock.core.records.build import build_batch
from penstock.core.records.compression import decompress
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.replicas.committed_records import read_committed
from penstock.node.replicas.partition import Partition
from penstock.node.runtime import payloads
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.waist.reader import Reader, Run, Wanted
from penstock.node.waist.waist import Waist
from subscription_node import SUBSCRIPTION_REQUEST, Member, letters
from subscription_node import publish as publish_to

RELAXED = {"penstock_validation": "header", "penstock_durability": "os"}
TEXT = b"z" * (LOOP_DECOMPRESSED_BYTES_MAX // 2)
NOBODY: Any = SimpleNamespace(on_close=lambda callback: None, not_on_close=lambda callback: None)
"""A client that never leaves."""
SESSION = Session("test")


def put(partition: Partition, batch: bytearray) -> None:
    partition.append(memoryview(batch))


async def read_all(reader: Reader, partition: Partition) -> list[bytes | None]:
    """Every value up to the end, as a client that follows `next_offset` sees them."""
    values: list[bytes | None] = []
    offset = 0
    while offset < partition.high_watermark:
        answers: list[Run | BrokerError] = []
        reader.read(SESSION, NOBODY, Wanted("orders", 0, offset, records_max=2), answers.append)
        await until(lambda answers=answers: answers)
        (run,) = answers
        assert isinstance(run, Run) and run.next_offset > offset
        values += [record.value for record in run.records]
        offset = run.next_offset
    return values


@pytest.mark.parametrize("kind", [name for name, _ in garbage()])
def test_a_reader_goes_past_what_it_cannot_open(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "penstock.partition")

    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders", **RELAXED)
        partition, reader = broker.partition("orders", 0), Waist(broker).reader()
        put(partition, filled_batch(payload=b"before"))
        put(partition, dict(garbage())[kind])
        put(partition, filled_batch(payload=b"behind"))
        assert partition.high_watermark == 5
        for _ in range(2):
            values = await read_all(reader, partition)
            assert (values[0], values[-1]) == (b"before", b"behind")
        (said,) = caplog.records
        assert (said.topic, said.partition) == ("orders", 0)  # type: ignore[attr-defined]
        assert 1 <= said.offset <= 3  # type: ignore[attr-defined]
        found = partition.find_time(1_000, Isolation.READ_COMMITTED)
        assert found is not None and found.offset == 0

    with_broker(test)


@pytest.mark.parametrize("kind", [name for name, _ in garbage()])
def test_a_subscription_goes_past_what_it_cannot_open(kind: str) -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "t", **RELAXED)
        await publish_to(broker, b"before")
        put(broker.partition("t", 0), dict(garbage())[kind])
        await publish_to(broker, b"behind")
        await broker.subscriptions.create(SUBSCRIPTION_REQUEST)
        member = Member(broker.subscriptions.find(SUBSCRIPTION_REQUEST.name), "one")
        await until(lambda: [one.record.value for one in member.given][-1:] == [b"behind"])
        member.accept_all()
        await until(lambda: broker.subscriptions.progress(SUBSCRIPTION_REQUEST.name)[0].settled_offset == 5)

    with_broker(test)


def test_bytes_that_rotted_are_skipped_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        hand = Hand(MemoryFiles(), PromptWorkers())
        settings = {"penstock_durability": "os", "index_interval_bytes": "0", "segment_bytes": "1024"}
        partition = hand.partition(**settings)
        for number in range(40):
            put(partition, filled_batch(payload=b"%d" % number, time_ms=NOW_MS))
        assert await partition.settle()
        first = partition.log.segments[0]
        found = first.find(3, first.size)
        assert found is not None and len(partition.log.segments) > 2
        partition.close(Offline("closed"))
        content = bytearray(hand.files.read_whole(first.file.path) or b"")
        content[found.end - 2] ^= 1
        hand.files.write_whole(first.file.path, bytes(content))
        caplog.set_level(logging.ERROR)
        partition = hand.partition(recovery_offset=40, **settings)
        for _ in range(2):
            values: list[bytes | None] = []
            offset = 0
            while offset < 40:
                read = read_committed(partition, offset, 1 << 20)
                assert read.next_offset > offset
                values += [record.value for record in read.records]
                offset = read.next_offset
            assert values == [b"%d" % number for number in range(40) if number != 3]
        assert [one.offset for one in caplog.records if "skip" in one.getMessage()] == [3]  # type: ignore[attr-defined]

    run(test)


class Holding:
    """Workers that unfold batches when they are told to, and do everything else promptly."""

    def __init__(self) -> None:
        self.held = HeldWorkers()
        self._prompt = PromptWorkers()

    def submit(self, work: Any, done: Any) -> None:
        is_unfolding = getattr(work, "func", None) is decompress
        (self.held if is_unfolding else self._prompt).submit(work, done)


def test_a_large_batch_is_opened_in_a_worker_and_once() -> None:
    holding = Holding()

    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders", penstock_durability="os")
        partition, reader = broker.partition("orders", 0), Waist(broker).reader()
        put(partition, filled_batch(payload=b"before"))
        put(partition, build_batch([NewRecord(None, TEXT)] * 8, 1_000, ZSTD))
        answers: list[Run | BrokerError] = []
        reader.read(SESSION, NOBODY, Wanted("orders", 0, 0, records_max=3), answers.append)
        (first,) = answers
        assert isinstance(first, Run) and [record.offset for record in first.records] == [0]
        reader.read(SESSION, NOBODY, Wanted("orders", 0, 1, records_max=3), answers.append)
        reader.read(SESSION, NOBODY, Wanted("orders", 0, 4, records_max=2), answers.append)
        assert len(answers) == 1 and len(holding.held.jobs) == 1, "all wait for one worker"
        await holding.held.do_all()
        offsets = [[record.offset for record in one.records] for one in answers[1:] if isinstance(one, Run)]
        assert offsets == [[1, 2, 3], [4, 5]]
        reader.read(SESSION, NOBODY, Wanted("orders", 0, 7), answers.append)
        assert len(answers) == 4 and not holding.held.jobs

    with_broker(test, workers=holding)


def test_what_was_unfolded_is_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "CACHE_BYTES_MAX", 10 * len(TEXT))

    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders", penstock_durability="os")
        partition, reader = broker.partition("orders", 0), Waist(broker).reader()
        for _ in range(4):
            put(partition, build_batch([NewRecord(None, TEXT)] * 4, 1_000, ZSTD))
        assert await read_all(reader, partition) == [TEXT] * 16
        cache = broker.runtime.payloads
        assert cache._cached_bytes == sum(len(one) for one in cache._cache.values()) <= 10 * len(TEXT)  # type: ignore[arg-type]

    with_broker(test)


def test_a_message_of_a_large_batch_comes_back_and_dies() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "t", penstock_durability="os")
        put(broker.partition("t", 0), build_batch([NewRecord(None, TEXT)] * 5, 1_000, ZSTD))
        await broker.subscriptions.create(SUBSCRIPTION_REQUEST)
        member = Member(broker.subscriptions.find(SUBSCRIPTION_REQUEST.name), "one", window=1)
        await until(lambda: member.given)
        broker.runtime.payloads._cache.clear()
        member.say(member.given[0], Outcome.RELEASE)
        await until(lambda: len(member.given) == 2)
        assert member.numbers == [(0, 1), (0, 2)]
        broker.runtime.payloads._cache.clear()
        member.say(member.given[1], Outcome.REJECT)
        await until(lambda: letters(broker))
        assert letters(broker)[0].value == TEXT

    with_broker(test)


def test_records_that_are_not_asked_for_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders", penstock_durability="os")
        partition, reader = broker.partition("orders", 0), Waist(broker).reader()
        put(partition, filled_batch(5_000, b"x"))
        decoded: list[int] = []
        real = Partition.open_payload
        monkeypatch.setattr(Partition, "open_payload", lambda *given: decoded.append(1) or real(*given))
        source = reader.source(SESSION, "orders", 0)
        run = source.read(Wanted("orders", 0, 4_000, records_max=1), lambda: None)
        assert [record.offset for record in run.records] == [4_000] and decoded == [1]

    with_broker(test)


def test_a_batch_that_ends_too_early_gives_what_comes_before() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders", **RELAXED)
        partition, reader = broker.partition("orders", 0), Waist(broker).reader()
        good = filled_batch(4, b"x" * 20)
        put(partition, with_header(good[:-15], length=len(good) - 12 - 15))
        put(partition, filled_batch(payload=b"behind"))
        assert await read_all(reader, partition) == [b"x" * 20] * 3 + [b"behind"]

    with_broker(test)
