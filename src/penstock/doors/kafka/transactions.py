"""What producers call: producer ids, partitions and offsets into a transaction, and its end. Never decides anything.

Which code an error has depends on the version of the call: older clients take newer codes for something else.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from penstock.core.errors import (
    BrokerError,
    FencedProducer,
    InvalidGroup,
    InvalidRequest,
    StaleMember,
    TransactionAbortable,
    TransactionBusy,
    UnknownGroup,
    UnknownTopic,
)
from penstock.core.limits import OFFSETS_PER_BATCH_MAX
from penstock.core.machines.offsets import Place
from penstock.core.machines.transactions import Claim
from penstock.core.model import NO_EPOCH, NO_PRODUCER
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.committed import Parts
from penstock.doors.kafka.errors import coordinator_code_of
from penstock.doors.kafka.transaction_admin import TransactionAdminHandlers
from penstock.node.broker import Broker
from penstock.node.coordinators.committed import Committer, NewOffset
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.slices import Pace, Sliced, chunks
from penstock.wire.kafka import ApiKey, ErrorCode, messages

_FENCED_FROM = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""From which version on a call may answer PRODUCER_FENCED; before, and in all others, it is INVALID_PRODUCER_EPOCH."""
_ABORTABLE_FROM = {ApiKey.ADD_PARTITIONS_TO_TXN: 5, ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.PRODUCE: 11}
"""The same for TRANSACTION_ABORTABLE; before, it is INVALID_TXN_STATE."""
_MANY_FROM = 4
"""From this version of AddPartitionsToTxn on there are many transactions in a call."""
_V2_FROM = {
    ApiKey.ADD_PARTITIONS_TO_TXN: 5,
    ApiKey.END_TXN: 5,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.PRODUCE: 12,
}
"""From which version of each call on its sender speaks protocol V2."""
_NEVER = 1 << 15
_TRANSACTION_UNITS = 3


def transaction_code_of(api_key: int, version: int, error: BrokerError) -> int:
    """Kafka's number for one of our errors, as this version of the call knows it."""
    key, code = ApiKey(api_key), coordinator_code_of(error)
    if isinstance(error, FencedProducer) and version < _FENCED_FROM.get(key, _NEVER):
        return int(ErrorCode.INVALID_PRODUCER_EPOCH)
    if isinstance(error, TransactionAbortable) and version < _ABORTABLE_FROM.get(key, _NEVER):
        return int(ErrorCode.INVALID_TXN_STATE)
    return code


def produce_code_of(version: int, error: BrokerError) -> int:
    """The same where a batch is not taken because of its transaction.

    Producers before protocol V2 take what passes by itself only in the shape of an error that they always retried.
    """
    code = transaction_code_of(ApiKey.PRODUCE, version, error)
    passes = not isinstance(error, TransactionBusy) or not speaks_v2(ApiKey.PRODUCE, version)
    return int(ErrorCode.NOT_ENOUGH_REPLICAS) if error.retriable and passes else code


def speaks_v2(api_key: int, version: int) -> bool:
    """Does a call of this version belong to protocol V2?"""
    return version >= _V2_FROM.get(ApiKey(api_key), _NEVER)


class TransactionHandlers:
    """Answers InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit and EndTxn."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._transactions = broker.transactions
        self._coordination = broker.coordination
        self._admin = TransactionAdminHandlers(broker)

    def handlers(self) -> dict[int, Handler]:
        """All that concerns transactions, for clients and tools."""
        return {
            ApiKey.INIT_PRODUCER_ID: self.init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self.add_offsets,
            ApiKey.TXN_OFFSET_COMMIT: self.txn_offset_commit,
            ApiKey.END_TXN: self.end_transaction,
            ApiKey.DESCRIBE_PRODUCERS: self._admin.describe_producers,
            ApiKey.DESCRIBE_TRANSACTIONS: self._admin.describe_transactions,
            ApiKey.LIST_TRANSACTIONS: self._admin.list_transactions,
        }

    def unadvertised(self) -> dict[int, Handler]:
        """What brokers and our own tools send; no client is told of it."""
        return {ApiKey.WRITE_TXN_MARKERS: self._admin.write_markers}

    # -- InitProducerId

    def init_producer_id(
        self, call: Call, request: messages.InitProducerIdRequest
    ) -> messages.InitProducerIdResponse | Coroutine[Any, Any, messages.InitProducerIdResponse]:
        """With a transactional id, the epoch that fences all producers before; else an id that nobody had before.

        A reserved id is handed out at once: one call per turn would make pipelined calls wait for everybody's turns.
        """
        is_new = request.producer_id == NO_PRODUCER and request.producer_epoch == NO_EPOCH
        if request.transactional_id is None and is_new:
            producer_id = self._broker.reserved_producer_id()
            if producer_id is not None:
                return messages.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        return self._init_producer_id(call, request)

    async def _init_producer_id(
        self, call: Call, request: messages.InitProducerIdRequest
    ) -> messages.InitProducerIdResponse:
        answer = messages.InitProducerIdResponse(producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH)
        try:
            if (request.producer_id == NO_PRODUCER) != (request.producer_epoch == NO_EPOCH):
                raise InvalidRequest("a producer id comes with its epoch, or neither comes")
            if request.transactional_id is None:
                answer.producer_id, answer.producer_epoch = await self._broker.new_producer_id(), 0
                return answer
            expected = Claim(request.producer_id, request.producer_epoch)
            answer.producer_id, answer.producer_epoch = await self._transactions.init(
                request.transactional_id,
                request.transaction_timeout_ms,
                None if request.producer_id == NO_PRODUCER else expected,
            )
        except BrokerError as error:
            answer.error_code = _code(call, error)
        return answer

    # -- AddPartitionsToTxn

    async def add_partitions(
        self, call: Call, request: messages.AddPartitionsToTxnRequest
    ) -> messages.AddPartitionsToTxnResponse:
        """Partitions into a transaction; newer versions do so for many, or only ask whether they are in."""
        response = messages.AddPartitionsToTxnResponse
        if call.version < _MANY_FROM:
            one = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                verify_only=False,
                topics=request.v3_and_below_topics,
            )
            return response(results_by_topic_v3_and_below=await self._add(call, one))
        results = []
        pace = Pace()
        for one in request.transactions:
            await pace.spend(_TRANSACTION_UNITS)
            results.append(
                response.AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id, topic_results=await self._add(call, one)
                )
            )
        return response(results_by_transaction=results)

    async def _add(
        self, call: Call, one: messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    ) -> list[messages.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
        """All or nothing: where one partition is not there, the others are not attempted."""
        places, missing = await self._broker.runtime.slices.run(self._places(one))
        codes = dict.fromkeys(places, 0)
        if missing:
            codes = dict.fromkeys(places, int(ErrorCode.OPERATION_NOT_ATTEMPTED))
            codes |= dict.fromkeys(missing, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            by = Claim(one.producer_id, one.producer_epoch)
            try:
                if one.verify_only:
                    self._transactions.check(one.transactional_id, by, places)
                else:
                    is_v2 = speaks_v2(call.api_key, call.version)
                    await self._transactions.add(one.transactional_id, by, places, is_v2=is_v2)
            except BrokerError as error:
                codes = dict.fromkeys(places, _code(call, error))
        return await self._broker.runtime.slices.run(_by_topic(one.topics, codes))

    def _places(
        self, one: messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    ) -> Sliced[tuple[list[Place], list[Place]]]:
        """The partitions that are named, and those of them that are not there."""
        places: list[Place] = []
        missing: list[Place] = []
        for topic in one.topics:
            for indexes in chunks(topic.partitions):
                some = [Place(topic.name, index) for index in indexes]
                places += some
                missing += [place for place in some if not self._is_there(place)]
                yield 1 + len(some) // 2
        return places, missing

    def _is_there(self, place: Place) -> bool:
        try:
            return not self._broker.partition(*place).is_internal
        except UnknownTopic:
            return False

    # -- AddOffsetsToTxn

    async def add_offsets(
        self, call: Call, request: messages.AddOffsetsToTxnRequest
    ) -> messages.AddOffsetsToTxnResponse:
        """A group's offsets into a transaction, as the partition that keeps the group."""
        answer = messages.AddOffsetsToTxnResponse()
        try:
            await self._coordination.open()
            place = self._place_of(request.group_id)
            by = Claim(request.producer_id, request.producer_epoch)
            await self._transactions.add(request.transactional_id, by, [place], is_v2=False)
        except BrokerError as error:
            answer.error_code = _code(call, error)
        return answer

    def _place_of(self, group_id: str) -> Place:
        if not group_id:
            raise InvalidGroup("a group id cannot be empty")
        return Place(GROUPS_TOPIC, self._coordination.groups.shard_of(group_id).partition.index)

    # -- TxnOffsetCommit

    def txn_offset_commit(self, call: Call, request: messages.TxnOffsetCommitRequest) -> Sliced[None]:
        """Offsets that count if the transaction commits. Answered when they are durable."""
        response = messages.TxnOffsetCommitResponse
        offsets: list[NewOffset] = []
        taken: list[Any] = []
        topics = []
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                partition = response.TxnOffsetCommitResponsePartition(partition_index=one.partition_index)
                partitions.append(partition)
                yield 1
                place = Place(topic.name, one.partition_index)
                if not self._is_there(place):
                    partition.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    continue
                taken.append(partition)
                metadata = one.committed_metadata or ""
                offsets.append(NewOffset(place, one.committed_offset, one.committed_leader_epoch, metadata))
            yield 1
            topics.append(response.TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))

        def fill(
            some: list[messages.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition],
            outcome: list[BrokerError | None] | BrokerError,
        ) -> None:
            each = [outcome] * len(some) if isinstance(outcome, BrokerError) else outcome
            for partition, error in zip(some, each, strict=True):
                if error is not None:
                    partition.error_code = _offset_code(call, error)

        done = partial(call.answer_later(), response(topics=topics))
        self._pend(call, request, offsets, Parts(taken, fill, done))

    def _pend(
        self, call: Call, request: messages.TxnOffsetCommitRequest, offsets: list[NewOffset], parts: Parts
    ) -> None:
        """Have the coordinator of transactions vouch for the producer, then persist the offsets.

        The connection is held until then, so that a later commit of the same group cannot come first.
        """
        by = Claim(request.producer_id, request.producer_epoch)
        committer = Committer(request.member_id, request.generation_id, request.group_instance_id)

        def pend_each(error: BrokerError | None) -> Sliced[None]:
            for some in chunks(offsets, OFFSETS_PER_BATCH_MAX):
                answered = parts.next()
                if error is not None:
                    answered(error)
                else:
                    self._coordination.committed.pend(request.group_id, committer, by, some, answered)
                yield len(some)

        def pended(outcome: Exception | None) -> None:
            if outcome is not None:
                call.connection.close(f"TxnOffsetCommit: {outcome}")
            release_hold()

        release_hold = call.connection.hold()
        slices = self._broker.runtime.slices
        try:
            place = self._place_of(request.group_id)
        except BrokerError as error:
            slices.go(pend_each(error), pended)
            return
        may_add = speaks_v2(call.api_key, call.version)
        self._transactions.admit(
            request.transactional_id,
            by,
            [place],
            lambda error: slices.go(pend_each(error), pended),
            may_add=may_add,
        )

    # -- EndTxn

    async def end_transaction(self, call: Call, request: messages.EndTxnRequest) -> messages.EndTxnResponse:
        """Commit or abort. In protocol V2 the producer goes on with the epoch that it is told."""
        answer = messages.EndTxnResponse(producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH)
        is_v2 = speaks_v2(call.api_key, call.version)
        by = Claim(request.producer_id, request.producer_epoch)
        try:
            producer_id, epoch = await self._transactions.end(
                request.transactional_id, by, commit=request.committed, is_v2=is_v2
            )
        except BrokerError as error:
            answer.error_code = _code(call, error)
            return answer
        if is_v2:
            answer.producer_id, answer.producer_epoch = producer_id, epoch
        return answer


def _code(call: Call, error: BrokerError) -> int:
    return transaction_code_of(call.api_key, call.version, error)


def _offset_code(call: Call, error: BrokerError) -> int:
    """A member's epoch that is over is a generation that is over: the call knows the older word alone."""
    if isinstance(error, (UnknownGroup, StaleMember)):
        return int(ErrorCode.ILLEGAL_GENERATION)
    return _code(call, error)


def _by_topic(
    topics: Sequence[messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic], codes: dict[Place, int]
) -> Sliced[list[messages.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]]:
    response = messages.AddPartitionsToTxnResponse
    answers = []
    for topic in topics:
        results: list[Any] = []
        for indexes in chunks(topic.partitions):
            results += [
                response.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[Place(topic.name, index)]
                )
                for index in indexes
            ]
            yield 1 + len(indexes) // 4
        answers.append(response.AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results))
    return answers
