"""Produce: appends batches and answers once they are acknowledged. Decodes no records."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.core.errors import (
    BrokerError,
    InvalidRecord,
    InvalidTimestamp,
    NotLeader,
    TimedOut,
    message_of,
)
from penstock.core.model import Acks
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of
from penstock.doors.kafka.leader_hints import add_leader_hint
from penstock.doors.kafka.transactions import produce_code_of, speaks_v2
from penstock.node.runtime.slices import CHUNK
from penstock.node.waist.produce import AppendedBatch, InTransaction, NewBatch, Produced
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ErrorCode, encode_produced, messages

_BY_ID_FROM = 13
_ACKS = frozenset(int(acks) for acks in Acks)
_WAITING = _ACKS - {int(Acks.NONE)}


class ProduceHandler:
    """Handler of Produce."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._verbs = waist.produce

    def produce(self, call: Call, request: messages.ProduceRequest) -> messages.ProduceResponse | None:
        """Append all batches in order; waits for acknowledgement without blocking later requests of the connection."""
        topics = request.topic_data
        if (
            len(topics) == 1
            and len(topics[0].partition_data) == 1
            and request.transactional_id is None
            and request.acks in _WAITING
        ):
            return self._produce_single(call, request)
        return self._produce_all(call, request)

    def _produce_single(
        self, call: Call, request: messages.ProduceRequest
    ) -> messages.ProduceResponse | None:
        """One batch with acks, the hottest request: its response is encoded without a message object."""
        topic = request.topic_data[0]
        one = topic.partition_data[0]
        name = topic.topic_id if call.version >= _BY_ID_FROM else topic.name
        try:
            written = self._verbs.append(call.session, name, one.index, one.records, request.acks)
        except BrokerError as error:
            return _refusal(call, topic, one, error)
        if written is None:
            return self._produce_all(call, request)
        frame = _encode_single(call, topic, one, name, written)
        if written.is_acknowledged:
            call.connection.answer((frame,))
            return None
        slot = call.connection.reserve()

        def settled(error: BrokerError | None) -> None:
            if error is None:
                slot.answer((frame,))
            else:
                slot.answer(call.encode(_refusal(call, topic, one, _after_append(call, error))))

        written.when_acknowledged(settled, request.timeout_ms)
        return None

    def _produce_all(self, call: Call, request: messages.ProduceRequest) -> messages.ProduceResponse | None:
        production = Production(call, request)
        if request.acks not in _ACKS:
            return production.refuse_acks()
        by_id = call.version >= _BY_ID_FROM
        batches = [
            NewBatch(topic.topic_id if by_id else topic.name, one.index, one.records)
            for topic in request.topic_data
            for one in topic.partition_data
        ]
        within = None
        if request.transactional_id is not None:
            within = InTransaction(request.transactional_id, speaks_v2(call.api_key, call.version))
        if len(batches) > CHUNK and request.acks != Acks.NONE:
            call.reserve_slot(self._slices)
        hold = call.connection.hold
        self._verbs.append_all(call.session, batches, request.acks, within, hold, production.produced)
        return production.finish()


class Production:
    """One Produce request in flight: counts the partitions that are not acknowledged yet.

    Holds no reference to the request: its batches lie in a buffer that will be reused.
    """

    __slots__ = (
        "_acks",
        "_answer",
        "_answers",
        "_body",
        "_call",
        "_failed",
        "_is_produced",
        "_open",
        "_wait_ms",
    )

    def __init__(self, call: Call, request: messages.ProduceRequest) -> None:
        self._call = call
        self._acks = request.acks
        self._wait_ms = request.timeout_ms
        self._open = 0
        self._is_produced = False
        self._failed: BrokerError | None = None
        self._answer: Any = None
        self._answers: list[Any] = []
        topics = []
        for topic in request.topic_data:
            answers = [_nowhere(one.index) for one in topic.partition_data]
            topics.append(_of_topic(topic, answers))
            self._answers += answers
        self._body = messages.ProduceResponse(responses=topics)

    def refuse_acks(self) -> messages.ProduceResponse:
        """The response to an invalid value of acks."""
        for answer in self._answers:
            answer.error_code = int(ErrorCode.INVALID_REQUIRED_ACKS)
        return self._body

    def produced(self, outcome: Produced | BaseException) -> None:
        """All batches are appended or rejected; the response is sent once the last one is acknowledged."""
        if isinstance(outcome, BaseException):
            self._call.connection.close(f"defect: {outcome!r}")
            return
        for answer, written in zip(self._answers, outcome.outcomes, strict=True):
            if isinstance(written, BrokerError):
                self._failed = written
                _refuse(answer, self._call.version, written, is_doubt=written is outcome.doubt)
                add_leader_hint(self._body, answer, written, self._call.version)
            else:
                self._fill(answer, written)
        self._is_produced = True
        if self._acks == Acks.NONE and self._failed is not None:
            self._call.connection.close(f"produce with acks=0 failed: {self._failed}")
        self._answer_if_due()

    def finish(self) -> messages.ProduceResponse | None:
        """The response if it is ready; None if it follows later, or if acks=0 and there is none."""
        if self._acks == Acks.NONE:
            return None
        if self._is_produced and not self._open:
            return self._body
        self._answer = self._call.answer_later()
        return None

    def _fill(
        self, answer: messages.ProduceResponse.PartitionProduceResponse, written: AppendedBatch
    ) -> None:
        """Fill in the offsets of a batch; wait for it if it is not acknowledged yet."""
        answer.base_offset = written.base_offset
        answer.log_append_time_ms = written.append_time_ms
        answer.log_start_offset = written.start_offset
        if self._acks != Acks.NONE and not written.is_acknowledged:
            self._open += 1
            written.when_acknowledged(partial(self._settled, answer), self._wait_ms)

    def _settled(
        self, answer: messages.ProduceResponse.PartitionProduceResponse, error: BrokerError | None
    ) -> None:
        if error is not None:
            error = _after_append(self._call, error)
            answer.base_offset = -1
            _refuse(answer, self._call.version, error)
            add_leader_hint(self._body, answer, error, self._call.version)
        self._open -= 1
        self._answer_if_due()

    def _answer_if_due(self) -> None:
        if self._answer is not None and self._is_produced and not self._open:
            self._answer(self._body)


def _encode_single(
    call: Call,
    topic: messages.ProduceRequest.TopicProduceData,
    one: messages.ProduceRequest.PartitionProduceData,
    name: str | bytes,
    written: AppendedBatch,
) -> bytes:
    """Encode the response for a single appended batch."""
    frame = encode_produced(
        call.version,
        call.correlation_id,
        name,
        one.index,
        written.base_offset,
        written.append_time_ms,
        written.start_offset,
    )
    if frame is None:
        answer = _nowhere(one.index)
        answer.base_offset = written.base_offset
        answer.log_append_time_ms = written.append_time_ms
        answer.log_start_offset = written.start_offset
        (frame,) = call.encode(messages.ProduceResponse(responses=[_of_topic(topic, [answer])]))
    return frame


def _refusal(
    call: Call,
    topic: messages.ProduceRequest.TopicProduceData,
    one: messages.ProduceRequest.PartitionProduceData,
    error: BrokerError,
) -> messages.ProduceResponse:
    """The response for a single rejected batch."""
    answer = _nowhere(one.index)
    _refuse(answer, call.version, error)
    response = messages.ProduceResponse(responses=[_of_topic(topic, [answer])])
    add_leader_hint(response, answer, error, call.version)
    return response


def _after_append(call: Call, error: BrokerError) -> BrokerError:
    """The error of a batch that is in the log and was not acknowledged.

    Kafka clients retry after NotLeader, and the next leader recognises a duplicate by its sequence. Another broker
    that forwards records without one must not take it for a batch that was refused: the outcome is unknown.
    """
    if call.session.is_broker and isinstance(error, NotLeader):
        return TimedOut(f"{error}; the records were appended, the outcome is unknown")
    return error


def _refuse(
    answer: messages.ProduceResponse.PartitionProduceResponse,
    version: int,
    error: BrokerError,
    *,
    is_doubt: bool = False,
) -> None:
    answer.error_code = produce_code_of(version, error) if is_doubt else code_of(error)
    answer.error_message = message_of(error)
    if isinstance(error, InvalidRecord | InvalidTimestamp):
        answer.record_errors = [
            messages.ProduceResponse.BatchIndexAndErrorMessage(
                batch_index=index, batch_index_error_message=message_of(error)
            )
            for index in error.indexes
        ]


def _nowhere(index: int) -> messages.ProduceResponse.PartitionProduceResponse:
    return messages.ProduceResponse.PartitionProduceResponse(index=index, base_offset=-1)


def _of_topic(
    topic: messages.ProduceRequest.TopicProduceData,
    answers: list[messages.ProduceResponse.PartitionProduceResponse],
) -> messages.ProduceResponse.TopicProduceResponse:
    return messages.ProduceResponse.TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=answers
    )
