"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Protocol, TypeVar

from penstock.core.errors import BrokerError, InvalidRequest, message_of
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.config_entries import CreatedConfigs
from penstock.doors.kafka.errors import code_of
from penstock.node.runtime.slices import Pace, chunks
from penstock.node.waist.changes import Deadline, check_named_once, repeated
from penstock.node.waist.config_resources import check_settings_once
from penstock.node.waist.topics import NO_ID, CreatedTopic, Growth, NewTopic, ReplicaAssignment
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, ErrorCode, messages

_BY_ID_FROM = 6
"""First version of DeleteTopics that accepts topic ids."""

_AS_CONFIGURED = -1
_NO_OFFSET = -1
_ANSWER_UNITS = 1
_DELETION_UNITS = 8
"""Cost of one entry, see SLICE_UNITS."""


class _TopicAnswer(Protocol):
    """The fields shared by all per-topic results."""

    error_code: int
    error_message: str | None


AnswerT = TypeVar("AnswerT", bound=_TopicAnswer)


class TopicHandlers:
    """Handlers of topic administration."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.topics

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.CREATE_TOPICS: self.create_topics,
            ApiKey.DELETE_TOPICS: self.delete_topics,
            ApiKey.CREATE_PARTITIONS: self.create_partitions,
            ApiKey.DELETE_RECORDS: self.delete_records,
        }

    # -- create

    async def create_topics(
        self, call: Call, request: messages.CreateTopicsRequest
    ) -> messages.CreateTopicsResponse:
        """Create the topics of one request, or only validate it."""
        twice = repeated(topic.name for topic in request.topics)
        wanted: list[NewTopic | BrokerError] = []
        pace = Pace()
        for topic in request.topics:
            wanted.append(_new_topic(topic, twice))
            await pace.spend(_ANSWER_UNITS)
        outcomes = await self._verbs.create_all(
            call.session, wanted, timeout_ms=request.timeout_ms, validate_only=request.validate_only
        )
        configs, answers = CreatedConfigs(), []
        for topic, outcome in zip(request.topics, outcomes, strict=True):
            answers.append(_created(topic.name, outcome, configs))
            await pace.spend(_ANSWER_UNITS)
        return messages.CreateTopicsResponse(topics=answers)

    # -- delete

    async def delete_topics(
        self, call: Call, request: messages.DeleteTopicsRequest
    ) -> messages.DeleteTopicsResponse:
        """Delete topics by name or, in newer versions, by id."""
        state = messages.DeleteTopicsRequest.DeleteTopicState
        if call.version >= _BY_ID_FROM:
            requested = request.topics
        else:
            requested = [state(name=name, topic_id=NO_ID) for name in request.topic_names]
        wanted: list[str | bytes | BrokerError] = []
        answers, pace = [], Pace()
        for one in requested:
            if (one.name is None) == (one.topic_id == NO_ID):
                wanted.append(InvalidRequest("a topic to delete needs either a name or an id"))
            else:
                wanted.append(one.topic_id if one.name is None else one.name)
            await pace.spend(_ANSWER_UNITS)
        deleted = await self._verbs.delete_all(call.session, wanted, timeout_ms=request.timeout_ms)
        for one, found in zip(requested, deleted, strict=True):
            answer = messages.DeleteTopicsResponse.DeletableTopicResult(
                name=one.name if found.name is None else found.name,
                topic_id=one.topic_id if found.id == NO_ID else found.id,
            )
            answers.append(_with_error(answer, found.error))
            await pace.spend(_ANSWER_UNITS)
        return messages.DeleteTopicsResponse(responses=answers)

    # -- grow

    async def create_partitions(
        self, call: Call, request: messages.CreatePartitionsRequest
    ) -> messages.CreatePartitionsResponse:
        """Add partitions to topics."""
        twice = repeated(topic.name for topic in request.topics)
        pace = Pace()
        await pace.spend(len(request.topics) // 4)
        wanted: list[Growth | BrokerError] = []
        for topic in request.topics:
            wanted.append(_growth(topic, twice))
            await pace.spend(_ANSWER_UNITS)
        errors = await self._verbs.grow_all(
            call.session, wanted, timeout_ms=request.timeout_ms, validate_only=request.validate_only
        )
        answers = []
        for topic, error in zip(request.topics, errors, strict=True):
            answer = messages.CreatePartitionsResponse.CreatePartitionsTopicResult(name=topic.name)
            answers.append(_with_error(answer, error))
            await pace.spend(_ANSWER_UNITS)
        return messages.CreatePartitionsResponse(results=answers)

    # -- delete records

    async def delete_records(
        self, call: Call, request: messages.DeleteRecordsRequest
    ) -> messages.DeleteRecordsResponse:
        """Delete the records before an offset, partition by partition.

        The timeout concerns lagging replicas: with a timeout of 0 the records are still deleted.
        """
        deadline = Deadline(request.timeout_ms if request.timeout_ms > 0 else None)
        topics, pace = [], Pace()
        for topic in request.topics:
            answers: list[messages.DeleteRecordsResponse.DeleteRecordsPartitionResult] = []
            for some in chunks(topic.partitions):
                made = [
                    messages.DeleteRecordsResponse.DeleteRecordsPartitionResult(
                        partition_index=one.partition_index, low_watermark=_NO_OFFSET
                    )
                    for one in some
                ]
                answers += made
                deletions = zip(some, made, strict=True)
                await asyncio.gather(
                    *(self._delete_before(call, deadline, topic.name, *one) for one in deletions)
                )
                await pace.spend(1 + _DELETION_UNITS * len(some))
            topics.append(
                messages.DeleteRecordsResponse.DeleteRecordsTopicResult(name=topic.name, partitions=answers)
            )
        return messages.DeleteRecordsResponse(topics=topics)

    async def _delete_before(
        self,
        call: Call,
        deadline: Deadline,
        name: str,
        requested: messages.DeleteRecordsRequest.DeleteRecordsPartition,
        answer: messages.DeleteRecordsResponse.DeleteRecordsPartitionResult,
    ) -> None:
        try:
            answer.low_watermark = await self._verbs.delete_records(
                call.session, name, requested.partition_index, requested.offset, deadline
            )
        except BrokerError as error:
            answer.error_code = code_of(error)


def _new_topic(
    requested: messages.CreateTopicsRequest.CreatableTopic, twice: set[Hashable]
) -> NewTopic | BrokerError:
    try:
        check_named_once(requested.name, twice)
        check_settings_once(one.name for one in requested.configs)
    except BrokerError as error:
        return error
    count, replicas = requested.num_partitions, requested.replication_factor
    return NewTopic(
        requested.name,
        None if count == _AS_CONFIGURED else count,
        {one.name: one.value for one in requested.configs},
        None if replicas == _AS_CONFIGURED else replicas,
        [ReplicaAssignment(one.partition_index, one.broker_ids) for one in requested.assignments],
    )


def _growth(
    requested: messages.CreatePartitionsRequest.CreatePartitionsTopic, twice: set[Hashable]
) -> Growth | BrokerError:
    try:
        check_named_once(requested.name, twice)
    except BrokerError as error:
        return error
    assigned = requested.assignments
    return Growth(
        requested.name, requested.count, None if assigned is None else [one.broker_ids for one in assigned]
    )


def _with_error(answer: AnswerT, error: BrokerError | None) -> AnswerT:
    """Add the error, if any, to a result."""
    if error is not None:
        answer.error_code = code_of(error)
        answer.error_message = message_of(error)
    return answer


def _created(
    name: str, outcome: CreatedTopic | BrokerError, configs: CreatedConfigs
) -> messages.CreateTopicsResponse.CreatableTopicResult:
    answer = messages.CreateTopicsResponse.CreatableTopicResult(name=name, error_message=None, configs=[])
    if isinstance(outcome, BrokerError):
        return _with_error(answer, outcome)
    answer.topic_id = outcome.topic.id
    if outcome.entries is None:
        answer.topic_config_error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return answer
    answer.num_partitions = outcome.topic.partition_count
    answer.replication_factor = outcome.replication_factor
    answer.configs = configs.of(outcome.entries)
    return answer
