"""ListOffsets and OffsetForLeaderEpoch through the whole door."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from in_process_client import Caller
from log_samples import keyed_batch
from penstock.core.codecs import ZSTD
from penstock.core.errors import DiskFailed
from penstock.core.limits import LOOKUP_DECOMPRESSED_BYTES_MAX
from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch
from penstock.node.replicas.partition import Partition
from penstock.wire.kafka import ApiKey, ErrorCode, messages
from request_builders import epoch_end, list_offsets

from .conftest import Busiest, Node

EARLIEST, LATEST, NEWEST, EARLIEST_LOCAL, TIERED = -2, -1, -3, -4, -5


def only(answer: Any) -> Any:
    return answer.topics[0].partitions[0]


@pytest.fixture
def orders(node: Node) -> Node:
    """Four records at 100, 300, 200 and 400 ms."""
    node.make_topic("orders", penstock_durability="os")

    async def write() -> None:
        for time_ms in (100, 300, 200, 400):
            node.broker.partition("orders", 0).append(
                memoryview(keyed_batch([(b"k", b"v")], time_ms=time_ms))
            )

    node.run(write())
    return node


def ask(node: Node, time_ms: int, version: int = 7, **more: Any) -> Any:
    async def talk(caller: Caller) -> Any:
        return only(await caller.ask(ApiKey.LIST_OFFSETS, version, list_offsets("orders", time_ms, **more)))

    return node.talk(talk)


@pytest.mark.parametrize(
    ("time_ms", "offset", "timestamp_ms"),
    [
        (EARLIEST, 0, -1),
        (EARLIEST_LOCAL, 0, -1),
        (LATEST, 4, -1),
        (NEWEST, 3, 400),
        (TIERED, -1, -1),
        (-99, -1, -1),
        (0, 0, 100),
        (101, 1, 300),
        (350, 3, 400),
        (401, -1, -1),
    ],
)
def test_an_offset_for_each_time(orders: Node, time_ms: int, offset: int, timestamp_ms: int) -> None:
    answer = ask(orders, time_ms)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, timestamp_ms)
    assert answer.leader_epoch == (0 if offset >= 0 else -1)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version(orders: Node, version: int) -> None:
    assert ask(orders, LATEST, version).offset == 4


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_a_new_leader_that_does_not_know_what_is_committed(
    orders: Node, version: int, code: ErrorCode
) -> None:
    orders.broker.partition("orders", 0).log.epochs.observe(
        7, 5
    )  # as if one more record were before its epoch
    for when in (LATEST, NEWEST, 401):
        assert ask(orders, when, 7).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(orders, LATEST, version).error_code == code
    for when, offset in ((EARLIEST, 0), (101, 1)):
        assert (ask(orders, when, version).error_code, ask(orders, when, version).offset) == (0, offset)


def test_what_cannot_be_told(orders: Node) -> None:
    assert ask(orders, LATEST, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(orders, LATEST, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    orders.broker.partition("orders", 0).fail(DiskFailed("gone"))
    assert ask(orders, LATEST).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_where_epochs_end(orders: Node) -> None:
    async def talk(caller: Caller) -> list[tuple[int, int, int]]:
        answers = []
        for version in (2, 3, 4):
            for epoch in (0, 1):
                one = only(
                    await caller.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, epoch_end("orders", epoch))
                )
                answers.append((one.error_code, one.leader_epoch, one.end_offset))
        one = only(await caller.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, epoch_end("orders", 0, current=3)))
        return [*answers, (one.error_code, one.leader_epoch, one.end_offset)]

    known, unknown = (0, 0, 4), (0, -1, -1)
    assert orders.talk(talk) == [known, unknown] * 3 + [(ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)]


@pytest.mark.parametrize("time_ms", [0, 1_002, NEWEST])
def test_a_record_in_a_batch_that_unfolds_to_much_is_found_exactly(node: Node, time_ms: int) -> None:
    """A worker looks for it; what the client sends next is answered behind it."""
    node.make_topic("orders", penstock_durability="os")
    records = [
        NewRecord(None, bytes(LOOKUP_DECOMPRESSED_BYTES_MAX), (), 1_000 + number) for number in range(5)
    ]

    async def talk(caller: Caller) -> list[Any]:
        batch = build_batch(records, 1_000, ZSTD)
        node.broker.partition("orders", 0).append(memoryview(batch))
        asked = list_offsets("orders", time_ms)
        for request in (asked, list_offsets("orders", LATEST)):
            caller.send(ApiKey.LIST_OFFSETS, 7, request)
        return [only(await caller.answer()) for _ in range(2)]

    found, latest = node.talk(talk)
    offset = {0: 0, 1_002: 2, NEWEST: 4}[time_ms]
    assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.NONE, offset, 1_000 + offset)
    assert latest.offset == 5


@pytest.mark.parametrize("time_ms", [101, NEWEST])
def test_few_batches_are_searched_in_one_turn(
    orders: Node, monkeypatch: pytest.MonkeyPatch, time_ms: int
) -> None:
    """Each of them may have to be unfolded and walked to its end."""
    busiest = Busiest(monkeypatch, Partition, "find_time")
    kind = messages.ListOffsetsRequest
    row = kind.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=time_ms)
    request = kind(replica_id=-1, topics=[kind.ListOffsetsTopic(name="orders", partitions=[row] * 40)])

    async def talk(caller: Caller) -> Any:
        return await caller.ask(ApiKey.LIST_OFFSETS, 7, request)

    assert len(node_answers := orders.talk(talk).topics[0].partitions) == 40
    assert {one.offset for one in node_answers} == {1 if time_ms == 101 else 3}
    assert busiest.most <= 3


def test_a_batch_that_was_searched_is_freed_at_once(orders: Node) -> None:
    """Held in a cycle, thousands of large ones would wait for the garbage collector."""
    partition = orders.broker.partition("orders", 0)
    gc.collect()
    gc.disable()
    try:
        found = partition.find_time(101)
        assert found is not None and found.search is None
        del found
        assert gc.collect() == 0
    finally:
        gc.enable()
