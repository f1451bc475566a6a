"""Fetch through the whole door: limits, waiting, and everything that ends a wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from in_process_client import Caller, Closed
from log_samples import filled_batch
from manual_ports import turns
from penstock.core.errors import DiskFailed
from penstock.core.records.batch import decode_header, size_at
from penstock.node.connections.connection import Connection
from penstock.node.replicas.partition import Partition
from penstock.wire.kafka import ApiKey, ErrorCode
from request_builders import fetch

from .conftest import Node

FETCH = ApiKey.FETCH


def only(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


def offsets(records: bytes) -> list[int]:
    """The base offsets of the whole batches in an answer."""
    found, position = [], 0
    while position < len(records):
        found.append(decode_header(records, position).base_offset)
        position += size_at(records, position)
    assert position == len(records), "only whole batches are served"
    return found


def write(partition: Partition, size: int = 100, count: int = 1) -> None:
    for _ in range(count):
        partition.append(memoryview(filled_batch(payload=b"x" * size)))


def owner(node: Node, name: str = "orders") -> Partition:
    return node.broker.partition(name, 0)


@pytest.fixture
def orders(node: Node) -> Node:
    node.make_topic("orders", penstock_durability="os")
    return node


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_by_name(orders: Node, version: int) -> None:
    write(owner(orders), count=3)

    async def talk(caller: Caller) -> Any:
        return await caller.ask(FETCH, version, fetch(("orders", 0, 1)))

    answer = orders.talk(talk)
    assert offsets(bytes(only(answer).records)) == [1, 2]
    assert only(answer).high_watermark == 3


@pytest.mark.parametrize("version", [13, 16, 17])
def test_by_id(orders: Node, version: int) -> None:
    write(owner(orders))
    known, unknown = fetch(("", 0, 0)), fetch(("", 0, 0))
    known.topics[0].topic_id = orders.broker.catalog.topic("orders").id
    unknown.topics[0].topic_id = b"?" * 16

    async def talk(caller: Caller) -> tuple[Any, Any]:
        return await caller.ask(FETCH, version, known), await caller.ask(FETCH, version, unknown)

    answer, refusal = orders.talk(talk)
    assert offsets(bytes(only(answer).records)) == [0]
    assert only(refusal).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_first_batch_comes_whole_however_small_the_limit(orders: Node) -> None:
    write(owner(orders), size=5_000, count=3)

    async def talk(caller: Caller) -> list[list[int]]:
        limits = ({"max_bytes": 1}, {"partition_bytes": 1}, {"partition_bytes": 11_000}, {"max_bytes": -5})
        return [
            offsets(bytes(only(await caller.ask(FETCH, 12, fetch(("orders", 0, 0), **one))).records))  # type: ignore[arg-type]
            for one in limits
        ]

    assert orders.talk(talk) == [[0], [0], [0, 1], [0]]


def test_one_answer_shares_its_bytes_between_partitions(orders: Node) -> None:
    orders.make_topic("bills", penstock_durability="os")
    write(owner(orders), size=5_000)
    write(owner(orders, "bills"), size=5_000)

    async def talk(caller: Caller) -> list[int]:
        request = fetch(("orders", 0, 0), ("bills", 0, 0), max_bytes=6_000)
        answer = await caller.ask(FETCH, 12, request)
        return [len(topic.partitions[0].records) for topic in answer.responses]

    sizes = orders.talk(talk)
    assert sizes[0] > 5_000 and sizes[1] == 0


def test_it_waits_for_data(orders: Node) -> None:
    async def talk(caller: Caller) -> Any:
        caller.send(FETCH, 12, fetch(("orders", 0, 0), wait_ms=60_000))
        await turns()
        assert caller.take() is None
        write(owner(orders))
        return only(await caller.answer())

    assert offsets(bytes(orders.talk(talk).records)) == [0]
    assert not owner(orders)._watermark_listeners.listening


def test_it_waits_for_enough_data(orders: Node) -> None:
    async def talk(caller: Caller) -> Any:
        caller.send(FETCH, 12, fetch(("orders", 0, 0), wait_ms=60_000, min_bytes=400))
        for _ in range(2):
            write(owner(orders))
            await turns()
            assert caller.take() is None
        write(owner(orders))
        return only(await caller.answer())

    assert offsets(bytes(orders.talk(talk).records)) == [0, 1, 2]


def test_after_its_time_it_answers_with_what_there_is(orders: Node) -> None:
    async def talk(caller: Caller) -> Any:
        write(owner(orders))
        return only(await caller.ask(FETCH, 12, fetch(("orders", 0, 0), wait_ms=5, min_bytes=10_000)))

    assert offsets(bytes(orders.talk(talk).records)) == [0]


def test_a_record_that_is_not_durable_yet_ends_no_wait(node: Node) -> None:
    node.make_topic("orders")

    async def talk(caller: Caller) -> Any:
        node.workers.held = []
        caller.send(FETCH, 12, fetch(("orders", 0, 0), wait_ms=60_000))
        write(owner(node))
        await turns()
        assert caller.take() is None
        node.workers.release()
        return only(await caller.answer())

    answer = node.talk(talk)
    assert (offsets(bytes(answer.records)), answer.high_watermark) == ([0], 1)


def test_a_wait_ends_when_the_topic_is_deleted(orders: Node) -> None:
    async def talk(caller: Caller) -> Any:
        caller.send(FETCH, 12, fetch(("orders", 0, 0), wait_ms=60_000))
        await orders.broker.change(lambda catalog: catalog.decide_delete_topic("orders"))
        return only(await caller.answer())

    assert orders.talk(talk).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_wait_ends_when_the_disk_fails(orders: Node) -> None:
    async def talk(caller: Caller) -> Any:
        caller.send(FETCH, 12, fetch(("orders", 0, 0), wait_ms=60_000))
        owner(orders).fail(DiskFailed("gone"))
        return only(await caller.answer())

    assert orders.talk(talk).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_client_that_leaves_takes_its_wait_along(orders: Node) -> None:
    async def talk(caller: Caller) -> None:
        caller.send(FETCH, 12, fetch(("orders", 0, 0), wait_ms=60_000))
        assert owner(orders)._watermark_listeners.listening
        await caller.hang_up()
        assert not owner(orders)._watermark_listeners.listening
        timers = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        assert not any("WaitingFetch" in repr(timer) for timer in timers)

    orders.talk(talk)


def test_a_door_that_closes_lets_waits_go(orders: Node) -> None:
    async def talk(caller: Caller) -> Any:
        caller.send(FETCH, 12, fetch(("orders", 0, 0), wait_ms=60_000))
        caller.doors.kafka._dispatch.release_waiting()
        return only(await caller.answer())

    assert orders.talk(talk).error_code == 0


@pytest.mark.parametrize(
    ("epoch", "offset", "code"),
    [
        (-1, 4, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-1, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (5, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (0, 0, ErrorCode.NONE),
    ],
)
def test_errors_are_answered_at_once(orders: Node, epoch: int, offset: int, code: ErrorCode) -> None:
    write(owner(orders), count=3)

    async def talk(caller: Caller) -> Any:
        return only(await caller.ask(FETCH, 12, fetch(("orders", 0, offset), wait_ms=60_000, epoch=epoch)))

    assert orders.talk(talk).error_code == code


def test_what_only_replicas_or_sessions_may_ask(orders: Node) -> None:
    async def talk(caller: Caller) -> list[int]:
        replica = await caller.ask(FETCH, 12, fetch(("orders", 0, 0), replica_id=3))
        session = await caller.ask(FETCH, 12, fetch(("orders", 0, 0), session_id=9, session_epoch=4))
        final = await caller.ask(FETCH, 12, fetch(("orders", 0, 0), session_id=9, session_epoch=-1))
        return [replica.error_code, session.error_code, final.error_code]

    assert orders.talk(talk) == [
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        0,
    ]


def test_an_isolation_that_does_not_exist_ends_the_connection(orders: Node) -> None:
    async def talk(caller: Caller) -> None:
        with pytest.raises(Closed):
            await caller.ask(FETCH, 12, fetch(("orders", 0, 0), isolation_level=2))

    orders.talk(talk)


def test_waits_of_one_connection_are_answered_in_their_order(orders: Node) -> None:
    orders.make_topic("bills", penstock_durability="os")

    async def talk(caller: Caller) -> list[str]:
        caller.send(FETCH, 12, fetch(("orders", 0, 0), wait_ms=60_000))
        caller.send(FETCH, 12, fetch(("bills", 0, 0), wait_ms=60_000))
        write(owner(orders, "bills"))
        await turns()
        assert caller.take() is None, "the first is still waiting"
        write(owner(orders))
        return [(await caller.answer()).responses[0].topic for _ in range(2)]

    assert orders.talk(talk) == ["orders", "bills"]


@pytest.mark.parametrize(("size", "pieces_max"), [(100, 1), (5_000, 401)], ids=["short", "long"])
def test_short_runs_of_many_partitions_are_one_piece(
    orders: Node, monkeypatch: pytest.MonkeyPatch, size: int, pieces_max: int
) -> None:
    """Each would be pinned, read and sent by itself, all in one turn of the loop."""
    write(owner(orders), size=size)
    retained: list[int] = []
    retain = Connection.retain

    def counted(connection: Connection, pieces: Any) -> bool:
        retained.append(len(pieces))
        return retain(connection, pieces)

    monkeypatch.setattr(Connection, "retain", counted)

    async def talk(caller: Caller) -> Any:
        return await caller.ask(FETCH, 12, fetch(*[("orders", 0, 0)] * 200))

    answer = orders.talk(talk)
    found = [one for topic in answer.responses for one in topic.partitions]
    assert [offsets(bytes(one.records)) for one in found] == [[0]] * 200
    assert max(retained) == pieces_max
