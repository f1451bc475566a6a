"""What producers and tools are told about transactions, version by version, on a real broker in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.core import errors
from penstock.core.machines.transactions.transactions import Claim
from penstock.core.model import NewRecord
from penstock.core.records.batch import TRANSACTIONAL, decode_header, encode_header, stamp_checksum
from penstock.core.records.build import build_batch
from penstock.core.session import Session
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.transaction_admin import TransactionAdminHandlers
from penstock.doors.kafka.transactions import TransactionHandlers, produce_code_of, transaction_code_of
from penstock.wire.kafka import API, ApiKey, ErrorCode, messages

from .conftest import SETTINGS, Node

OLD_EPOCH, FENCED = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED


def versions(api_key: int) -> range:
    return range(API[api_key].version_min, API[api_key].version_max + 1)


def init(node: Node, version: int = 5, **fields: Any) -> Any:
    body = messages.InitProducerIdRequest(transactional_id=fields.pop("transactional_id", None), **fields)
    return node.ask(TransactionHandlers(node.waist).init_producer_id, ApiKey.INIT_PRODUCER_ID, version, body)


def begin(node: Node, name: str = "pay", **fields: Any) -> Claim:
    answer = init(node, transactional_id=name, transaction_timeout_ms=60_000, **fields)
    assert answer.error_code == 0
    return Claim(answer.producer_id, answer.producer_epoch)


def add(
    node: Node, by: Claim, *places: tuple[str, int], version: int = 3, name: str = "pay", verify: bool = False
) -> Any:
    request = messages.AddPartitionsToTxnRequest
    topics = [request.AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in places]
    if version < 4:
        body = request(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=by.producer_id,
            v3_and_below_producer_epoch=by.producer_epoch,
            v3_and_below_topics=topics,
        )
    else:
        one = request.AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=by.producer_id,
            producer_epoch=by.producer_epoch,
            verify_only=verify,
            topics=topics,
        )
        body = request(transactions=[one])
    answer = node.ask(
        TransactionHandlers(node.waist).add_partitions, ApiKey.ADD_PARTITIONS_TO_TXN, version, body
    )
    results = (
        answer.results_by_topic_v3_and_below
        if version < 4
        else answer.results_by_transaction[0].topic_results
    )
    return [one.partition_error_code for topic in results for one in topic.results_by_partition]


def end(node: Node, by: Claim, *, commit: bool = True, version: int = 3, name: str = "pay") -> Any:
    body = messages.EndTxnRequest(
        transactional_id=name, producer_id=by.producer_id, producer_epoch=by.producer_epoch, committed=commit
    )
    return node.ask(TransactionHandlers(node.waist).end_transaction, ApiKey.END_TXN, version, body)


def write(node: Node, by: Claim, sequence: int = 0, topic: str = "orders") -> None:
    """A batch of one record, vouched for already."""
    batch = build_batch([NewRecord(None, b"x")], 1)
    header = decode_header(batch)._replace(
        attributes=TRANSACTIONAL,
        producer_id=by.producer_id,
        producer_epoch=by.producer_epoch,
        base_sequence=sequence,
    )
    batch[:61] = encode_header(header)
    stamp_checksum(batch)

    async def append() -> None:
        partition = node.broker.partition(topic, 0)
        partition.append(memoryview(batch), in_transaction=True)
        await partition.sync_dirty()

    node.run(append())


@pytest.fixture
def orders(node: Node) -> Node:
    node.make_topic("orders", 2)
    return node


class TestProducerIds:
    def test_every_version_gets_an_id_that_nobody_had(self, node: Node) -> None:
        answers = [init(node, version) for version in versions(ApiKey.INIT_PRODUCER_ID)]
        node.restart(SETTINGS)
        answers.append(init(node))
        assert {(one.error_code, one.producer_epoch) for one in answers} == {(0, 0)}
        ids = [one.producer_id for one in answers]
        assert len(set(ids)) == len(ids) and min(ids) >= 0

    def test_a_reserved_id_is_handed_out_without_waiting_for_a_turn(self, node: Node) -> None:
        """Else each of many pipelined calls waits for what every other client brings in that turn."""
        init(node)  # reserves a block
        handlers = TransactionHandlers(node.waist)
        request = messages.InitProducerIdRequest(transactional_id=None)
        call: Any = Call(None, ApiKey.INIT_PRODUCER_ID, 4, 7, Session("kafka"))  # type: ignore[arg-type]
        answers = [handlers.init_producer_id(call, request) for _ in range(200)]
        made = [one for one in answers if isinstance(one, messages.InitProducerIdResponse)]
        assert len(made) == len({one.producer_id for one in made}) == 200

    def test_ids_handed_out_at_once_differ(self, node: Node) -> None:
        async def many() -> list[int]:
            return await asyncio.gather(*(node.broker.new_producer_id() for _ in range(50)))

        assert len(set(node.run(many()))) == 50

    def test_a_producer_that_had_an_id_gets_another(self, node: Node) -> None:
        first = init(node)
        second = init(node, producer_id=first.producer_id, producer_epoch=first.producer_epoch)
        assert second.error_code == 0 and second.producer_epoch == 0
        assert second.producer_id != first.producer_id

    @pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 0}])
    def test_half_an_identity_is_refused(self, node: Node, half: dict[str, int]) -> None:
        answer = init(node, **half)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


class TestTransactionalIds:
    @pytest.mark.parametrize("version", versions(ApiKey.INIT_PRODUCER_ID))
    def test_every_version_gets_the_next_epoch(self, node: Node, version: int) -> None:
        answers = [
            init(node, version, transactional_id="pay", transaction_timeout_ms=1_000) for _ in range(3)
        ]
        assert [one.error_code for one in answers] == [0, 0, 0]
        assert [one.producer_epoch for one in answers] == [0, 1, 2]
        assert len({one.producer_id for one in answers}) == 1

    def test_epochs_go_on_after_a_restart(self, node: Node) -> None:
        first = begin(node)
        node.restart(SETTINGS)
        assert begin(node) == (first.producer_id, 1)

    def test_a_new_id_takes_whatever_the_producer_says_it_was(self, node: Node) -> None:
        assert begin(node, producer_id=0, producer_epoch=0).producer_epoch == 0

    @pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
    def test_timeouts_have_bounds(self, node: Node, timeout_ms: int) -> None:
        answer = init(node, transactional_id="pay", transaction_timeout_ms=timeout_ms)
        assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT

    def test_an_empty_id_is_none(self, node: Node) -> None:
        assert (
            init(node, transactional_id="", transaction_timeout_ms=1).error_code == ErrorCode.INVALID_REQUEST
        )

    @pytest.mark.parametrize(("version", "code"), [(3, OLD_EPOCH), (4, FENCED), (5, FENCED)])
    def test_who_was_fenced_is_told_in_the_words_of_its_version(
        self, node: Node, version: int, code: int
    ) -> None:
        first = begin(node)
        begin(node)
        answer = init(node, version, transactional_id="pay", transaction_timeout_ms=1_000, **first._asdict())
        assert answer.error_code == code

    def test_an_open_transaction_is_aborted_before_the_next_producer_gets_its_epoch(
        self, orders: Node
    ) -> None:
        first = begin(orders)
        assert add(orders, first, ("orders", 0)) == [0]
        write(orders, first)
        partition = orders.broker.partition("orders", 0)
        assert (partition.last_stable_offset, partition.high_watermark) == (0, 1)
        second = begin(orders)
        assert second == (first.producer_id, 2)
        assert (partition.last_stable_offset, partition.high_watermark) == (2, 2)
        assert [one.first_offset for one in partition.aborted_between(0, 2)] == [0]


class TestAddPartitions:
    @pytest.mark.parametrize("version", versions(ApiKey.ADD_PARTITIONS_TO_TXN))
    def test_every_version_adds(self, orders: Node, version: int) -> None:
        by = begin(orders)
        assert add(orders, by, ("orders", 0), ("orders", 1), version=version) == [0, 0]
        one = orders.broker.transactions.get("pay")
        assert [at[:2] for at in one.partitions] == [("orders", 0), ("orders", 1)] and one.is_v2 == (
            version >= 5
        )

    def test_all_or_nothing(self, orders: Node) -> None:
        by = begin(orders)
        unknown, not_tried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
        assert add(orders, by, ("orders", 0), ("orders", 2), ("nowhere", 0)) == [not_tried, unknown, unknown]
        assert orders.broker.transactions.get("pay").partitions == ()

    @pytest.mark.parametrize(("version", "code"), [(0, OLD_EPOCH), (1, OLD_EPOCH), (2, FENCED), (5, FENCED)])
    def test_an_old_epoch(self, orders: Node, version: int, code: int) -> None:
        by = begin(orders)
        begin(orders)
        assert add(orders, by, ("orders", 0), version=version) == [code]

    def test_a_stranger(self, orders: Node) -> None:
        begin(orders)
        wrong = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert add(orders, Claim(77, 0), ("orders", 0)) == wrong
        assert add(orders, Claim(77, 0), ("orders", 0), name="other") == wrong

    def test_without_a_coordinator_every_id_is_a_stranger(self, orders: Node) -> None:
        assert add(orders, Claim(1, 0), ("orders", 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]

    @pytest.mark.parametrize(
        ("version", "code"), [(4, ErrorCode.INVALID_TXN_STATE), (5, ErrorCode.TRANSACTION_ABORTABLE)]
    )
    def test_only_asking_adds_nothing(self, orders: Node, version: int, code: int) -> None:
        by = begin(orders)
        add(orders, by, ("orders", 0), version=version)
        assert add(orders, by, ("orders", 0), version=version, verify=True) == [0]
        assert add(orders, by, ("orders", 1), version=version, verify=True) == [code]
        assert orders.broker.transactions.get("pay").partitions[0][:2] == ("orders", 0)


class TestEnd:
    @pytest.mark.parametrize("version", versions(ApiKey.END_TXN))
    def test_every_version_commits_what_can_be_read_at_once(self, orders: Node, version: int) -> None:
        by = begin(orders)
        add(orders, by, ("orders", 0), ("orders", 1))
        write(orders, by)
        answer = end(orders, by, version=version)
        assert answer.error_code == 0
        if version >= 5:
            assert (answer.producer_id, answer.producer_epoch) == (by.producer_id, 1)
        partition = orders.broker.partition("orders", 0)
        assert (partition.last_stable_offset, partition.end_offset) == (2, 2), "one record, one marker"
        assert partition.aborted_between(0, 9) == []

    def test_twice_and_the_other_way(self, orders: Node) -> None:
        by = begin(orders)
        add(orders, by, ("orders", 0))
        write(orders, by)
        assert end(orders, by).error_code == 0
        assert end(orders, by).error_code == 0
        assert end(orders, by, commit=False).error_code == ErrorCode.INVALID_TXN_STATE
        assert orders.broker.partition("orders", 0).end_offset == 2, "one marker"

    def test_late_in_the_newest_version(self, orders: Node) -> None:
        by = begin(orders)
        add(orders, by, ("orders", 0))
        again = end(orders, by, commit=False, version=5)
        after = Claim(again.producer_id, again.producer_epoch)
        assert end(orders, by, commit=False, version=5).producer_epoch == after.producer_epoch
        add(orders, after, ("orders", 0), version=5)
        write(orders, after)
        assert end(orders, by, commit=True, version=5).error_code == FENCED
        assert end(orders, by, commit=False, version=5).error_code == FENCED
        assert orders.broker.partition("orders", 0).last_stable_offset == 1

    def test_nothing_to_end(self, orders: Node) -> None:
        by = begin(orders)
        assert end(orders, by).error_code == ErrorCode.INVALID_TXN_STATE
        assert end(orders, by, name="").error_code == ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize(("version", "code"), [(1, OLD_EPOCH), (2, FENCED), (4, FENCED), (5, FENCED)])
    def test_an_old_epoch(self, orders: Node, version: int, code: int) -> None:
        by = begin(orders)
        begin(orders)
        assert end(orders, by, version=version).error_code == code

    def test_a_decision_that_was_cut_short_is_carried_out_after_the_restart(self, orders: Node) -> None:
        by = begin(orders)
        add(orders, by, ("orders", 0), ("orders", 1))
        write(orders, by)

        async def decide_only() -> None:
            shard = orders.broker.transactions.host.of("pay")
            events = shard.machine.decide_end("pay", by, commit=True, is_v2=False, new_id=-1, now_ms=5)
            await shard.persisted(shard.persist(events, "pay"))

        orders.run(decide_only())
        assert orders.broker.partition("orders", 0).last_stable_offset == 0
        orders.restart(SETTINGS)

        async def completed() -> None:
            partition = orders.broker.partition("orders", 0)
            stable = asyncio.Event()
            partition.add_listener(stable.set)
            while partition.last_stable_offset < 2:
                await stable.wait()
                stable.clear()
            while orders.broker.transactions.get("pay").state != "CompleteCommit":
                await asyncio.sleep(0)

        orders.run(completed())
        assert orders.broker.partition("orders", 0).end_offset == 2
        assert end(orders, by).error_code == 0, "the producer asks again and learns that it was done"


class TestTools:
    def describe(self, node: Node, *names: str) -> list[Any]:
        body = messages.DescribeTransactionsRequest(transactional_ids=list(names))
        handler = TransactionAdminHandlers(node.waist).describe_transactions
        return list(node.ask(handler, ApiKey.DESCRIBE_TRANSACTIONS, 0, body).transaction_states)

    def listed(self, node: Node, version: int = 2, **filters: Any) -> Any:
        fields: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], **filters}
        body = messages.ListTransactionsRequest(**fields)
        return node.ask(
            TransactionAdminHandlers(node.waist).list_transactions, ApiKey.LIST_TRANSACTIONS, version, body
        )

    def producers(self, node: Node, topic: str = "orders", index: int = 0) -> Any:
        request = messages.DescribeProducersRequest
        body = request(topics=[request.TopicRequest(name=topic, partition_indexes=[index])])
        answer = node.ask(
            TransactionAdminHandlers(node.waist).describe_producers, ApiKey.DESCRIBE_PRODUCERS, 0, body
        )
        return answer.topics[0].partitions[0]

    def mark(self, node: Node, by: Claim, *, version: int = 1, topic: str = "orders") -> int:
        request = messages.WriteTxnMarkersRequest
        marker = request.WritableTxnMarker(
            producer_id=by.producer_id,
            producer_epoch=by.producer_epoch,
            transaction_result=False,
            topics=[request.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            coordinator_epoch=0,
        )
        answer = node.ask(
            TransactionAdminHandlers(node.waist).write_markers,
            ApiKey.WRITE_TXN_MARKERS,
            version,
            request(markers=[marker]),
        )
        return int(answer.markers[0].topics[0].partitions[0].error_code)

    def test_describe(self, orders: Node) -> None:
        by = begin(orders)
        add(orders, by, ("orders", 0), ("orders", 1))
        found, unknown, empty = self.describe(orders, "pay", "nobody", "")
        assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 60_000)
        assert (found.producer_id, found.producer_epoch) == by and found.transaction_start_time_ms > 0
        assert [(one.topic, list(one.partitions)) for one in found.topics] == [("orders", [0, 1])]
        assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert empty.error_code == ErrorCode.INVALID_REQUEST

    def test_nothing_is_known_before_the_first(self, node: Node) -> None:
        assert self.describe(node, "pay")[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert self.listed(node).transaction_states == []

    def test_list_with_filters(self, orders: Node) -> None:
        pay = begin(orders)
        begin(orders, "ship")
        add(orders, pay, ("orders", 0))

        def names(version: int = 2, **filters: Any) -> list[str]:
            return [
                one.transactional_id for one in self.listed(orders, version, **filters).transaction_states
            ]

        assert names(0) == names(1) == names() == ["pay", "ship"]
        assert names(state_filters=["Ongoing"]) == ["pay"]
        assert names(state_filters=["Empty", "Ongoing"]) == ["pay", "ship"]
        assert names(producer_id_filters=[pay.producer_id]) == ["pay"]
        assert names(duration_filter=3_600_000, state_filters=["Ongoing"]) == []
        assert names(transactional_id_pattern="s.*p") == ["ship"]
        assert names(transactional_id_pattern="hi") == [], "the whole of the id has to match"
        answer = self.listed(orders, state_filters=["Ongoing", "Asleep"])
        assert list(answer.unknown_state_filters) == ["Asleep"]
        broken = self.listed(orders, transactional_id_pattern="(")
        assert broken.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    def test_producers(self, orders: Node) -> None:
        by = begin(orders)
        add(orders, by, ("orders", 0))
        write(orders, by)
        write(orders, by, 1)
        (one,) = self.producers(orders).active_producers
        assert Claim(one.producer_id, one.producer_epoch) == by
        assert (one.last_sequence, one.current_txn_start_offset, one.coordinator_epoch) == (1, 0, -1)
        end(orders, by)
        (one,) = self.producers(orders).active_producers
        assert (one.last_sequence, one.current_txn_start_offset, one.coordinator_epoch) == (1, -1, 0)
        assert self.producers(orders, index=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.parametrize("version", [1, 2])
    def test_a_hanging_transaction_is_ended_by_a_marker(self, orders: Node, version: int) -> None:
        by = Claim(4_000, 3)
        write(orders, by)
        assert orders.broker.partition("orders", 0).last_stable_offset == 0
        assert self.mark(orders, Claim(4_000, 2), version=version) == OLD_EPOCH
        assert self.mark(orders, by, version=version) == 0
        assert self.mark(orders, by, version=version) == 0, "written once"
        partition = orders.broker.partition("orders", 0)
        assert (partition.last_stable_offset, partition.end_offset) == (2, 2)
        assert self.mark(orders, by, topic="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("version", "error", "code"),
    [
        (10, errors.TransactionAbortable("x"), ErrorCode.INVALID_TXN_STATE),
        (11, errors.TransactionAbortable("x"), ErrorCode.TRANSACTION_ABORTABLE),
        (11, errors.TransactionBusy("x"), ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, errors.TransactionBusy("x"), ErrorCode.CONCURRENT_TRANSACTIONS),
        (12, errors.Loading("x"), ErrorCode.NOT_ENOUGH_REPLICAS),
        (13, errors.FencedProducer("x"), OLD_EPOCH),
        (13, errors.WrongProducer("x"), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_a_batch_that_nobody_vouches_for(version: int, error: errors.BrokerError, code: ErrorCode) -> None:
    assert produce_code_of(version, error) == code


def test_offsets_never_hear_of_fencing() -> None:
    for version in versions(ApiKey.TXN_OFFSET_COMMIT):
        assert transaction_code_of(ApiKey.TXN_OFFSET_COMMIT, version, errors.FencedProducer("x")) == OLD_EPOCH
