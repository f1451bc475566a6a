"""Calls of transactions against a broker process, version by version: what the clients of the suite do not send."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.access import Access
from penstock.client.raw.connection import BrokerConnection
from penstock.core.machines.transactions.transactions import Claim
from penstock.core.model import Address
from penstock.core.records.build import open_batches
from penstock.testing import Broker, running_broker
from penstock.wire.kafka import API, ApiKey, ErrorCode, decode_response, encode_request, messages
from transaction_node import transactional_batch

TOPIC = "orders"
READ_COMMITTED = 1
OLD_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(transaction_check_ms=50) as running:
        yield running


class Desk:
    """One connection, one topic and one transactional id, all new."""

    def __init__(self, broker: Broker, number: int) -> None:
        self.broker = broker
        address = Address(broker.host, broker.port)
        self.client = BrokerConnection(address, Access((address,)))
        self.topic, self.name, self.group = f"orders-{number}", f"pay-{number}", f"readers-{number}"
        self.by = Claim(-1, -1)
        request = messages.CreateTopicsRequest
        wanted = request.CreatableTopic(
            name=self.topic, num_partitions=2, replication_factor=1, assignments=[], configs=[]
        )
        (made,) = self.call(ApiKey.CREATE_TOPICS, 7, request(topics=[wanted], timeout_ms=10_000)).topics
        assert made.error_code == 0
        self.topic_id = made.topic_id

    def call(self, api_key: int, version: int, body: Any) -> Any:
        return self.client.call(api_key, body, version=version)

    def call_all(self, api_key: int, version: int, bodies: list[Any]) -> list[Any]:
        """Send everything ahead, then read the answers, which come in that order."""
        frames = [encode_request(api_key, version, at, "test", body) for at, body in enumerate(bodies)]
        with socket.create_connection((self.broker.host, self.broker.port)) as opened:
            opened.sendall(b"".join(frames))
            with opened.makefile("rb") as answers:
                found = []
                for at in range(len(bodies)):
                    (size,) = struct.unpack(">i", answers.read(4))
                    correlation_id, answer = decode_response(api_key, version, answers.read(size))
                    assert correlation_id == at
                    found.append(answer)
                return found

    def init(self, timeout_ms: int = 60_000) -> Claim:
        request = messages.InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=timeout_ms
        )
        answer = self.call(ApiKey.INIT_PRODUCER_ID, 4, request)
        assert answer.error_code == 0
        self.by = Claim(answer.producer_id, answer.producer_epoch)
        return self.by

    def add(self, partition: int = 0) -> int:
        request = messages.AddPartitionsToTxnRequest
        body = request(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.by.producer_id,
            v3_and_below_producer_epoch=self.by.producer_epoch,
            v3_and_below_topics=[request.AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])],
        )
        (topic,) = self.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, body).results_by_topic_v3_and_below
        return int(topic.results_by_partition[0].partition_error_code)

    def produce_body(self, *batches: tuple[int, bytes | bytearray], named: bool = True) -> Any:
        request = messages.ProduceRequest
        data = [
            request.PartitionProduceData(index=index, records=memoryview(batch)) for index, batch in batches
        ]
        topic = request.TopicProduceData(name=self.topic, topic_id=self.topic_id, partition_data=data)
        return request(
            transactional_id=self.name if named else None, acks=-1, timeout_ms=5_000, topic_data=[topic]
        )

    def produce(
        self, version: int, value: bytes, sequence: int = 0, *, partition: int = 0, named: bool = True
    ) -> Any:
        batch = transactional_batch(self.by, sequence, [value])
        answer = self.call(ApiKey.PRODUCE, version, self.produce_body((partition, batch), named=named))
        return answer.responses[0].partition_responses[0]

    def end(self, version: int, *, commit: bool = True) -> Any:
        request = messages.EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.by.producer_id,
            producer_epoch=self.by.producer_epoch,
            committed=commit,
        )
        answer = self.call(ApiKey.END_TXN, version, request)
        if version >= 5 and not answer.error_code:
            self.by = Claim(answer.producer_id, answer.producer_epoch)
        return answer.error_code

    def read(self, version: int = 11, offset: int = 0) -> tuple[list[bytes | None], Any]:
        """All values from an offset on, aborted ones included, and the answer with its list of what was aborted."""
        request = messages.FetchRequest
        one = request.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = request.FetchTopic(topic=self.topic, topic_id=self.topic_id, partitions=[one])
        body = request(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=READ_COMMITTED, topics=[topic]
        )
        answer = self.call(ApiKey.FETCH, version, body).responses[0].partitions[0]
        assert answer.error_code == 0
        return [record.value for record in open_batches(bytes(answer.records or b""))], answer

    def pend(self, version: int, offset: int, *, generation: int = -1, member_id: str = "") -> int:
        request = messages.TxnOffsetCommitRequest
        one = request.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=None
        )
        body = request(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=self.by.producer_id,
            producer_epoch=self.by.producer_epoch,
            generation_id=generation,
            member_id=member_id,
            topics=[request.TxnOffsetCommitRequestTopic(name=self.topic, partitions=[one])],
        )
        return int(self.call(ApiKey.TXN_OFFSET_COMMIT, version, body).topics[0].partitions[0].error_code)

    def add_offsets(self, version: int) -> int:
        body = messages.AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.by.producer_id,
            producer_epoch=self.by.producer_epoch,
            group_id=self.group,
        )
        return int(self.call(ApiKey.ADD_OFFSETS_TO_TXN, version, body).error_code)

    def committed(self, *, stable: bool = False) -> tuple[int, int]:
        request = messages.OffsetFetchRequest
        topic = request.OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0])
        body = request(group_id=self.group, topics=[topic], require_stable=stable)
        one = self.call(ApiKey.OFFSET_FETCH, 7, body).topics[0].partitions[0]
        return one.committed_offset, one.error_code


@pytest.fixture
def desk(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Desk]:
    made = Desk(broker, abs(hash(request.node.nodeid)) % 10**9)
    yield made
    made.client.close()


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce(desk: Desk, version: int) -> None:
    desk.init()
    if version < 12:
        assert desk.add() == 0
    assert desk.produce(version, b"a").error_code == 0
    assert desk.produce(version, b"b", 1).base_offset == 1
    assert desk.read()[0] == []
    assert desk.end(5 if version >= 12 else 4) == 0
    assert desk.read()[0] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_a_partition_that_was_not_added(desk: Desk, version: int, code: int) -> None:
    desk.init()
    desk.add(0)
    assert desk.produce(version, b"a", partition=1).error_code == code
    assert desk.produce(version, b"a", partition=0).error_code == 0


def test_a_late_batch_does_not_open_a_transaction_again(desk: Desk) -> None:
    desk.init()
    desk.add()
    desk.produce(9, b"a")
    assert desk.end(4) == 0
    assert desk.produce(9, b"late", 1).error_code == ErrorCode.INVALID_TXN_STATE
    desk.init()
    desk.by = desk.by._replace(producer_epoch=0)
    assert desk.produce(9, b"later", 1).error_code == OLD_EPOCH
    assert desk.read()[0] == [b"a"]


def test_a_transaction_without_its_name(desk: Desk) -> None:
    desk.init()
    desk.add()
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert desk.produce(9, b"a", named=False).error_code == code
    assert desk.produce(9, b"a").error_code == 0
    assert desk.produce(9, b"b", 1, named=False).error_code == code


def test_records_of_two_producers_in_one_request(desk: Desk) -> None:
    desk.init()
    desk.add(0)
    other = transactional_batch(Claim(desk.by.producer_id, 9), 0, [b"x"])
    mine = transactional_batch(desk.by, 0, [b"x"])
    answer = desk.call(ApiKey.PRODUCE, 9, desk.produce_body((0, mine), (1, other)))
    codes = [one.error_code for one in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_batches_sent_ahead_keep_their_order_while_the_first_is_vouched_for(desk: Desk) -> None:
    """In V2 the first batch waits until its partition is in the transaction; those behind it must not overtake it."""
    desk.init()
    for round_number in range(5):
        bodies = [
            desk.produce_body((0, transactional_batch(desk.by, at, [b"%d.%d" % (round_number, at)])))
            for at in range(5)
        ]
        answers = desk.call_all(ApiKey.PRODUCE, 12, bodies)
        assert [one.responses[0].partition_responses[0].error_code for one in answers] == [0] * 5
        assert desk.end(5) == 0
    assert desk.read()[0] == [b"%d.%d" % (number, at) for number in range(5) for at in range(5)]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_lists_what_was_aborted(desk: Desk, version: int) -> None:
    desk.init()
    for commit in (True, False, True):
        desk.add()
        desk.produce(9, b"%d" % commit, sequence=0)
        assert desk.end(4, commit=commit) == 0
        desk.init()
    values, answer = desk.read(version)
    assert values == [b"1", b"0", b"1"] and answer.last_stable_offset == answer.high_watermark == 6
    assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions] == [
        (desk.by.producer_id, 2)
    ]
    assert desk.read(version, offset=4)[1].aborted_transactions == []


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_offsets_in_a_transaction(desk: Desk, version: int) -> None:
    desk.init()
    if version < 5:
        assert desk.add_offsets(min(version, 4)) == 0
    assert desk.pend(version, 7) == 0
    assert desk.committed() == (-1, 0)
    assert desk.committed(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert desk.end(5 if version == 5 else 4) == 0
    assert desk.committed(stable=True) == (7, 0)


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_offsets_of_a_group_that_was_not_added(desk: Desk, version: int, code: int) -> None:
    desk.init()
    assert desk.pend(version, 7) == code
    assert desk.committed() == (-1, 0)


def test_offsets_of_who_may_not_commit(desk: Desk) -> None:
    desk.init()
    assert desk.add_offsets(3) == 0
    assert desk.pend(3, 7, generation=4) == ErrorCode.ILLEGAL_GENERATION
    desk.by = desk.by._replace(producer_epoch=9)
    assert desk.pend(3, 7) == OLD_EPOCH


@pytest.mark.parametrize("version", [3, 4, 5])
def test_offsets_of_a_consumer_group_in_an_epoch_that_is_over(desk: Desk, version: int) -> None:
    """The call knows no stale member epoch: clients would take it for fatal, instead of aborting and going on."""
    beat = messages.ConsumerGroupHeartbeatRequest(
        group_id=desk.group,
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=[desk.topic],
        topic_partitions=[],
    )
    epoch = desk.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beat).member_epoch
    desk.init()
    if version < 5:
        assert desk.add_offsets(min(version, 4)) == 0
    stale = desk.pend(version, 7, generation=epoch - 1, member_id="member")
    assert stale == ErrorCode.ILLEGAL_GENERATION
    assert desk.pend(version, 7, generation=epoch, member_id="member") == 0


def test_the_coordinator_aborts_what_takes_too_long_and_fences_its_producer(desk: Desk) -> None:
    while True:  # the coordinator may find it too slow before the batch arrives
        desk.init(timeout_ms=100)
        if desk.add() == 0 and (slow := desk.produce(9, b"slow")).error_code == 0:
            break
    while desk.read()[1].last_stable_offset < slow.base_offset + 2:
        continue
    assert desk.end(4) == ErrorCode.PRODUCER_FENCED
    assert desk.add() == ErrorCode.PRODUCER_FENCED
    assert desk.produce(9, b"slow", 1).error_code == OLD_EPOCH
    assert [one.first_offset for one in desk.read()[1].aborted_transactions] == [slow.base_offset]


class TestFeatures:
    def versions(self, desk: Desk, version: int) -> Any:
        request = messages.ApiVersionsRequest(client_software_name="test", client_software_version="1")
        return desk.call(ApiKey.API_VERSIONS, version, request)

    def test_the_protocol_in_force_is_told(self, desk: Desk) -> None:
        for version in (3, 4):
            answer = self.versions(desk, version)
            (one,) = [one for one in answer.finalized_features if one.name == "transaction.version"]
            assert (one.min_version_level, one.max_version_level) == (2, 2)
            assert answer.finalized_features_epoch >= 0

    def test_only_the_newest_version_names_features_that_start_at_zero(self, desk: Desk) -> None:
        assert "transaction.version" not in [one.name for one in self.versions(desk, 3).supported_features]
        (one,) = [
            one for one in self.versions(desk, 4).supported_features if one.name == "transaction.version"
        ]
        assert (one.min_version, one.max_version) == (0, 2)

    def test_markers_are_not_for_clients(self, desk: Desk) -> None:
        keys = {one.api_key for one in self.versions(desk, 4).api_keys}
        assert ApiKey.WRITE_TXN_MARKERS not in keys
        assert keys >= {key for key in API if 24 <= key <= 28 and key != ApiKey.WRITE_TXN_MARKERS}
