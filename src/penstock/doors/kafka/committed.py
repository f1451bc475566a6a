"""OffsetCommit, OffsetFetch, OffsetDelete: offsets by topic name or, in the newest versions, by topic id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.core.errors import BrokerError, NotNow, StaleMember, UnknownGroup
from penstock.core.model import NO_EPOCH, TopicPartition
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import coordinator_code_of
from penstock.node.runtime.slices import Sliced, chunks
from penstock.node.waist.committed import (
    NO_OFFSET,
    NO_RETENTION,
    Committed,
    Committer,
    OffsetEntry,
    Outcomes,
)
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ErrorCode, messages

_BY_ID_FROM = 10
_NEW_CODES_FROM = 9
_BEFORE_9: dict[type[BrokerError], ErrorCode] = {
    UnknownGroup: ErrorCode.ILLEGAL_GENERATION,
    StaleMember: ErrorCode.UNSUPPORTED_VERSION,
}
"""Error codes of OffsetCommit in versions older than consumer groups."""
_MANY_GROUPS_FROM = 8
_GROUP_ERROR_FROM = 2
_ENTRIES_PER_UNIT = 4


class CommittedHandlers:
    """Handlers of calls about committed offsets."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.committed
        self._topics = waist.topics
        self._slices = waist.slices

    # -- OffsetCommit

    def offset_commit(self, call: Call, request: messages.OffsetCommitRequest) -> Sliced[None]:
        """Answered when the offsets are durable. Each partition has its own outcome."""
        response = messages.OffsetCommitResponse
        entries: list[OffsetEntry] = []
        answers: list[Any] = []
        topics = []
        for topic in request.topics:
            ref = topic.topic_id if call.version >= _BY_ID_FROM else topic.name
            partitions: list[Any] = []
            for some in chunks(topic.partitions):
                entries += [
                    OffsetEntry(
                        ref,
                        one.partition_index,
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.committed_metadata or "",
                    )
                    for one in some
                ]
                partitions += [
                    response.OffsetCommitResponsePartition(partition_index=one.partition_index)
                    for one in some
                ]
                yield len(some) // _ENTRIES_PER_UNIT
            answers += partitions
            topics.append(
                response.OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=partitions
                )
            )
        answer = call.answer_later()

        def answered(outcomes: Outcomes) -> None:
            for one, error in zip(answers, outcomes.errors, strict=True):
                if error is not None:
                    one.error_code = _commit_code(call, error)
            answer(response(topics=topics))

        by = Committer(request.member_id, request.generation_id_or_member_epoch, request.group_instance_id)
        retention_ms = request.retention_time_ms if request.retention_time_ms >= 0 else NO_RETENTION
        yield from self._verbs.commit(call.session, request.group_id, by, entries, retention_ms, answered)

    # -- OffsetFetch

    def offset_fetch(self, call: Call, request: messages.OffsetFetchRequest) -> Sliced[None]:
        """Answered with durable offsets; from version 8 on, for several groups."""
        answer = call.answer_later()
        response = messages.OffsetFetchResponse
        if call.version < _MANY_GROUPS_FROM:
            yield from self._fetch(
                call,
                request,
                Committer(),
                request.require_stable,
                lambda outcome: answer(_one(call, outcome)),
            )
            return
        groups = [response.OffsetFetchResponseGroup(group_id=one.group_id) for one in request.groups]
        left = len(groups)
        if not left:
            answer(response(groups=[]))

        def fetched(group: messages.OffsetFetchResponse.OffsetFetchResponseGroup, outcome: Any) -> None:
            nonlocal left
            group.topics, group.error_code = outcome
            left -= 1
            if not left:
                answer(response(groups=groups))

        for group, one in zip(groups, request.groups, strict=True):
            by = Committer(one.member_id or "", one.member_epoch)
            yield from self._fetch(call, one, by, request.require_stable, partial(fetched, group))
            yield 1

    def _fetch(
        self,
        call: Call,
        request: messages.OffsetFetchRequest | messages.OffsetFetchRequest.OffsetFetchRequestGroup,
        by: Committer,
        require_stable: bool,
        done: Callable[[Any], None],
    ) -> Sliced[None]:
        """`done` gets the topics of one group and its error code."""
        wanted: list[TopicPartition] | None = None
        if request.topics is not None:
            wanted = []
            for topic in request.topics:
                name = self._name(call, topic)
                for indexes in chunks(topic.partition_indexes if name is not None else []):
                    wanted += [TopicPartition(name or "", index) for index in indexes]
                    yield 1 + len(indexes) // 8

        def answered(outcome: dict[TopicPartition, Committed | BrokerError | None] | BrokerError) -> None:
            requested, code = request.topics, 0
            if isinstance(outcome, BrokerError):
                code = coordinator_code_of(outcome)
                if requested is None or not _names_partitions(call, outcome):
                    done(([], code))
                    return
                steps = self._requested(call, requested, {}, code)
            elif requested is None:
                steps = self._all(call, outcome)
            else:
                steps = self._requested(call, requested, outcome)
            self._slices.go(steps, partial(self._fetched, call, done, code))

        yield from self._verbs.fetch(
            call.session, request.group_id, by, wanted, answered, require_stable=require_stable
        )

    def _fetched(
        self, call: Call, done: Callable[[Any], None], code: int, topics: list[Any] | Exception
    ) -> None:
        if isinstance(topics, Exception):
            call.connection.close(f"OffsetFetch: {topics}")
        else:
            done((topics, code))

    def _name(self, call: Call, topic: Any) -> str | None:
        """The topic's name; None for an unknown id. The name of a missing topic is returned as is."""
        if call.version < _BY_ID_FROM:
            return str(topic.name)
        return self._topics.name_of(call.session, topic.topic_id)

    def _requested(
        self, call: Call, topics: Sequence[Any], found: dict[TopicPartition, Any], code: int = 0
    ) -> Sliced[list[Any]]:
        """`code` is the error of partitions that are not found."""
        answers = []
        for topic in topics:
            name = self._name(call, topic)
            missing = int(ErrorCode.UNKNOWN_TOPIC_ID) if name is None else code
            partitions: list[Any] = []
            for indexes in chunks(topic.partition_indexes):
                partitions += [
                    _partition(call, one, found.get(TopicPartition(name or "", one)), missing)
                    for one in indexes
                ]
                yield 1 + len(indexes) // 4
            answers.append(_topic(call, topic.name, getattr(topic, "topic_id", bytes(16)), partitions))
        return answers

    def _all(self, call: Call, found: dict[TopicPartition, Any]) -> Sliced[list[Any]]:
        by_topic: dict[str, list[Any]] = {}
        for places in chunks(list(found)):
            for place in places:
                by_topic.setdefault(place.topic, []).append(_partition(call, place.partition, found[place]))
            yield len(places) // 4
        answers = []
        for name, partitions in by_topic.items():
            topic_id = self._topics.id_of(call.session, name)
            if topic_id is not None or call.version < _BY_ID_FROM:
                answers.append(_topic(call, name, topic_id or bytes(16), partitions))
        return answers

    # -- OffsetDelete

    def offset_delete(self, call: Call, request: messages.OffsetDeleteRequest) -> Sliced[None]:
        """Answered when the deletion is durable."""
        response = messages.OffsetDeleteResponse
        wanted: list[tuple[str | bytes, int]] = []
        answers: list[Any] = []
        body = response(topics=[])
        for topic in request.topics:
            partitions: list[Any] = []
            for some in chunks(topic.partitions):
                wanted += [(topic.name, one.partition_index) for one in some]
                partitions += [
                    response.OffsetDeleteResponsePartition(partition_index=one.partition_index)
                    for one in some
                ]
                yield len(some) // _ENTRIES_PER_UNIT
            answers += partitions
            body.topics.append(response.OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        answer = call.answer_later()

        def answered(outcomes: Outcomes) -> None:
            if outcomes.failure is not None:
                body.error_code, body.topics = coordinator_code_of(outcomes.failure), []
            for one, error in zip(answers, outcomes.errors, strict=True):
                if error is not None:
                    one.error_code = coordinator_code_of(error)
            answer(body)

        yield from self._verbs.delete(call.session, request.group_id, wanted, answered)


def _names_partitions(call: Call, error: BrokerError) -> bool:
    """Whether every partition carries the error of the group. The oldest versions have no other place for it. aiokafka
    uses later ones and looks at partitions only: without them, a coordinator that moves would look like a group
    without offsets, and its consumer would lose its position."""
    if call.version < _GROUP_ERROR_FROM:
        return True
    return call.version < _MANY_GROUPS_FROM and isinstance(error, NotNow)


def _commit_code(call: Call, error: BrokerError) -> int:
    older_code = _BEFORE_9.get(type(error)) if call.version < _NEW_CODES_FROM else None
    return coordinator_code_of(error) if older_code is None else int(older_code)


def _partition(call: Call, index: int, found: Committed | BrokerError | None, code: int = 0) -> Any:
    response = messages.OffsetFetchResponse
    many = call.version >= _MANY_GROUPS_FROM
    kind = response.OffsetFetchResponsePartitions if many else response.OffsetFetchResponsePartition
    if isinstance(found, Committed):
        return kind(
            partition_index=index,
            committed_offset=found.offset,
            committed_leader_epoch=found.leader_epoch,
            metadata=found.metadata,
        )
    if found is not None:
        code = coordinator_code_of(found)
    return kind(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_EPOCH,
        metadata="",
        error_code=code,
    )


def _topic(call: Call, name: str, topic_id: bytes, partitions: list[Any]) -> Any:
    response = messages.OffsetFetchResponse
    if call.version < _MANY_GROUPS_FROM:
        return response.OffsetFetchResponseTopic(name=name, partitions=partitions)
    return response.OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)


def _one(call: Call, outcome: tuple[list[Any], int]) -> messages.OffsetFetchResponse:
    topics, code = outcome
    return messages.OffsetFetchResponse(
        topics=topics, error_code=code if call.version >= _GROUP_ERROR_FROM else 0
    )
