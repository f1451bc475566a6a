"""Topics as clients manage them: create, delete, grow, cut off at the start. Never alters a setting.

Every topic of a request is judged by itself; those that are allowed are kept with one flush.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from penstock.core.errors import (
    AgainstPolicy,
    BrokerError,
    InvalidAssignment,
    InvalidReplication,
    InvalidRequest,
    InvalidTopic,
    words_of,
)
from penstock.core.limits import PARTITIONS_PER_CALL_MAX
from penstock.core.machines.catalog import Catalog
from penstock.core.machines.catalog_events import Event, TopicSaved
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.changes import (
    Changes,
    Deadline,
    Step,
    check_named_once,
    check_settings_once,
    repeated,
)
from penstock.doors.kafka.config_entries import CreatedConfigs
from penstock.doors.kafka.errors import code_of
from penstock.node.admission import REPLICAS
from penstock.node.broker import Broker
from penstock.node.slices import Pace, chunks
from penstock.wire.kafka import ApiKey, messages

_BY_ID_FROM = 6
"""The first version of DeleteTopics that may name topics by id."""

_NO_ID = bytes(16)
_AS_CONFIGURED = -1
_NO_OFFSET = -1
_ANSWER_UNITS = 1
_DELETION_UNITS = 8
"""What an entry costs, see SLICE_UNITS."""


class _TopicAnswer(Protocol):
    """What the answers about single topics have in common."""

    error_code: int
    error_message: str | None


AnswerT = TypeVar("AnswerT", bound=_TopicAnswer)


class _Quota:
    """The partitions that one request may create."""

    def __init__(self) -> None:
        self._left = PARTITIONS_PER_CALL_MAX

    def take(self, catalog: Catalog, events: Sequence[Event]) -> None:
        """Count the partitions that events add; raises AgainstPolicy over the limit, as Kafka does."""
        for event in events:
            if isinstance(event, TopicSaved):
                earlier = catalog.find(event.topic.name)
                added = event.topic.partition_count - (earlier.partition_count if earlier else 0)
                if added > self._left:
                    raise AgainstPolicy(
                        f"one request creates at most {PARTITIONS_PER_CALL_MAX} partitions; send several"
                    )
                self._left -= added


class TopicHandlers:
    """Answers CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._changes = Changes(broker)

    # -- create

    def handlers(self) -> dict[int, Handler]:
        return {
            ApiKey.CREATE_TOPICS: self.create_topics,
            ApiKey.DELETE_TOPICS: self.delete_topics,
            ApiKey.CREATE_PARTITIONS: self.create_partitions,
            ApiKey.DELETE_RECORDS: self.delete_records,
        }

    async def create_topics(
        self, call: Call, request: messages.CreateTopicsRequest
    ) -> messages.CreateTopicsResponse:
        """Make the topics of one request, or only say whether they could be made."""
        twice = repeated(topic.name for topic in request.topics)
        quota = _Quota()
        steps: list[Step] = [partial(self._create, quota, twice, topic) for topic in request.topics]
        kept = await self._changes.keep(
            steps, timeout_ms=request.timeout_ms, validate_only=request.validate_only
        )
        configs, pace, answers = CreatedConfigs(), Pace(), []
        for topic, error in zip(request.topics, kept.errors, strict=True):
            answers.append(_created(topic.name, error, kept.after, configs))
            await pace.spend(_ANSWER_UNITS)
        return messages.CreateTopicsResponse(topics=answers)

    def _create(
        self,
        quota: _Quota,
        twice: set[Hashable],
        asked: messages.CreateTopicsRequest.CreatableTopic,
        catalog: Catalog,
    ) -> Sequence[Event]:
        check_named_once(asked.name, twice)
        overrides = {one.name: one.value for one in asked.configs}
        check_settings_once(asked.configs)
        count = len(asked.assignments) or asked.num_partitions
        events = catalog.decide_create_topic(
            asked.name,
            self._broker.settings.default_partitions if count == _AS_CONFIGURED else count,
            overrides,
            topic_id=self._broker.new_topic_id(),
            now_ms=self._broker.runtime.clock.now_ms(),
        )
        self._check_placement(asked)
        quota.take(catalog, events)
        return events

    def _check_placement(self, asked: messages.CreateTopicsRequest.CreatableTopic) -> None:
        """The replicas that a new topic is to have must be the ones there are."""
        if not asked.assignments:
            if asked.replication_factor not in (REPLICAS, _AS_CONFIGURED):
                raise InvalidReplication(
                    f"the replication factor is {asked.replication_factor}, and this cluster keeps {REPLICAS} replica"
                )
            return
        if asked.num_partitions != _AS_CONFIGURED or asked.replication_factor != _AS_CONFIGURED:
            raise InvalidRequest(
                "partitions are assigned one by one, so their number and the replication factor must both be -1"
            )
        indexes = sorted(one.partition_index for one in asked.assignments)
        if indexes != list(range(len(indexes))):
            raise InvalidAssignment(
                "the partitions that are assigned are not numbered 0, 1, 2 and so on, each once"
            )
        for one in asked.assignments:
            self._check_replicas(one.broker_ids)

    def _check_replicas(self, broker_ids: Sequence[int]) -> None:
        node_id = self._broker.identity.node_id
        if list(broker_ids) != [node_id]:
            raise InvalidAssignment(
                f"replicas {list(broker_ids)} are named, and the only broker is {node_id}"
            )

    # -- delete

    async def delete_topics(
        self, call: Call, request: messages.DeleteTopicsRequest
    ) -> messages.DeleteTopicsResponse:
        """Remove topics, by name or, in newer versions, by id."""
        state = messages.DeleteTopicsRequest.DeleteTopicState
        if call.version >= _BY_ID_FROM:
            asked = request.topics
        else:
            asked = [state(name=name, topic_id=_NO_ID) for name in request.topic_names]
        answers, pace = [], Pace()
        for one in asked:
            answers.append(_deletion(self._broker.catalog, one))
            await pace.spend(1)
        twice = repeated(answer.name for answer in answers if answer.name is not None)
        steps: list[Step] = [
            partial(_delete, twice, one, answer) for one, answer in zip(asked, answers, strict=True)
        ]
        kept = await self._changes.keep(steps, timeout_ms=request.timeout_ms)
        for answer, error in zip(answers, kept.errors, strict=True):
            _tell(answer, error)
            await pace.spend(_ANSWER_UNITS)
        return messages.DeleteTopicsResponse(responses=answers)

    # -- grow

    async def create_partitions(
        self, call: Call, request: messages.CreatePartitionsRequest
    ) -> messages.CreatePartitionsResponse:
        """Give topics more partitions."""
        twice = repeated(topic.name for topic in request.topics)
        quota, pace = _Quota(), Pace()
        steps: list[Step] = [partial(self._grow, quota, twice, topic) for topic in request.topics]
        kept = await self._changes.keep(
            steps, timeout_ms=request.timeout_ms, validate_only=request.validate_only
        )
        answers = []
        for topic, error in zip(request.topics, kept.errors, strict=True):
            answer = messages.CreatePartitionsResponse.CreatePartitionsTopicResult(name=topic.name)
            answers.append(_tell(answer, error))
            await pace.spend(_ANSWER_UNITS)
        return messages.CreatePartitionsResponse(results=answers)

    def _grow(
        self,
        quota: _Quota,
        twice: set[Hashable],
        asked: messages.CreatePartitionsRequest.CreatePartitionsTopic,
        catalog: Catalog,
    ) -> Sequence[Event]:
        check_named_once(asked.name, twice)
        events = catalog.decide_add_partitions(asked.name, asked.count)
        if asked.assignments is not None:
            added = asked.count - catalog.topic(asked.name).partition_count
            if len(asked.assignments) != added:
                raise InvalidAssignment(
                    f"{len(asked.assignments)} partitions are assigned, and {added} are to be added"
                )
            for one in asked.assignments:
                self._check_replicas(one.broker_ids)
        quota.take(catalog, events)
        return events

    # -- cut off

    async def delete_records(
        self, call: Call, request: messages.DeleteRecordsRequest
    ) -> messages.DeleteRecordsResponse:
        """Forget the records before an offset, partition by partition.

        The timeout is for replicas that lag behind: a client that gives none (0) still wants the records deleted.
        """
        deadline = Deadline(request.timeout_ms if request.timeout_ms > 0 else None)
        topics, pace = [], Pace()
        for topic in request.topics:
            answers: list[Any] = []
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
                    *(self._delete_before(deadline, topic.name, one, answer) for one, answer in deletions)
                )
                await pace.spend(1 + _DELETION_UNITS * len(some))
            topics.append(
                messages.DeleteRecordsResponse.DeleteRecordsTopicResult(name=topic.name, partitions=answers)
            )
        return messages.DeleteRecordsResponse(topics=topics)

    async def _delete_before(
        self,
        deadline: Deadline,
        name: str,
        asked: messages.DeleteRecordsRequest.DeleteRecordsPartition,
        answer: messages.DeleteRecordsResponse.DeleteRecordsPartitionResult,
    ) -> None:
        try:
            deadline.check()
            partition = self._broker.partition(name, asked.partition_index)
            if partition.is_internal:
                raise InvalidTopic(f"{name!r} is an internal topic, only the broker deletes from it")
            outcome = await self._changes.within(deadline, partition.delete_records(asked.offset))
        except BrokerError as error:
            outcome = error
        if isinstance(outcome, BrokerError):
            answer.error_code = code_of(outcome)
        else:
            answer.low_watermark = outcome


def _tell(answer: AnswerT, error: BrokerError | None) -> AnswerT:
    """Write into an answer what went wrong, if anything did."""
    if error is not None:
        answer.error_code = code_of(error)
        answer.error_message = words_of(error)
    return answer


def _created(
    name: str, error: BrokerError | None, after: Catalog, configs: CreatedConfigs
) -> messages.CreateTopicsResponse.CreatableTopicResult:
    answer = messages.CreateTopicsResponse.CreatableTopicResult(name=name, error_message=None, configs=[])
    if error is not None:
        return _tell(answer, error)
    topic = after.topic(name)
    answer.topic_id = topic.id
    answer.num_partitions = topic.partition_count
    answer.replication_factor = REPLICAS
    answer.configs = configs.of(topic, after)
    return answer


def _deletion(
    catalog: Catalog, asked: messages.DeleteTopicsRequest.DeleteTopicState
) -> messages.DeleteTopicsResponse.DeletableTopicResult:
    """The answer about one topic to delete, with the half of its identity that the client did not give."""
    answer = messages.DeleteTopicsResponse.DeletableTopicResult(name=asked.name, topic_id=asked.topic_id)
    try:
        if asked.name is None and asked.topic_id != _NO_ID:
            answer.name = catalog.topic_by_id(asked.topic_id).name
        elif asked.name is not None and asked.topic_id == _NO_ID:
            answer.topic_id = catalog.topic(asked.name).id
    except BrokerError:
        return answer  # the step that deletes it refuses it, on the state of that time
    return answer


def _delete(
    twice: set[Hashable],
    asked: messages.DeleteTopicsRequest.DeleteTopicState,
    answer: messages.DeleteTopicsResponse.DeletableTopicResult,
    catalog: Catalog,
) -> Sequence[Event]:
    if (asked.name is None) == (asked.topic_id == _NO_ID):
        raise InvalidRequest("a topic to delete is named either by its name or by its id")
    check_named_once(answer.name, twice)
    name = asked.name if asked.name is not None else catalog.topic_by_id(asked.topic_id).name
    return catalog.decide_delete_topic(name)
