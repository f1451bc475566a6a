"""WriteTxnMarkers, DescribeProducers, DescribeTransactions and ListTransactions."""

from __future__ import annotations

import asyncio
from typing import Any

from penstock.core.errors import BrokerError
from penstock.core.model import TopicPartition
from penstock.core.records.control import Marker
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of, coordinator_code_of
from penstock.node.runtime.slices import Pace, Sliced, chunks
from penstock.node.waist.transactions import GROUPS_TOPIC, STATES, NewMarker, ProducerState, TransactionFilter
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import messages

_BUMPED_FROM = 2
"""First transaction version whose markers have a higher epoch than the transaction they end."""


_MARKER_UNITS = 8


class TransactionAdminHandlers:
    """Handlers of transaction administration."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.transactions

    # -- WriteTxnMarkers

    async def write_markers(
        self, call: Call, request: messages.WriteTxnMarkersRequest
    ) -> messages.WriteTxnMarkersResponse:
        """End open transactions of producers by partition; each has its own result."""
        response = messages.WriteTxnMarkersResponse
        answers = []
        pace = Pace()
        for requested in request.markers:
            await pace.spend(1)
            topics = []
            for topic in requested.topics:
                await pace.spend(1)
                codes: list[int] = []
                for some in chunks(topic.partition_indexes):
                    codes += await asyncio.gather(
                        *(self._write(call, requested, TopicPartition(topic.name, index)) for index in some)
                    )
                    await pace.spend(_MARKER_UNITS * len(some))
                partitions = [
                    response.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                    for index, code in zip(topic.partition_indexes, codes, strict=True)
                ]
                topics.append(response.WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
            answers.append(response.WritableTxnMarkerResult(producer_id=requested.producer_id, topics=topics))
        return response(markers=answers)

    async def _write(
        self, call: Call, requested: messages.WriteTxnMarkersRequest.WritableTxnMarker, place: TopicPartition
    ) -> int:
        marker = Marker(requested.transaction_result, requested.coordinator_epoch)
        is_bumped = requested.transaction_version >= _BUMPED_FROM
        new = NewMarker(requested.producer_id, requested.producer_epoch, marker, is_bumped)
        try:
            await self._verbs.write_marker(call.session, place, new)
        except BrokerError as error:
            return coordinator_code_of(error) if place.topic == GROUPS_TOPIC else code_of(error)
        return 0

    # -- DescribeProducers

    def describe_producers(
        self, call: Call, request: messages.DescribeProducersRequest
    ) -> Sliced[messages.DescribeProducersResponse]:
        """The active producers of partitions, with their open transactions."""
        response = messages.DescribeProducersResponse
        topics = []
        for topic in request.topics:
            answers = []
            for index in topic.partition_indexes:
                answer = response.PartitionResponse(partition_index=index, active_producers=[])
                try:
                    producers = self._verbs.producers(call.session, topic.name, index)
                    answer.active_producers = [_producer(one) for one in producers]
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
        """The state of transactional ids."""
        states: list[Any] = []
        for transactional_ids in chunks(request.transactional_ids):
            states += [self._describe(call, transactional_id) for transactional_id in transactional_ids]
            yield 3 * len(transactional_ids)
        return messages.DescribeTransactionsResponse(transaction_states=states)

    def _describe(
        self, call: Call, transactional_id: str
    ) -> messages.DescribeTransactionsResponse.TransactionState:
        response = messages.DescribeTransactionsResponse
        answer = response.TransactionState(transactional_id=transactional_id, topics=[])
        try:
            one = self._verbs.describe(call.session, transactional_id)
        except BrokerError as error:
            answer.error_code = coordinator_code_of(error)
            return answer
        answer.transaction_state = one.state
        answer.transaction_timeout_ms = one.timeout_ms
        answer.transaction_start_time_ms = one.started_ms
        answer.producer_id, answer.producer_epoch = one.producer_id, one.producer_epoch
        by_topic: dict[str, list[int]] = {}
        for place in one.partitions:
            by_topic.setdefault(place.topic, []).append(place.partition)
        answer.topics = [response.TopicData(topic=name, partitions=some) for name, some in by_topic.items()]
        return answer

    # -- ListTransactions

    def list_transactions(
        self, call: Call, request: messages.ListTransactionsRequest
    ) -> Sliced[messages.ListTransactionsResponse]:
        """The transactional ids that match all given filters."""
        response = messages.ListTransactionsResponse
        unknown = [name for name in request.state_filters if name not in STATES]
        wanted = TransactionFilter(
            frozenset(request.state_filters),
            frozenset(request.producer_id_filters),
            request.duration_filter,
            request.transactional_id_pattern or "",
        )
        try:
            listed = self._verbs.all(call.session, wanted)
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


def _producer(one: ProducerState) -> messages.DescribeProducersResponse.ProducerState:
    return messages.DescribeProducersResponse.ProducerState(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        last_sequence=one.last_sequence,
        last_timestamp=one.last_timestamp_ms,
        coordinator_epoch=one.coordinator_epoch,
        current_txn_start_offset=one.transaction_start_offset,
    )
