"""Produce: batches to their partitions; the answer when they are as durable as promised. Never looks inside a batch."""

from __future__ import annotations

from typing import Any

from penstock.core.errors import BrokerError, InvalidRecord, InvalidTopic
from penstock.core.model import Acks
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of, words_of
from penstock.node.broker import Broker
from penstock.node.partition import Appended, Partition
from penstock.wire.kafka import ErrorCode, messages

_BY_ID_FROM = 13
_ACKS = frozenset(int(acks) for acks in Acks)


class ProduceHandler:
    """Answers Produce."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def produce(self, call: Call, request: Any) -> Any:
        """Append everything now, in order; wait, if need be, without holding up what comes next on the connection."""
        production = Production(call, request.acks)
        topics = []
        for topic in request.topic_data:
            answers = [
                self._produce_one(production, call, request, topic, one) for one in topic.partition_data
            ]
            topics.append(
                messages.ProduceResponse.TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        return production.finish(messages.ProduceResponse(responses=topics))

    def _produce_one(self, production: Production, call: Call, request: Any, topic: Any, one: Any) -> Any:
        answer = messages.ProduceResponse.PartitionProduceResponse(index=one.index, base_offset=-1)
        if request.acks not in _ACKS:
            answer.error_code = int(ErrorCode.INVALID_REQUIRED_ACKS)
            return answer
        try:
            name = topic.name
            if call.version >= _BY_ID_FROM:
                name = self._broker.catalog.topic_by_id(topic.topic_id).name
            partition = self._broker.partition(name, one.index)
            if not one.records:
                raise InvalidRecord("the request carries no batch for this partition")
            if partition.is_internal:
                raise InvalidTopic(f"{name!r} is an internal topic, only the broker writes to it")
            appended = partition.append(one.records, request.acks)
        except BrokerError as error:
            production.refused(answer, error)
        else:
            production.appended(answer, partition, appended)
        return answer


class Production:
    """One Produce request under way: counts the partitions that are not yet durable."""

    __slots__ = ("_acks", "_answer", "_body", "_call", "_failed", "_open")

    def __init__(self, call: Call, acks: int) -> None:
        self._call = call
        self._acks = acks
        self._open = 0
        self._failed: BrokerError | None = None
        self._body: Any = None
        self._answer: Any = None

    def refused(self, answer: Any, error: BrokerError) -> None:
        self._failed = error
        answer.error_code = code_of(error)
        answer.error_message = words_of(error)
        if isinstance(error, InvalidRecord):
            answer.record_errors = [
                messages.ProduceResponse.BatchIndexAndErrorMessage(
                    batch_index=index, batch_index_error_message=words_of(error)
                )
                for index in error.indexes
            ]

    def appended(self, answer: Any, partition: Partition, appended: Appended) -> None:
        """Fill in where it went; if it is not durable yet, be told when it is."""
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.append_time_ms
        answer.log_start_offset = partition.start_offset
        if partition.high_watermark >= appended.end_offset or self._acks == Acks.NONE:
            return
        self._open += 1

        def settled(error: BrokerError | None) -> None:
            if error is not None:
                answer.base_offset = -1
                self.refused(answer, error)
            self._open -= 1
            if not self._open and self._answer is not None:
                self._answer(self._body)

        partition.when_durable(appended.end_offset, settled)

    def finish(self, body: Any) -> Any:
        """The answer if it is ready, else None and it follows.

        With acks=0 there is none, and an error ends the connection.
        """
        if self._acks == Acks.NONE:
            if self._failed is not None:
                self._call.connection.close(f"produce with acks=0 failed: {self._failed}")
            return None
        if not self._open:
            return body
        self._body = body
        self._answer = self._call.answer_later()
        return None
