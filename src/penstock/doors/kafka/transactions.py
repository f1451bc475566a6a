"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit and EndTxn.

The error code depends on the version of the call: older clients misinterpret newer codes.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from penstock.core.errors import (
    BrokerError,
    FencedProducer,
    StaleMember,
    TransactionAbortable,
    TransactionBusy,
    UnknownGroup,
)
from penstock.core.model import NO_EPOCH, NO_PRODUCER, TopicPartition
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.errors import coordinator_code_of
from penstock.doors.kafka.transaction_admin import TransactionAdminHandlers
from penstock.node.runtime.slices import Pace, Sliced, chunks
from penstock.node.waist.committed import Committer, OffsetEntry, Outcomes
from penstock.node.waist.transactions import Claim, OffsetCommit
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, ErrorCode, messages

_FENCED_FROM = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""First version of each call with PRODUCER_FENCED; otherwise the code is INVALID_PRODUCER_EPOCH."""
_ABORTABLE_FROM = {ApiKey.ADD_PARTITIONS_TO_TXN: 5, ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.PRODUCE: 11}
"""The same for TRANSACTION_ABORTABLE; otherwise the code is INVALID_TXN_STATE."""
_MANY_FROM = 4
"""First version of AddPartitionsToTxn with several transactions."""
_V2_FROM = {
    ApiKey.ADD_PARTITIONS_TO_TXN: 5,
    ApiKey.END_TXN: 5,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.PRODUCE: 12,
}
"""First version of each call that belongs to protocol V2."""
_NEVER = 1 << 15
_TRANSACTION_UNITS = 3
_ENTRIES_PER_UNIT = 4


def transaction_code_of(api_key: int, version: int, error: BrokerError) -> int:
    """Kafka's error code in this version of the call."""
    key, code = ApiKey(api_key), coordinator_code_of(error)
    if isinstance(error, FencedProducer) and version < _FENCED_FROM.get(key, _NEVER):
        return int(ErrorCode.INVALID_PRODUCER_EPOCH)
    if isinstance(error, TransactionAbortable) and version < _ABORTABLE_FROM.get(key, _NEVER):
        return int(ErrorCode.INVALID_TXN_STATE)
    return code


def produce_code_of(version: int, error: BrokerError) -> int:
    """The same for a batch that is rejected because of its transaction.

    Producers before protocol V2 retry transient errors only if they get a code that they have always retried.
    """
    code = transaction_code_of(ApiKey.PRODUCE, version, error)
    passes = not isinstance(error, TransactionBusy) or not speaks_v2(ApiKey.PRODUCE, version)
    return int(ErrorCode.NOT_ENOUGH_REPLICAS) if error.retriable and passes else code


def speaks_v2(api_key: int, version: int) -> bool:
    """Whether a call of this version belongs to protocol V2."""
    return version >= _V2_FROM.get(ApiKey(api_key), _NEVER)


class TransactionHandlers:
    """Handlers of transactional producers."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._verbs = waist.transactions
        self._admin = TransactionAdminHandlers(waist)

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key, including those of tools."""
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

    def between_brokers(self) -> dict[int, Handler]:
        """Handlers of calls from other brokers and our own tools."""
        return {ApiKey.WRITE_TXN_MARKERS: self._admin.write_markers}

    # -- InitProducerId

    def init_producer_id(
        self, call: Call, request: messages.InitProducerIdRequest
    ) -> messages.InitProducerIdResponse | Coroutine[Any, Any, messages.InitProducerIdResponse]:
        """Assign a producer id; with a transactional id, fence earlier producers.

        A reserved id is returned synchronously: as a coroutine, pipelined calls would take one loop iteration each.
        """
        is_new = request.producer_id == NO_PRODUCER and request.producer_epoch == NO_EPOCH
        if request.transactional_id is None and is_new:
            try:
                producer_id = self._verbs.reserved_producer_id(call.session)
            except BrokerError as error:
                return _no_producer(_code(call, error))
            if producer_id is not None:
                return messages.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
        return self._init_producer_id(call, request)

    async def _init_producer_id(
        self, call: Call, request: messages.InitProducerIdRequest
    ) -> messages.InitProducerIdResponse:
        try:
            producer_id, epoch = await self._verbs.init_producer(
                call.session,
                request.transactional_id,
                request.transaction_timeout_ms,
                Claim(request.producer_id, request.producer_epoch),
            )
        except BrokerError as error:
            return _no_producer(_code(call, error))
        return messages.InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)

    # -- AddPartitionsToTxn

    async def add_partitions(
        self, call: Call, request: messages.AddPartitionsToTxnRequest
    ) -> messages.AddPartitionsToTxnResponse:
        """Add partitions to a transaction; newer versions support several transactions, and verification only."""
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
        try:
            self._verbs.authorize_broker(call.session)
        except BrokerError as error:
            return response(error_code=_code(call, error), results_by_transaction=[])
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
        """All or nothing: if one partition is rejected, the others are not attempted."""
        places = await self._slices.run(_places(one))
        codes = dict.fromkeys(places, 0)
        try:
            refused = await self._verbs.add_partitions(
                call.session,
                one.transactional_id,
                Claim(one.producer_id, one.producer_epoch),
                places,
                is_v2=speaks_v2(call.api_key, call.version),
                is_from_broker=call.version >= _MANY_FROM,
                verify_only=one.verify_only,
            )
        except BrokerError as error:
            codes = dict.fromkeys(places, _code(call, error))
        else:
            if refused:
                codes = dict.fromkeys(places, int(ErrorCode.OPERATION_NOT_ATTEMPTED))
                codes |= {place: _code(call, error) for place, error in refused.items()}
        return await self._slices.run(_by_topic(one.topics, codes))

    # -- AddOffsetsToTxn

    async def add_offsets(
        self, call: Call, request: messages.AddOffsetsToTxnRequest
    ) -> messages.AddOffsetsToTxnResponse:
        """Add a group's offsets to a transaction, as the partition that stores the group."""
        answer = messages.AddOffsetsToTxnResponse()
        try:
            by = Claim(request.producer_id, request.producer_epoch)
            await self._verbs.add_group(call.session, request.transactional_id, by, request.group_id)
        except BrokerError as error:
            answer.error_code = _code(call, error)
        return answer

    # -- TxnOffsetCommit

    def txn_offset_commit(self, call: Call, request: messages.TxnOffsetCommitRequest) -> Sliced[None]:
        """Pend offsets that are committed with the transaction. Answered when they are durable."""
        response = messages.TxnOffsetCommitResponse
        entries: list[OffsetEntry] = []
        answers: list[Any] = []
        topics = []
        for topic in request.topics:
            partitions: list[Any] = []
            for some in chunks(topic.partitions):
                entries += [
                    OffsetEntry(
                        topic.name,
                        one.partition_index,
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.committed_metadata or "",
                    )
                    for one in some
                ]
                partitions += [
                    response.TxnOffsetCommitResponsePartition(partition_index=one.partition_index)
                    for one in some
                ]
                yield len(some) // _ENTRIES_PER_UNIT
            answers += partitions
            topics.append(response.TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        answer = call.answer_later()

        def answered(outcomes: Outcomes) -> None:
            for one, error in zip(answers, outcomes.errors, strict=True):
                if error is not None:
                    one.error_code = _offset_code(call, error)
            answer(response(topics=topics))

        commit = OffsetCommit(
            request.transactional_id,
            request.group_id,
            Claim(request.producer_id, request.producer_epoch),
            Committer(request.member_id, request.generation_id, request.group_instance_id),
            entries,
            may_add=speaks_v2(call.api_key, call.version),
        )
        connection = call.connection
        yield from self._verbs.commit_offsets(
            call.session,
            commit,
            connection.hold,
            answered,
            lambda error: connection.close(f"TxnOffsetCommit: {error}"),
        )

    # -- EndTxn

    async def end_transaction(self, call: Call, request: messages.EndTxnRequest) -> messages.EndTxnResponse:
        """Commit or abort. In protocol V2 the response contains the producer's next epoch."""
        answer = messages.EndTxnResponse(producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH)
        is_v2 = speaks_v2(call.api_key, call.version)
        by = Claim(request.producer_id, request.producer_epoch)
        try:
            producer_id, epoch = await self._verbs.end(
                call.session, request.transactional_id, by, commit=request.committed, is_v2=is_v2
            )
        except BrokerError as error:
            answer.error_code = _code(call, error)
            return answer
        if is_v2:
            answer.producer_id, answer.producer_epoch = producer_id, epoch
        return answer


def _code(call: Call, error: BrokerError) -> int:
    return transaction_code_of(call.api_key, call.version, error)


def _no_producer(code: int) -> messages.InitProducerIdResponse:
    return messages.InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH)


def _places(
    one: messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction,
) -> Sliced[list[TopicPartition]]:
    """The partitions to add to a transaction."""
    places: list[TopicPartition] = []
    for topic in one.topics:
        for indexes in chunks(topic.partitions):
            places += [TopicPartition(topic.name, index) for index in indexes]
            yield 1 + len(indexes) // 8
    return places


def _offset_code(call: Call, error: BrokerError) -> int:
    """Maps stale member epochs to ILLEGAL_GENERATION: the call has no newer code."""
    if isinstance(error, (UnknownGroup, StaleMember)):
        return int(ErrorCode.ILLEGAL_GENERATION)
    return _code(call, error)


def _by_topic(
    topics: Sequence[messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic],
    codes: dict[TopicPartition, int],
) -> Sliced[list[messages.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]]:
    response = messages.AddPartitionsToTxnResponse
    answers = []
    for topic in topics:
        results: list[Any] = []
        for indexes in chunks(topic.partitions):
            results += [
                response.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in indexes
            ]
            yield 1 + len(indexes) // 4
        answers.append(response.AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results))
    return answers
