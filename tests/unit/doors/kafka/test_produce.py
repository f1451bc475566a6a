"""Produce through the whole door: errors per partition, waiting for the disk, and nothing for acks=0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from in_process_client import Caller
from log_samples import filled_batch, keyed_batch, with_header
from manual_ports import turns
from penstock.core.codecs import GZIP, ZSTD
from penstock.core.errors import DiskFailed
from penstock.core.limits import LOOP_DECOMPRESSED_BYTES_MAX, SLICE_UNITS
from penstock.core.model import Durability, NewRecord, Storage
from penstock.core.records.build import build_batch
from penstock.core.session import ANONYMOUS, broker_principal
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.replica import Replica
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.settings import Settings
from penstock.wire.kafka import ApiKey, ErrorCode, messages
from request_builders import produce

from .conftest import Busiest, Node

PRODUCE = ApiKey.PRODUCE


@pytest.fixture
def quick_node() -> Iterator[Node]:
    """A node whose topics acknowledge at once."""
    node = Node(Settings(storage=Storage.MEMORY, durability=Durability.OS), MemoryFiles())
    yield node
    node.close()


def only(answer: Any) -> Any:
    """The one partition of an answer."""
    return answer.responses[0].partition_responses[0]


def batch(**more: int) -> bytearray:
    return filled_batch(**{"time_ms": 1_000, **more})  # type: ignore[arg-type]


def test_an_acknowledgement_waits_for_the_disk_and_keeps_its_place(node: Node) -> None:
    node.make_topic("orders")

    async def talk(caller: Caller) -> list[Any]:
        node.workers.held = []
        for _ in range(3):
            caller.send(PRODUCE, 9, produce("orders", batch()))
        await turns()
        assert caller.take() is None
        assert len(node.workers.held) == 1, "one flush for all"
        node.workers.release()
        return [only(await caller.answer()).base_offset for _ in range(3)]

    assert node.talk(talk) == [0, 1, 2]


@pytest.mark.parametrize("is_many", [False, True])
def test_leadership_lost_after_the_append_is_an_unknown_outcome_for_brokers(
    node: Node, *, is_many: bool
) -> None:
    """A client retries, and the next leader recognises the batch. A broker forwards batches without a sequence."""
    node.make_topic("orders")

    async def talk(caller: Caller) -> list[int]:
        partition = node.broker.partition("orders", 0)
        codes = []
        for principal in (ANONYMOUS, broker_principal(2)):
            node.workers.held = []
            caller.connection.session = caller.connection.session.with_principal(principal)
            request = produce("orders", batch())
            if is_many:
                request.topic_data.append(produce("absent", batch()).topic_data[0])
            caller.send(PRODUCE, 9, request)
            await turns()
            partition.follow(partition.leader_epoch)
            codes.append(only(await caller.answer()).error_code)
            partition.lead(partition.leader_epoch)
            node.workers.release()
            await partition.sync_dirty()
        return codes

    assert node.talk(talk) == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT]


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_by_name(quick_node: Node, version: int) -> None:
    quick_node.make_topic("orders")

    async def talk(caller: Caller) -> Any:
        return only(await caller.ask(PRODUCE, version, produce("orders", batch())))

    answer = quick_node.talk(talk)
    assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, 0, -1)


def test_by_id(quick_node: Node) -> None:
    quick_node.make_topic("orders")
    topic_id = quick_node.broker.catalog.topic("orders").id
    request = produce("", batch())
    request.topic_data[0].topic_id = topic_id

    async def talk(caller: Caller) -> tuple[int, int]:
        known = only(await caller.ask(PRODUCE, 13, request)).error_code
        request.topic_data[0].topic_id = b"?" * 16
        return known, only(await caller.ask(PRODUCE, 13, request)).error_code

    assert quick_node.talk(talk) == (0, ErrorCode.UNKNOWN_TOPIC_ID)


def test_each_partition_has_its_own_outcome(quick_node: Node) -> None:
    quick_node.make_topic("orders", 2)
    request = produce("orders", batch())
    request.topic_data[0].partition_data += [
        messages.ProduceRequest.PartitionProduceData(index=index, records=memoryview(records))
        for index, records in ((7, bytes(batch())), (1, b""), (1, b"x" * 70), (1, bytes(batch())))
    ]

    async def talk(caller: Caller) -> Any:
        return (await caller.ask(PRODUCE, 9, request)).responses[0].partition_responses

    answers = quick_node.talk(talk)
    assert [answer.error_code for answer in answers] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
        0,
    ]
    assert [answer.base_offset for answer in answers] == [0, -1, -1, -1, 0]
    assert "no partition 7" in answers[1].error_message


def test_records_that_break_the_rules_are_named(quick_node: Node) -> None:
    quick_node.make_topic("keyed", cleanup_policy="compact")
    keyless = keyed_batch([(b"a", b""), (None, b""), (None, b"")])

    async def talk(caller: Caller) -> Any:
        return only(await caller.ask(PRODUCE, 9, produce("keyed", keyless)))

    answer = quick_node.talk(talk)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == [1, 2]


def test_acks_that_do_not_exist(quick_node: Node) -> None:
    quick_node.make_topic("orders")

    async def talk(caller: Caller) -> int:
        return int(only(await caller.ask(PRODUCE, 9, produce("orders", batch(), acks=2))).error_code)

    assert quick_node.talk(talk) == ErrorCode.INVALID_REQUIRED_ACKS
    assert quick_node.broker.partition("orders", 0).end_offset == 0


def test_acks_0_is_not_answered_and_an_error_ends_the_connection(node: Node) -> None:
    node.make_topic("orders")

    async def talk(caller: Caller) -> None:
        caller.send(PRODUCE, 9, produce("orders", batch(), acks=0), is_answered=False)
        await turns()
        assert caller.line.sent == b"" and not caller.is_closed
        assert node.broker.partition("orders", 0).end_offset == 1
        caller.send(PRODUCE, 9, produce("nowhere", batch(), acks=0), is_answered=False)
        assert caller.is_closed

    node.talk(talk)


def test_internal_topics_are_not_for_clients(quick_node: Node) -> None:
    quick_node.run(quick_node.broker.internal_topic("__state", 1, {}))

    async def talk(caller: Caller) -> int:
        return int(only(await caller.ask(PRODUCE, 9, produce("__state", batch()))).error_code)

    assert quick_node.talk(talk) == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("version", [8, 9])
def test_a_name_as_long_as_a_name_can_be_sent_is_refused_in_every_version(
    quick_node: Node, version: int
) -> None:
    async def talk(caller: Caller) -> Any:
        return only(await caller.ask(PRODUCE, version, produce("é" * 16_383, batch())))

    answer = quick_node.talk(talk)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(answer.error_message) < 1_100


def test_a_partition_that_goes_offline_tells_those_who_wait(node: Node) -> None:
    node.make_topic("orders")

    async def talk(caller: Caller) -> Any:
        node.workers.held = []
        caller.send(PRODUCE, 9, produce("orders", batch()))
        await turns()
        node.broker.partition("orders", 0).fail(DiskFailed("gone"))
        node.workers.release()
        return only(await caller.answer())

    answer = node.talk(talk)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


@pytest.mark.parametrize("acks", [1, -1])
def test_the_time_that_a_request_gives_ends_its_wait_and_not_the_record(node: Node, acks: int) -> None:
    node.make_topic("orders")

    async def talk(caller: Caller) -> Any:
        node.workers.held = []
        caller.send(PRODUCE, 9, produce("orders", batch(), acks=acks, timeout_ms=1))
        answer = only(await caller.answer())
        node.workers.release()
        await node.broker.partition("orders", 0).sync_dirty()
        return answer

    answer = node.talk(talk)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert "may still be" in answer.error_message
    assert node.broker.partition("orders", 0).high_watermark == 1


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_that_gives_no_time_waits_for_the_disk_all_the_same(node: Node, timeout_ms: int) -> None:
    node.make_topic("orders")

    async def talk(caller: Caller) -> Any:
        node.workers.held = []
        caller.send(PRODUCE, 9, produce("orders", batch(), timeout_ms=timeout_ms))
        await turns(50)
        assert caller.take() is None
        node.workers.release()
        return only(await caller.answer())

    assert node.talk(talk).error_code == 0


def test_only_the_partitions_that_are_late_time_out(node: Node) -> None:
    node.make_topic("slow")
    node.make_topic("quick", penstock_durability="os")
    request = produce("slow", batch(), timeout_ms=1)
    request.topic_data += produce("quick", batch()).topic_data

    async def talk(caller: Caller) -> Any:
        node.workers.held = []
        caller.send(PRODUCE, 9, request)
        answer = await caller.answer()
        node.workers.release()
        return answer

    answers = [one.partition_responses[0] for one in node.talk(talk).responses]
    assert [one.error_code for one in answers] == [ErrorCode.REQUEST_TIMED_OUT, 0]
    assert [one.base_offset for one in answers] == [-1, 0]


def test_acks_1_waits_for_the_flush_and_acks_all_for_the_watermark(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if other replicas were behind: nothing is committed by being flushed here."""
    monkeypatch.setattr(Replica, "advance_high_watermark", lambda self, offset: None)
    node.make_topic("orders")

    async def talk(caller: Caller) -> list[int]:
        asked = [produce("orders", batch(), acks=1), produce("orders", batch(), acks=-1, timeout_ms=1)]
        return [only(await caller.ask(PRODUCE, 9, one)).error_code for one in asked]

    assert node.talk(talk) == [0, ErrorCode.REQUEST_TIMED_OUT]


def test_a_client_that_leaves_while_it_waits_harms_nobody(node: Node) -> None:
    node.make_topic("orders")

    async def talk(caller: Caller) -> None:
        node.workers.held = []
        caller.send(PRODUCE, 9, produce("orders", batch()))
        await turns()
        await caller.hang_up()
        node.workers.release()
        await node.broker.partition("orders", 0).sync_dirty()
        assert node.broker.partition("orders", 0).high_watermark == 1

    node.talk(talk)


def packed(value: bytes, sequence: int = -1) -> bytearray:
    """A batch that is too large to be unfolded on the loop."""
    size = LOOP_DECOMPRESSED_BYTES_MAX + 1
    made = build_batch([NewRecord(None, value * (size // len(value)))] * 2, 1_000, ZSTD)
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence} if sequence >= 0 else {}
    return with_header(made, **producer)


def test_a_batch_that_is_opened_in_a_worker_is_not_overtaken(quick_node: Node) -> None:
    quick_node.make_topic("orders")

    async def talk(caller: Caller) -> list[Any]:
        quick_node.workers.held = []
        small = {"producer_id": 7, "producer_epoch": 0}
        caller.send(PRODUCE, 9, produce("orders", packed(b"a", sequence=0)))
        caller.send(PRODUCE, 9, produce("orders", batch(sequence=2, **small)))
        caller.send(PRODUCE, 9, produce("orders", packed(b"b", sequence=3)))
        caller.send(PRODUCE, 9, produce("orders", batch(sequence=5, **small)))
        for _ in range(2):
            await turns()
            assert caller.take() is None and len(quick_node.workers.held) == 1
            quick_node.workers.release()
            quick_node.workers.held = []
            answers.extend([only(await caller.answer()) for _ in range(2)])
        quick_node.workers.release()
        return answers

    answers: list[Any] = []
    answered = quick_node.talk(talk)
    assert [(one.error_code, one.base_offset) for one in answered] == [(0, 0), (0, 2), (0, 3), (0, 5)]


def test_many_partitions_of_which_some_are_opened_in_a_worker(quick_node: Node) -> None:
    quick_node.make_topic("orders", partitions=4)
    bad = with_header(packed(b"x"), attributes=GZIP)
    parts = [packed(b"a"), batch(), bad, bytearray(batch()[:-1])]
    request = messages.ProduceRequest
    data = [
        request.PartitionProduceData(index=index, records=memoryview(one)) for index, one in enumerate(parts)
    ]
    topic = request.TopicProduceData(name="orders", partition_data=data)
    asked = request(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[topic])

    async def talk(caller: Caller) -> Any:
        return await caller.ask(PRODUCE, 9, asked)

    answered = quick_node.talk(talk).responses[0].partition_responses
    assert [one.error_code for one in answered] == [0, 0, 87, 87]


def test_acks_0_and_a_batch_that_is_opened_in_a_worker(quick_node: Node) -> None:
    quick_node.make_topic("orders")

    async def talk(caller: Caller) -> Any:
        caller.send(PRODUCE, 9, produce("orders", packed(b"a"), acks=0), is_answered=False)
        return only(await caller.ask(PRODUCE, 9, produce("orders", batch())))

    assert quick_node.talk(talk).base_offset == 2


def _to_many(acks: int, codec: int = 0) -> Any:
    """The same batch so often that one turn of the loop is too short; a packed one makes a worker admit them all."""
    large = build_batch([NewRecord(None, bytes(2 * LOOP_DECOMPRESSED_BYTES_MAX))], 1_000, codec)
    rows = [batch()] * (3 * SLICE_UNITS) + [large] * (codec != 0)
    data = [messages.ProduceRequest.PartitionProduceData(index=0, records=memoryview(one)) for one in rows]
    topic = messages.ProduceRequest.TopicProduceData(name="orders", partition_data=data)
    return messages.ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1_000, topic_data=[topic])


@pytest.mark.parametrize("codec", [0, ZSTD], ids=["loop", "worker"])
@pytest.mark.parametrize("acks", [-1, 0])
def test_many_batches_are_appended_in_slices_and_not_overtaken(
    quick_node: Node, monkeypatch: pytest.MonkeyPatch, acks: int, codec: int
) -> None:
    node = quick_node
    node.make_topic("orders")
    busiest = Busiest(monkeypatch, Partition, "append_admitted")
    count = 3 * SLICE_UNITS + (codec != 0)

    async def talk(caller: Caller) -> list[int]:
        caller.send(PRODUCE, 9, _to_many(acks, codec), is_answered=acks != 0)
        caller.send(PRODUCE, 9, produce("orders", batch()))
        answers = [await caller.answer() for _ in range(2 if acks else 1)]
        return [row.base_offset for one in answers for row in one.responses[0].partition_responses]

    assert node.talk(talk) == (list(range(count + 1)) if acks else [count])
    assert SLICE_UNITS // 2 < busiest.most <= SLICE_UNITS
