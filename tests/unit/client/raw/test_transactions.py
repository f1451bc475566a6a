"""Transactions call by call, against a real broker: one process writes, another one ends, and fencing holds."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from penstock.client.access import read_access
from penstock.client.errors import Aborted, Fenced, NotFound, OffsetOutOfRange, Refused
from penstock.client.raw.batches import produce, read_raw
from penstock.client.raw.cluster import Cluster, TopicPartition, codes_in
from penstock.client.raw.committed_offsets import CommittedOffset, committed
from penstock.client.raw.transactions import (
    ONGOING,
    TransactionHold,
    add_offsets,
    add_partitions,
    end,
    new_producer,
    open_ids,
    standing,
    take,
)
from penstock.core.model import NewRecord
from penstock.core.records.batch import decode_header
from penstock.core.records.batch_builder import ProducerIdentity, resealed
from penstock.core.records.build import build_batch, open_batch
from penstock.testing import running_broker
from penstock.wire.kafka import ApiKey, messages

TIMEOUT_MS = 60_000
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_broker(storage="memory") as broker:
        access = read_access({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": "5"})
        with Cluster(access) as connected:
            topic = messages.CreateTopicsRequest.CreatableTopic(
                name="orders", num_partitions=2, replication_factor=1, assignments=[], configs=[]
            )
            request = messages.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            assert set(codes_in(connected.ask(ApiKey.CREATE_TOPICS, request))) == {0}
            yield connected


@pytest.fixture
def name() -> str:
    return f"writer-{uuid.uuid4().hex}"


def batch(hold: TransactionHold, sequence: int = 0, *values: bytes) -> bytearray:
    plain = build_batch([NewRecord(None, value) for value in values or (b"v",)], 1_000)
    identity = ProducerIdentity(hold.producer_id, hold.producer_epoch, is_transactional=True)
    return resealed(plain, decode_header(plain), identity, sequence)


def opened(cluster: Cluster, name: str) -> TransactionHold:
    hold = take(cluster, name, TIMEOUT_MS)
    add_partitions(cluster, hold, [ORDERS])
    return hold


def test_who_knows_the_hold_may_end_what_another_wrote(cluster: Cluster, name: str) -> None:
    hold = opened(cluster, name)
    produce(cluster, {ORDERS: batch(hold)}, hold)
    found = standing(cluster, name)
    assert found is not None
    assert found.is_open_for(hold)
    assert open_ids(cluster, name) == [name]
    with Cluster(cluster.access) as another:
        end(another, hold, commit=True)
        end(another, hold, commit=True)
    found = standing(cluster, name)
    assert found is not None
    assert found.state != ONGOING
    assert open_ids(cluster, name) == []


def test_taking_a_name_fences_and_aborts(cluster: Cluster, name: str) -> None:
    first = opened(cluster, name)
    add_offsets(cluster, first, f"group-{name}", {ORDERS: CommittedOffset(7, "never")})
    second = take(cluster, name, TIMEOUT_MS)
    assert second.producer_epoch > first.producer_epoch
    for attempt in (
        lambda: end(cluster, first, commit=True),
        lambda: add_partitions(cluster, first, [ORDERS]),
        lambda: produce(cluster, {ORDERS: batch(first)}, first),
    ):
        with pytest.raises((Fenced, Aborted)):
            attempt()
    assert committed(cluster, f"group-{name}") == {}


def test_what_is_not_open_cannot_be_ended(cluster: Cluster, name: str) -> None:
    hold = take(cluster, name, TIMEOUT_MS)
    with pytest.raises(Aborted, match="no longer exists"):
        end(cluster, hold, commit=True)
    hold = opened(cluster, name)
    end(cluster, hold, commit=False)
    with pytest.raises(Aborted):
        end(cluster, hold, commit=True)


def test_offsets_count_with_the_commit(cluster: Cluster, name: str) -> None:
    hold = take(cluster, name, TIMEOUT_MS)
    wanted = {ORDERS: CommittedOffset(3, "three"), TopicPartition("orders", 1): CommittedOffset(4, "")}
    add_offsets(cluster, hold, name, wanted)
    end(cluster, hold, commit=True)
    assert committed(cluster, name) == wanted
    assert committed(cluster, "nobody") == {}


def test_refusals_say_what_is_wrong(cluster: Cluster, name: str) -> None:
    hold = take(cluster, name, TIMEOUT_MS)
    with pytest.raises(NotFound, match="partition 9 of orders"):
        add_partitions(cluster, hold, [ORDERS, TopicPartition("orders", 9)])
    with pytest.raises(Refused, match=r"transaction\.timeout\.ms"):
        take(cluster, name, 1 << 30)
    assert standing(cluster, "nobody") is None


def test_a_batch_sent_twice_is_there_once_and_read_back_as_it_is(cluster: Cluster) -> None:
    producer_id, epoch = new_producer(cluster)
    place = TopicPartition("orders", 1)
    plain = build_batch([NewRecord(b"k", b"a"), NewRecord(None, b"b")], 1_000, codec=4)
    identity = ProducerIdentity(producer_id, epoch, is_transactional=False)
    made = resealed(plain, decode_header(plain), identity, 0)
    first = produce(cluster, {place: made})[place]
    assert produce(cluster, {place: made})[place] == first
    found = [
        (header, open_batch(raw, header))
        for header, raw in read_raw(cluster, place, first, 1 << 60)
        if header.producer_id == producer_id
    ]
    ((header, records),) = found
    assert (header.base_offset, [one.value for one in records]) == (first, [b"a", b"b"])


def test_what_is_not_in_the_log_is_out_of_range(cluster: Cluster) -> None:
    with pytest.raises(OffsetOutOfRange):
        list(read_raw(cluster, ORDERS, 1 << 40, 1 << 41))


def test_a_batch_over_the_topics_limit_is_refused_with_advice(cluster: Cluster, name: str) -> None:
    hold = opened(cluster, name)
    with pytest.raises(Refused, match=r"kafka\.batch\.size"):
        produce(cluster, {ORDERS: batch(hold, 0, bytes(3 << 20))}, hold)
