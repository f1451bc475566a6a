"""Records one by one: from any offset, within limits, with patience, and never what must not be seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from manual_ports import turns
from memory_broker import make_topic, until, with_broker
from penstock.core.errors import BrokerError, OffsetOutOfRange, UnknownTopic
from penstock.core.model import Isolation, NewRecord
from penstock.core.records.batch import TRANSACTIONAL, decode_header, encode_header, stamp_checksum
from penstock.core.records.build import build_batch
from penstock.core.records.control import Marker
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.replicas import committed_records
from penstock.node.replicas.partition import Partition
from penstock.node.waist.positions import Edge
from penstock.node.waist.reader import Reader, Run, Wanted
from penstock.node.waist.waist import Waist

SESSION = Session("test")


class Client:
    """Somebody who may go while waiting."""

    def __init__(self) -> None:
        self._on_close: dict[Callable[[], None], None] = {}

    def on_close(self, callback: Callable[[], None]) -> None:
        self._on_close[callback] = None

    def not_on_close(self, callback: Callable[[], None]) -> None:
        del self._on_close[callback]

    def go(self) -> None:
        for callback in list(self._on_close):
            callback()


async def put(partition: Partition, *values: bytes, codec: int = 0, time_ms: int = 1_000) -> None:
    """One batch of these values, readable before this returns."""
    records = [NewRecord(None, value) for value in values]
    appended = partition.append(memoryview(build_batch(records, time_ms, codec)))
    await until(lambda: partition.high_watermark >= appended.end_offset)


def read_now(reader: Reader, wanted: Wanted) -> Run:
    """What is there, without waiting."""
    return reader.source(SESSION, wanted.topic, wanted.partition).read(wanted, lambda: None)


def values(run: Run) -> list[bytes | None]:
    return [record.value for record in run.records]


def test_from_any_offset_within_a_batch_and_over_batches() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        partition, reader = broker.partition("orders", 0), Waist(broker).reader()
        await put(partition, b"0", b"1", b"2")
        await put(partition, b"3", b"4", codec=1)
        await put(partition, b"5")
        for offset in range(6):
            for records_max in range(1, 7):
                run = read_now(reader, Wanted("orders", 0, offset, records_max))
                expected = list(range(offset, min(offset + records_max, 6)))
                assert values(run) == [b"%d" % number for number in expected]
                assert [record.offset for record in run.records] == expected
                assert (run.next_offset, run.start_offset, run.end_offset) == (expected[-1] + 1, 0, 6)
        run = read_now(reader, Wanted("orders", 0, 6))
        assert run == Run([], 6, 0, 6)

    with_broker(test)


def test_bytes_are_a_limit_but_one_record_always_fits() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        partition, reader = broker.partition("orders", 0), Waist(broker).reader()
        await put(partition, b"a" * 100, b"b" * 100, b"c" * 100)
        for bytes_max, count in ((0, 1), (1, 1), (150, 1), (200, 2), (299, 2), (300, 3), (10**9, 3)):
            run = read_now(reader, Wanted("orders", 0, 0, 100, bytes_max))
            assert len(run.records) == count, bytes_max

    with_broker(test)


def answer_to(reader: Reader, wanted: Wanted, client: Client | None = None) -> list[Run | BrokerError]:
    answers: list[Run | BrokerError] = []
    reader.read(SESSION, client or Client(), wanted, answers.append)
    return answers


def test_errors_are_answers() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        reader = Waist(broker).reader()
        for wanted, error in (
            (Wanted("nowhere", 0, 0), UnknownTopic),
            (Wanted("orders", 1, 0), UnknownTopic),
            (Wanted("orders", 0, 5, wait_ms=1_000), OffsetOutOfRange),
            (Wanted("orders", 0, -1), OffsetOutOfRange),
        ):
            assert [type(one) for one in answer_to(reader, wanted)] == [error]

    with_broker(test)


def test_waiting_ends_with_data_with_time_or_with_the_doors() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        partition, reader = broker.partition("orders", 0), Waist(broker).reader()
        assert answer_to(reader, Wanted("orders", 0, 0)) == [Run([], 0, 0, 0)]
        patient = answer_to(reader, Wanted("orders", 0, 0, wait_ms=60_000))
        short = answer_to(reader, Wanted("orders", 0, 0, wait_ms=1))
        async with asyncio.timeout(30):
            while not short:
                await asyncio.sleep(0.001)
        assert short == [Run([], 0, 0, 0)] and patient == []
        await put(partition, b"x")
        await until(lambda: patient)
        assert isinstance(patient[0], Run) and values(patient[0]) == [b"x"]
        closing = answer_to(reader, Wanted("orders", 0, 1, wait_ms=60_000))
        reader.release_waiting()
        assert closing == [Run([], 1, 0, 1)]
        assert not partition._watermark_listeners.listening

    with_broker(test)


def test_who_goes_while_waiting_is_not_answered_and_leaves_nothing_behind() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        partition, reader, client = broker.partition("orders", 0), Waist(broker).reader(), Client()
        answers = answer_to(reader, Wanted("orders", 0, 0, wait_ms=60_000), client)
        client.go()
        assert not partition._watermark_listeners.listening
        await put(partition, b"x")
        await turns()
        reader.release_waiting()
        assert answers == []

    with_broker(test)


def test_a_topic_that_goes_while_somebody_waits_ends_the_wait() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        answers = answer_to(Waist(broker).reader(), Wanted("orders", 0, 0, wait_ms=60_000))
        await broker.change(lambda catalog: catalog.decide_delete_topic("orders"))
        await until(lambda: answers)
        assert isinstance(answers[0], BrokerError)

    with_broker(test)


async def put_in_transaction(partition: Partition, sequence: int, *values: bytes) -> None:
    batch = build_batch([NewRecord(None, value) for value in values], 1_000)
    header = decode_header(batch)
    changed = header._replace(
        attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=sequence
    )
    batch[: len(encode_header(changed))] = encode_header(changed)
    stamp_checksum(batch)
    appended = partition.append(memoryview(batch), in_transaction=True)
    await until(lambda: partition.high_watermark >= appended.end_offset)


def test_what_was_aborted_is_left_out_and_what_is_open_is_waited_for() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        partition, reader = broker.partition("orders", 0), Waist(broker).reader()
        everything = Wanted("orders", 0, 0, 100)
        dirty = everything._replace(isolation=Isolation.READ_UNCOMMITTED)
        await put_in_transaction(partition, 0, b"aborted")
        assert read_now(reader, everything) == Run([], 0, 0, 0)
        assert values(read_now(reader, dirty)) == [b"aborted"]
        waiting = answer_to(reader, everything._replace(wait_ms=60_000))
        partition.append_marker(7, 0, Marker(is_commit=False, coordinator_epoch=0))
        await until(lambda: partition.last_stable_offset == 2)
        await turns()
        assert waiting == [], "nothing to see yet"
        await put_in_transaction(partition, 1, b"committed")
        partition.append_marker(7, 0, Marker(is_commit=True, coordinator_epoch=0))
        await until(lambda: waiting)
        assert isinstance(waiting[0], Run) and values(waiting[0]) == [b"committed"]
        run = read_now(reader, everything)
        assert (values(run), run.next_offset) == ([b"committed"], 4)
        assert values(read_now(reader, dirty)) == [b"aborted", b"committed"]

    with_broker(test)


def test_much_that_must_not_be_seen_is_looked_through_in_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committed_records, "SCAN_BYTES_MAX", 1)
    monkeypatch.setattr(committed_records, "STEP_BYTES", 1)

    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        partition, reader = broker.partition("orders", 0), Waist(broker).reader()
        for sequence in range(5):
            await put_in_transaction(partition, sequence, b"aborted")
        partition.append_marker(7, 0, Marker(is_commit=False, coordinator_epoch=0))
        await until(lambda: partition.last_stable_offset == 6)
        impatient = answer_to(reader, Wanted("orders", 0, 0))
        patient = answer_to(reader, Wanted("orders", 0, 0, wait_ms=60_000))
        assert impatient == patient == [], "not all in one turn"
        await until(lambda: impatient)
        assert impatient == [Run([], 6, 0, 6)]
        await put(partition, b"seen")
        await until(lambda: patient)
        assert isinstance(patient[0], Run) and values(patient[0]) == [b"seen"]

    with_broker(test)


def test_by_time_and_from_the_end() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        partition = broker.partition("orders", 0)
        await put(partition, b"a", time_ms=1_000)
        await put(partition, b"b", time_ms=2_000)
        reader = Waist(broker).reader()
        found: list[int | BrokerError] = []
        for time_ms in (0, 1_001, 2_001):
            reader.start(SESSION, "orders", 0, time_ms, Isolation.READ_COMMITTED, found.append)
        reader.start(SESSION, "orders", 0, Edge.LATEST, Isolation.READ_UNCOMMITTED, found.append)
        assert found == [0, 1, 2, 2]
        reader.start(SESSION, "nowhere", 0, Edge.LATEST, Isolation.READ_UNCOMMITTED, found.append)
        assert isinstance(found[-1], UnknownTopic)

    with_broker(test)
