"""Produce: batches to their partitions; the answer when they are as durable as promised. Never decodes a record.

Batches are admitted before they are appended. Where that takes long a worker does it while the connection is held;
batches to many partitions are admitted and appended in slices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.core.errors import BrokerError, InvalidRecord, InvalidTimestamp, WrongProducer, words_of
from penstock.core.machines.offsets import Place
from penstock.core.machines.transactions import Claim
from penstock.core.model import Acks
from penstock.core.records.batch import TRANSACTIONAL, decode_header
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of
from penstock.doors.kafka.transactions import produce_code_of, speaks_v2
from penstock.node.admission import Admitted
from penstock.node.broker import Broker
from penstock.node.connections.turns import BYTES_PER_UNIT
from penstock.node.partition import Appended, Partition
from penstock.node.publishing import check_written_by_clients
from penstock.node.slices import CHUNK, Sliced, finish
from penstock.node.workers import forget_variables
from penstock.wire.kafka import ErrorCode, encode_produced, messages

_BY_ID_FROM = 13
_ACKS = frozenset(int(acks) for acks in Acks)
_WAITING = _ACKS - {int(Acks.NONE)}


class ProduceHandler:
    """Answers Produce."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def produce(self, call: Call, request: messages.ProduceRequest) -> messages.ProduceResponse | None:
        """Append everything now, in order; wait, if need be, without holding up what comes next on the connection."""
        topics = request.topic_data
        if (
            len(topics) == 1
            and len(topics[0].partition_data) == 1
            and request.transactional_id is None
            and request.acks in _WAITING
        ):
            return self._produce_single(call, request)
        production = Production(call, request.acks)
        if request.transactional_id is not None:
            return self._produce_in_transaction(production, call, request)
        return self._finish(production, call, request)

    def _produce_single(
        self, call: Call, request: messages.ProduceRequest
    ) -> messages.ProduceResponse | None:
        """One batch that wants an answer, the hottest request of all: its answer is made without a message."""
        acks, topic = request.acks, request.topic_data[0]
        one = topic.partition_data[0]
        try:
            partition = self._target(call, topic, one)
            assert one.records is not None
            admitted = partition.admission.now(one.records, acks)
            if admitted is None:
                return self._finish(Production(call, acks), call, request)
            appended = partition.append_admitted(admitted)
        except BrokerError as error:
            return _refusal(call, topic, one, error)
        frame = _encode_single(call, topic, one, partition, appended)
        if partition.high_watermark >= appended.end_offset:
            call.connection.answer((frame,))
            return None
        place = call.connection.reserve()

        def settled(error: BrokerError | None) -> None:
            place.answer((frame,) if error is None else call.encode(_refusal(call, topic, one, error)))

        partition.when_durable(appended.end_offset, settled)
        return None

    # -- admission

    def _finish(
        self, production: Production, call: Call, request: messages.ProduceRequest
    ) -> messages.ProduceResponse | None:
        """Admit all batches, then append them; nothing is appended before the last one is admitted."""
        if _is_long(request):
            self._finish_sliced(production, call, request)
            return None
        if finish(self._admit_all(production, call, request)):
            return production.finish(finish(self._append(production, call, request)))
        self._admit_apart(production, call, request)
        return None

    def _finish_sliced(self, production: Production, call: Call, request: messages.ProduceRequest) -> None:
        """The same for many partitions, in slices. The connection is held: later batches must not overtake."""
        if request.acks != Acks.NONE:
            call.take_place(self._broker.runtime.slices)
        production.hold()
        release_hold = call.connection.hold()
        own_records(request)

        def admitted(outcome: bool | Exception) -> None:
            if outcome is True:
                self._append_sliced(production, call, request)
            elif outcome is False:
                self._admit_apart(production, call, request)
            else:
                call.connection.close(f"defect: {outcome!r}")
            release_hold()

        self._broker.runtime.slices.queue(self._admit_all(production, call, request), admitted)

    def _append_sliced(self, production: Production, call: Call, request: messages.ProduceRequest) -> None:
        release_hold = call.connection.hold()

        def appended(outcome: messages.ProduceResponse | Exception) -> None:
            release_hold()
            if isinstance(outcome, Exception):
                call.connection.close(f"defect: {outcome!r}")
            else:
                production.finish(outcome)

        self._broker.runtime.slices.queue(self._append(production, call, request), appended)

    def _admit_all(
        self, production: Production, call: Call, request: messages.ProduceRequest
    ) -> Sliced[bool]:
        """Admit every batch of a request on the loop; False when one of them must be opened in a worker."""
        for topic in request.topic_data:
            for one in topic.partition_data:
                yield 1 + len(one.records or b"") // BYTES_PER_UNIT
                try:
                    partition = self._target(call, topic, one)
                    assert one.records is not None
                    admitted = partition.admission.now(one.records, request.acks)
                except BrokerError as error:
                    production.admitted[id(one)] = error
                    continue
                if admitted is None:
                    return False
                production.admitted[id(one)] = admitted
        return True

    def _admit_apart(self, production: Production, call: Call, request: messages.ProduceRequest) -> None:
        """Admit every batch of a request in a worker. The connection is held: later batches must not overtake."""
        production.hold()
        release_hold = call.connection.hold()
        own_records(request)
        jobs: dict[int, Callable[[], Admitted]] = {}
        for topic in request.topic_data:
            for one in topic.partition_data:
                try:
                    partition = self._target(call, topic, one)
                    assert one.records is not None
                    jobs[id(one)] = partition.admission.work(one.records, request.acks)
                except BrokerError as error:
                    production.admitted[id(one)] = error

        def done(outcome: dict[int, Admitted | BrokerError] | BaseException) -> None:
            release_hold()
            if isinstance(outcome, BaseException):
                call.connection.close(f"defect: {outcome!r}")
                raise outcome
            production.admitted |= outcome
            if _is_long(request):
                self._append_sliced(production, call, request)
            else:
                production.finish(finish(self._append(production, call, request)))

        self._broker.runtime.workers.submit(lambda: run_all(jobs), done)

    def _append(
        self, production: Production, call: Call, request: messages.ProduceRequest
    ) -> Sliced[messages.ProduceResponse]:
        topics = []
        for topic in request.topic_data:
            answers = []
            for one in topic.partition_data:
                answers.append(self._append_one(production, call, request, topic, one))
                yield 1 + len(one.records or b"") // BYTES_PER_UNIT
            topics.append(
                messages.ProduceResponse.TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        return messages.ProduceResponse(responses=topics)

    def _append_one(
        self,
        production: Production,
        call: Call,
        request: messages.ProduceRequest,
        topic: messages.ProduceRequest.TopicProduceData,
        one: messages.ProduceRequest.PartitionProduceData,
    ) -> messages.ProduceResponse.PartitionProduceResponse:
        answer = messages.ProduceResponse.PartitionProduceResponse(index=one.index, base_offset=-1)
        if request.acks not in _ACKS:
            answer.error_code = int(ErrorCode.INVALID_REQUIRED_ACKS)
            return answer
        try:
            partition = self._target(call, topic, one)
            in_transaction = request.transactional_id is not None
            if in_transaction and Place(partition.topic, one.index) in production.unvouched:
                assert production.doubt is not None
                raise production.doubt
            admitted = production.admitted[id(one)]
            if isinstance(admitted, BrokerError):  # raised again, it would hold its batch in a cycle
                production.refused(answer, admitted)
                return answer
            appended = partition.append_admitted(admitted, in_transaction=in_transaction)
        except BrokerError as error:
            production.refused(answer, error)
        else:
            production.appended(answer, partition, appended)
        return answer

    def _partition(
        self,
        call: Call,
        topic: messages.ProduceRequest.TopicProduceData,
        one: messages.ProduceRequest.PartitionProduceData,
    ) -> Partition:
        name = topic.name
        if call.version >= _BY_ID_FROM:
            name = self._broker.catalog.topic_by_id(topic.topic_id).name
        return self._broker.partition(name, one.index)

    def _target(
        self,
        call: Call,
        topic: messages.ProduceRequest.TopicProduceData,
        one: messages.ProduceRequest.PartitionProduceData,
    ) -> Partition:
        partition = self._partition(call, topic, one)
        if not one.records:
            raise InvalidRecord("the request carries no batch for this partition")
        check_written_by_clients(partition)
        partition.check_online()
        return partition

    # -- in a transaction

    def _produce_in_transaction(
        self, production: Production, call: Call, request: messages.ProduceRequest
    ) -> messages.ProduceResponse | None:
        """Where the transaction is not open yet, its coordinator has to vouch for the batch before it is appended.

        Until then the connection is held: the next batch of the same producer must not be appended before this one.
        """
        assert request.transactional_id is not None
        claims, places = self._unvouched(call, request)
        if len(claims) > 1:
            production.doubt = WrongProducer("records of more than one producer came in one transaction")
            production.unvouched = places
        if production.doubt is not None or not places:
            return self._finish(production, call, request)
        ready: list[messages.ProduceResponse | None] = []
        release_hold = call.connection.hold()

        def admitted(error: BrokerError | None) -> None:
            if error is not None:
                production.doubt, production.unvouched = error, places
            ready.append(self._finish(production, call, request))
            release_hold()

        may_add = speaks_v2(call.api_key, call.version)
        (by,) = claims
        self._broker.transactions.admit(
            request.transactional_id, by, sorted(places), admitted, may_add=may_add
        )
        if ready:
            return ready[0]
        production.hold()
        own_records(request)
        return None

    def _unvouched(self, call: Call, request: messages.ProduceRequest) -> tuple[set[Claim], set[Place]]:
        """Who writes, and to which partitions that have no transaction of it open. What is wrong is refused later."""
        claims: set[Claim] = set()
        places: set[Place] = set()
        for topic in request.topic_data:
            for one in topic.partition_data:
                try:
                    partition = self._partition(call, topic, one)
                    header = decode_header(one.records or b"")
                except BrokerError:
                    continue
                if not header.attributes & TRANSACTIONAL:
                    continue
                by = Claim(header.producer_id, header.producer_epoch)
                claims.add(by)
                if not partition.log.producers.is_in_transaction(*by):
                    places.add(Place(partition.topic, one.index))
        return claims, places


class Production:
    """One Produce request under way: counts the partitions that are not yet durable."""

    __slots__ = (
        "_acks",
        "_answer",
        "_body",
        "_call",
        "_failed",
        "_open",
        "_place",
        "admitted",
        "doubt",
        "unvouched",
    )

    def __init__(self, call: Call, acks: int) -> None:
        self._call = call
        self._acks = acks
        self._open = 0
        self._failed: BrokerError | None = None
        self._body: Any = None
        self._answer: Any = None
        self._place: Any = None
        self.admitted: dict[int, Admitted | BrokerError] = {}
        """By the identity of the request's part for a partition: its batch, checked, or why it was refused."""
        self.doubt: BrokerError | None = None
        """Why the coordinator of the transaction does not vouch for the batches to some partitions."""
        self.unvouched: set[Place] = set()

    def hold(self) -> None:
        """The batches are not appended yet: keep the place of the answer in line."""
        if self._acks != Acks.NONE and self._place is None:
            self._place = self._call.answer_later()

    def refused(self, answer: messages.ProduceResponse.PartitionProduceResponse, error: BrokerError) -> None:
        self._failed = error
        is_doubt = error is self.doubt
        answer.error_code = produce_code_of(self._call.version, error) if is_doubt else code_of(error)
        answer.error_message = words_of(error)
        if isinstance(error, InvalidRecord | InvalidTimestamp):
            answer.record_errors = [
                messages.ProduceResponse.BatchIndexAndErrorMessage(
                    batch_index=index, batch_index_error_message=words_of(error)
                )
                for index in error.indexes
            ]

    def appended(
        self,
        answer: messages.ProduceResponse.PartitionProduceResponse,
        partition: Partition,
        appended: Appended,
    ) -> None:
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

    def finish(self, body: messages.ProduceResponse) -> messages.ProduceResponse | None:
        """The answer if it is ready, else None and it follows.

        With acks=0 there is none, and an error ends the connection.
        """
        if self._acks == Acks.NONE:
            if self._failed is not None:
                self._call.connection.close(f"produce with acks=0 failed: {self._failed}")
            return None
        if not self._open:
            if self._place is None:
                return body
            self._place(body)
            return None
        self._body = body
        self._answer = self._place or self._call.answer_later()
        return None


def _is_long(request: messages.ProduceRequest) -> bool:
    """Whether there are too many partitions to append to in one turn of the loop."""
    return sum(len(topic.partition_data) for topic in request.topic_data) > CHUNK


def own_records(request: messages.ProduceRequest) -> None:
    """Copy the batches of a request whose effect is deferred: the buffer they lie in is about to be reused."""
    for topic in request.topic_data:
        for one in topic.partition_data:
            one.records = None if one.records is None else memoryview(bytearray(one.records))


def run_all(jobs: dict[int, Callable[[], Admitted]]) -> dict[int, Admitted | BrokerError]:
    """Run admissions, in a worker; one that is refused does not keep the others."""
    outcomes: dict[int, Admitted | BrokerError] = {}
    for key, job in jobs.items():
        try:
            outcomes[key] = job()
        except BrokerError as error:
            forget_variables(error)  # among them what the batch was unfolded to
            outcomes[key] = error
    return outcomes


def _encode_single(
    call: Call,
    topic: messages.ProduceRequest.TopicProduceData,
    one: messages.ProduceRequest.PartitionProduceData,
    partition: Partition,
    appended: Appended,
) -> bytes:
    """The whole answer to a Produce of one partition that was appended."""
    name = topic.topic_id if call.version >= _BY_ID_FROM else topic.name
    frame = encode_produced(
        call.version,
        call.correlation_id,
        name,
        one.index,
        appended.base_offset,
        appended.append_time_ms,
        partition.start_offset,
    )
    if frame is None:
        answer = messages.ProduceResponse.PartitionProduceResponse(
            index=one.index, base_offset=appended.base_offset
        )
        answer.log_append_time_ms = appended.append_time_ms
        answer.log_start_offset = partition.start_offset
        (frame,) = call.encode(_of_one(topic, answer))
    return frame


def _refusal(
    call: Call,
    topic: messages.ProduceRequest.TopicProduceData,
    one: messages.ProduceRequest.PartitionProduceData,
    error: BrokerError,
) -> messages.ProduceResponse:
    """The answer to a Produce of one partition that was refused."""
    answer = messages.ProduceResponse.PartitionProduceResponse(index=one.index, base_offset=-1)
    Production(call, Acks.ALL).refused(answer, error)
    return _of_one(topic, answer)


def _of_one(
    topic: messages.ProduceRequest.TopicProduceData, answer: messages.ProduceResponse.PartitionProduceResponse
) -> messages.ProduceResponse:
    of_topic = messages.ProduceResponse.TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=[answer]
    )
    return messages.ProduceResponse(responses=[of_topic])
