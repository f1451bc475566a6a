"""What tools ask about transactions and producers, and the markers with which they end hanging ones. Never fences."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.core.errors import BrokerError, InvalidRequest
from penstock.core.machines.offsets import Place
from penstock.core.machines.topic_regex import matching_topics
from penstock.core.machines.transaction_values import Transaction, TransactionState
from penstock.core.records.control import Marker
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of, coordinator_code_of
from penstock.node.broker import Broker
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.partition import Partition
from penstock.node.slices import Pace, Sliced, chunks
from penstock.wire.kafka import messages

_NO_OFFSET = -1
_NO_SEQUENCE = -1
_EVERY_DURATION = -1
_BUMPED_FROM = 2
"""Markers of this transaction version have an epoch above that of the transaction they end."""


_MARKER_UNITS = 8


class TransactionAdminHandlers:
    """Answers WriteTxnMarkers, DescribeProducers, DescribeTransactions and ListTransactions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._transactions = broker.transactions

    # -- WriteTxnMarkers

    async def write_markers(
        self, call: Call, request: messages.WriteTxnMarkersRequest
    ) -> messages.WriteTxnMarkersResponse:
        """End what producers have open, partition by partition; each has its own outcome."""
        response = messages.WriteTxnMarkersResponse
        answers = []
        pace = Pace()
        for asked in request.markers:
            await pace.spend(1)
            topics = []
            for topic in asked.topics:
                codes: list[int] = []
                for some in chunks(topic.partition_indexes):
                    codes += await asyncio.gather(
                        *(self._write(asked, Place(topic.name, index)) for index in some)
                    )
                    await pace.spend(_MARKER_UNITS * len(some))
                partitions = [
                    response.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                    for index, code in zip(topic.partition_indexes, codes, strict=True)
                ]
                topics.append(response.WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
            answers.append(response.WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics))
        return response(markers=answers)

    async def _write(self, asked: messages.WriteTxnMarkersRequest.WritableTxnMarker, place: Place) -> int:
        markers = self._broker.markers
        try:
            if place.topic == GROUPS_TOPIC:
                error = await markers.settle_offsets(asked.producer_id, is_commit=asked.transaction_result)
                return 0 if error is None else coordinator_code_of(error)
            await markers.end(
                place,
                asked.producer_id,
                asked.producer_epoch,
                Marker(asked.transaction_result, asked.coordinator_epoch),
                is_bumped=asked.transaction_version >= _BUMPED_FROM,
            )
        except BrokerError as refused:
            return code_of(refused)
        return 0

    # -- DescribeProducers

    def describe_producers(
        self, call: Call, request: messages.DescribeProducersRequest
    ) -> Sliced[messages.DescribeProducersResponse]:
        """Who has written to these partitions lately, and who has a transaction open there."""
        response = messages.DescribeProducersResponse
        topics = []
        for topic in request.topics:
            answers = []
            for index in topic.partition_indexes:
                answer = response.PartitionResponse(partition_index=index, active_producers=[])
                try:
                    partition = self._broker.partition(topic.name, index)
                    partition.check_online()
                    answer.active_producers = _producers(partition)
                except BrokerError as error:
                    answer.error_code, answer.error_message = code_of(error), str(error)
                answers.append(answer)
                yield 1 + len(answer.active_producers) // 4
            yield 1
            topics.append(response.TopicResponse(name=topic.name, partitions=answers))
        return response(topics=topics)

    # -- DescribeTransactions

    def describe_transactions(
        self, call: Call, request: messages.DescribeTransactionsRequest
    ) -> Sliced[messages.DescribeTransactionsResponse]:
        """All that is known of transactional ids."""
        states: list[Any] = []
        for transactional_ids in chunks(request.transactional_ids):
            states += [self._describe(transactional_id) for transactional_id in transactional_ids]
            yield 3 * len(transactional_ids)
        return messages.DescribeTransactionsResponse(transaction_states=states)

    def _describe(self, transactional_id: str) -> messages.DescribeTransactionsResponse.TransactionState:
        response = messages.DescribeTransactionsResponse
        answer = response.TransactionState(transactional_id=transactional_id, topics=[])
        try:
            if not transactional_id:
                raise InvalidRequest("a transactional id cannot be empty")
            one = self._transactions.get(transactional_id)
        except BrokerError as error:
            answer.error_code = coordinator_code_of(error)
            return answer
        answer.transaction_state = one.state
        answer.transaction_timeout_ms = one.timeout_ms
        answer.transaction_start_time_ms = one.started_ms
        answer.producer_id, answer.producer_epoch = one.producer_id, one.producer_epoch
        by_topic: dict[str, list[int]] = {}
        for place in one.places:
            by_topic.setdefault(place.topic, []).append(place.partition)
        answer.topics = [response.TopicData(topic=name, partitions=some) for name, some in by_topic.items()]
        return answer

    # -- ListTransactions

    def list_transactions(
        self, call: Call, request: messages.ListTransactionsRequest
    ) -> Sliced[messages.ListTransactionsResponse]:
        """Transactional ids, or those that pass all the filters that are given."""
        response = messages.ListTransactionsResponse
        known = {state.value for state in TransactionState}
        unknown = [name for name in request.state_filters if name not in known]
        try:
            listed = self._filtered(request)
        except BrokerError as error:
            code = coordinator_code_of(error)
            return response(error_code=code, unknown_state_filters=[], transaction_states=[])
        states: list[Any] = []
        for some in chunks(listed):
            states += [
                response.TransactionState(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    transaction_state=one.state,
                )
                for one in some
            ]
            yield len(some) // 2
        return response(unknown_state_filters=unknown, transaction_states=states)

    def _filtered(self, request: messages.ListTransactionsRequest) -> list[Transaction]:
        found = self._transactions.all()
        states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
        if states:
            found = [one for one in found if one.state.value in states]
        if producer_ids:
            found = [one for one in found if one.producer_id in producer_ids]
        if request.duration_filter > _EVERY_DURATION:
            since_ms = self._broker.runtime.clock.now_ms() - request.duration_filter
            found = [one for one in found if one.started_ms < since_ms]
        if request.transactional_id_pattern:
            names = matching_topics(request.transactional_id_pattern, [one.transactional_id for one in found])
            kept = set(names)
            found = [one for one in found if one.transactional_id in kept]
        return found


def _producers(partition: Partition) -> list[messages.DescribeProducersResponse.ProducerState]:
    response = messages.DescribeProducersResponse
    answers = []
    for producer_id, one in partition.log.producers.items():
        first_offset = partition.log.transactions.first_offset(producer_id)
        answers.append(
            response.ProducerState(
                producer_id=producer_id,
                producer_epoch=one.epoch,
                last_sequence=one.batches[-1].last_sequence if one.batches else _NO_SEQUENCE,
                last_timestamp=one.seen_ms,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_start_offset=_NO_OFFSET if first_offset is None else first_offset,
            )
        )
    return answers
