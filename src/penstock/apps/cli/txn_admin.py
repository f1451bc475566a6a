"""Requests behind `penstock txn`: list, describe, find hanging transactions, abort. Never prints."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.apps.cli.client import check_code, connect_cluster, translated
from penstock.apps.cli.failures import ObjectNotFound, RefusedByBroker
from penstock.client.raw.cluster import RETRIABLE, Coordinator, Leader, Node, Target
from penstock.wire.kafka import ApiKey, ErrorCode, KafkaRequest, ResponseT, messages

_INIT_VERSION_MAX = 4
_MARKERS_VERSION = 1
_OPEN = "Ongoing"


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """One line of a list."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    """The coordinator's state of one transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in one partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int


class TransactionAdmin:
    """Sends each request to the responsible broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._cluster = connect_cluster(bootstrap)

    def find(
        self,
        states: tuple[str, ...],
        producer_ids: tuple[int, ...],
        longer_than_ms: int | None,
        pattern: str | None,
    ) -> list[ListedTransaction]:
        """Matching transactions of all coordinators, sorted by id."""
        request = messages.ListTransactionsRequest(
            state_filters=list(states), producer_id_filters=list(producer_ids)
        )
        if longer_than_ms is not None:
            request.duration_filter = longer_than_ms
        if pattern is not None:
            request.transactional_id_pattern = pattern
        found: list[ListedTransaction] = []
        with translated(self._bootstrap):
            brokers = sorted(self._cluster.brokers())
        for node_id in brokers:
            answer = self._ask(ApiKey.LIST_TRANSACTIONS, request, Node(node_id))
            check_code(answer.error_code, "list")
            if answer.unknown_state_filters:
                raise RefusedByBroker(f"There is no state {answer.unknown_state_filters[0]!r}.")
            found += [
                ListedTransaction(one.transactional_id, one.producer_id, one.transaction_state)
                for one in answer.transaction_states
            ]
        return sorted(found, key=lambda one: one.transactional_id)

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Raises ObjectNotFound."""
        request = messages.DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = self._ask(
            ApiKey.DESCRIBE_TRANSACTIONS, request, Coordinator.of_transaction(transactional_id)
        )
        (one,) = answer.transaction_states
        if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise ObjectNotFound(f"There is no transactional id {transactional_id}. See `penstock txn list`.")
        check_code(one.error_code, transactional_id)
        return DescribedTransaction(
            one.transactional_id,
            one.producer_id,
            one.producer_epoch,
            one.transaction_state,
            one.transaction_timeout_ms,
            one.transaction_start_time_ms,
            {topic.topic: list(topic.partitions) for topic in one.topics},
        )

    def abort(self, transactional_id: str) -> DescribedTransaction:
        """Take over the id, which fences its producer and aborts its transaction; returns the state before."""
        described = self.describe(transactional_id)
        if described.state != _OPEN:
            raise RefusedByBroker(f"{transactional_id} has no open transaction: it is in {described.state}.")
        request = messages.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=described.timeout_ms
        )
        with translated(self._bootstrap):
            answer = self._cluster.ask(
                ApiKey.INIT_PRODUCER_ID,
                request,
                Coordinator.of_transaction(transactional_id),
                version_max=_INIT_VERSION_MAX,
                again_on=RETRIABLE - {ErrorCode.CONCURRENT_TRANSACTIONS},
            )
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            check_code(answer.error_code, transactional_id)
        return described

    def open_in(self, topic: str, partition: int) -> list[OpenTransaction]:
        """Open transactions of one partition, earliest first."""
        part = messages.DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
        request = messages.DescribeProducersRequest(topics=[part])
        answer = self._ask(ApiKey.DESCRIBE_PRODUCERS, request, Leader(topic, partition))
        (found,) = answer.topics[0].partitions
        check_code(found.error_code, f"{topic} partition {partition}")
        listed = [
            OpenTransaction(
                topic,
                partition,
                one.producer_id,
                one.producer_epoch,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in found.active_producers
            if one.current_txn_start_offset >= 0
        ]
        return sorted(listed, key=lambda one: one.start_offset)

    def owner_of(self, producer_id: int) -> str | None:
        """The transactional id of this producer's open transaction; None if no coordinator knows it, so it hangs."""
        found = self.find((_OPEN,), (producer_id,), None, None)
        return found[0].transactional_id if found else None

    def end_hanging(self, one: OpenTransaction) -> None:
        """Write the abort marker that no coordinator will write."""
        request = messages.WriteTxnMarkersRequest
        marker = request.WritableTxnMarker(
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            transaction_result=False,
            topics=[request.WritableTxnMarkerTopic(name=one.topic, partition_indexes=[one.partition])],
            coordinator_epoch=max(0, one.coordinator_epoch),
        )
        leader = Leader(one.topic, one.partition)
        with translated(self._bootstrap):
            answer = self._cluster.ask(
                ApiKey.WRITE_TXN_MARKERS, request(markers=[marker]), leader, version=_MARKERS_VERSION
            )
        check_code(
            answer.markers[0].topics[0].partitions[0].error_code, f"{one.topic} partition {one.partition}"
        )

    def _ask(self, api_key: int, body: KafkaRequest[ResponseT], target: Target) -> ResponseT:
        with translated(self._bootstrap):
            return self._cluster.ask(api_key, body, target)
