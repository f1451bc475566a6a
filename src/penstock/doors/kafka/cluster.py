"""Metadata, DescribeCluster, DescribeTopicPartitions and DescribeLogDirs.

Metadata creates missing topics where Kafka clients expect it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable, Sequence
from itertools import islice
from typing import Any

from penstock.core.access import CLUSTER, Resource, topic_resource
from penstock.core.errors import BrokerError, InvalidRequest, TopicExists, UnknownTopic
from penstock.core.limits import AUTO_CREATED_TOPICS_MAX, DESCRIBED_PARTITIONS_MAX
from penstock.core.model import check_topic_name
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.errors import code_of
from penstock.node.runtime.slices import CHUNK, Pace, Sliced, chunks
from penstock.node.waist.topics import NO_ID, PartitionState, Topic
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, ErrorCode, messages

_EMPTY_MEANS_ALL = 0
"""In this version of Metadata an empty list means all topics; later versions use null."""
_CREATES_ALWAYS_BEFORE = 4
_BY_ID_FROM = 12
_BROKER_ENDPOINTS = 1
_NOT_REQUESTED = -(2**31)


class ClusterHandlers:
    """Handlers of metadata and describe calls."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._authorization = waist.authorization
        self._cluster = waist.cluster
        self._topics = waist.topics

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key."""
        return {
            ApiKey.METADATA: self.metadata,
            ApiKey.DESCRIBE_CLUSTER: self.describe_cluster,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: self.describe_topic_partitions,
            ApiKey.DESCRIBE_LOG_DIRS: self.describe_log_dirs,
        }

    def _operations(self, call: Call, resource: Resource) -> int:
        """The operations that the client may perform on a resource, as Kafka's bit field."""
        return sum(1 << one for one in self._authorization.allowed_operations(call.session, resource))

    # -- Metadata

    def metadata(
        self, call: Call, request: messages.MetadataRequest
    ) -> Sliced[messages.MetadataResponse] | Coroutine[Any, Any, messages.MetadataResponse]:
        """The brokers and the requested topics.

        Missing topics are created if the client and the settings allow it.
        """
        if self._cluster.has_suspects:
            return self._answer_later(call, request)
        return self._answer_now(call, request)

    async def _answer_later(self, call: Call, request: messages.MetadataRequest) -> messages.MetadataResponse:
        """Answer once it is known which brokers are alive."""
        await self._cluster.suspense(call.session)
        answer = self._answer_now(call, request)
        return await (self._slices.run(answer) if isinstance(answer, Generator) else answer)

    def _answer_now(
        self, call: Call, request: messages.MetadataRequest
    ) -> Sliced[messages.MetadataResponse] | Coroutine[Any, Any, messages.MetadataResponse]:
        if request.topics is None or (call.version == _EMPTY_MEANS_ALL and not request.topics):
            return self._answer_all(call, request)
        may_create = request.allow_auto_topic_creation or call.version < _CREATES_ALWAYS_BEFORE
        if may_create and self._topics.are_created_on_demand:
            is_missing = self._topics.is_missing
            if any(one.name is not None and is_missing(call.session, one.name) for one in request.topics):
                return self._create_and_answer(call, request)
        return self._answer(call, request, {})

    async def _create_and_answer(
        self, call: Call, request: messages.MetadataRequest
    ) -> messages.MetadataResponse:
        """Create the missing topics, one after the other."""
        failures: dict[str, BrokerError] = {}
        pace, left = Pace(), AUTO_CREATED_TOPICS_MAX
        assert request.topics is not None
        for one in request.topics:
            await pace.spend(1)
            name, _, error = self._find(call, one)
            if name is None or name in failures or not isinstance(error, UnknownTopic) or not left:
                continue
            left -= 1
            try:
                await self._topics.create_on_demand(call.session, name)
            except TopicExists:
                continue
            except BrokerError as failure:
                failures[name] = failure
        return await self._slices.run(self._answer(call, request, failures))

    def _answer(
        self, call: Call, request: messages.MetadataRequest, failures: dict[str, BrokerError]
    ) -> Sliced[messages.MetadataResponse]:
        answers = []
        assert request.topics is not None
        for one in request.topics:
            name, topic, error = self._find(call, one)
            if topic is not None:
                answers.append((yield from self._known(call, topic, request)))
            else:
                assert error is not None
                answers.append(_unknown(call, name, one.topic_id, failures.get(name or "", error)))
                yield 1
        return self._metadata(call, request, answers)

    def _answer_all(self, call: Call, request: messages.MetadataRequest) -> Sliced[messages.MetadataResponse]:
        answers = []
        for topic in self._topics.all(call.session):
            answers.append((yield from self._known(call, topic, request)))
        return self._metadata(call, request, answers)

    def _find(
        self, call: Call, one: messages.MetadataRequest.MetadataRequestTopic
    ) -> tuple[str | None, Topic | None, BrokerError | None]:
        """(requested name, topic, error)."""
        try:
            if call.version < _BY_ID_FROM and (one.name is None or one.topic_id != NO_ID):
                raise InvalidRequest(f"topic ids are supported from version {_BY_ID_FROM} on")
            if one.name is None or one.topic_id != NO_ID:
                return None, self._topics.get(call.session, one.topic_id), None
            check_topic_name(one.name)
            return one.name, self._topics.get(call.session, one.name), None
        except BrokerError as error:
            return one.name, None, error

    def _metadata(
        self,
        call: Call,
        request: messages.MetadataRequest,
        topics: list[messages.MetadataResponse.MetadataResponseTopic],
    ) -> messages.MetadataResponse:
        response = messages.MetadataResponse
        cluster = self._cluster.describe(call.session, with_leaving=True)
        is_requested = request.include_cluster_authorized_operations
        return response(
            brokers=[
                response.MetadataResponseBroker(node_id=one.id, host=one.host, port=one.port, rack=one.rack)
                for one in cluster.brokers
            ],
            cluster_id=cluster.cluster_id,
            controller_id=cluster.controller_id,
            topics=topics,
            cluster_authorized_operations=self._operations(call, CLUSTER) if is_requested else _NOT_REQUESTED,
        )

    def _known(
        self, call: Call, topic: Topic, request: messages.MetadataRequest
    ) -> Sliced[messages.MetadataResponse.MetadataResponseTopic]:
        response = messages.MetadataResponse
        partitions: list[Any] = []
        states = self._topics.states(call.session, topic.name)
        while some := [
            response.MetadataResponsePartition(**_leadership(one)) for one in islice(states, CHUNK)
        ]:
            partitions += some
            yield len(some)
        yield 1
        is_open = len(partitions) >= topic.partition_count
        is_requested = request.include_topic_authorized_operations
        return response.MetadataResponseTopic(
            error_code=0 if is_open else int(ErrorCode.LEADER_NOT_AVAILABLE),
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.internal,
            partitions=partitions,
            topic_authorized_operations=(
                self._operations(call, topic_resource(topic.name)) if is_requested else _NOT_REQUESTED
            ),
        )

    # -- describe

    def describe_cluster(
        self, call: Call, request: messages.DescribeClusterRequest
    ) -> messages.DescribeClusterResponse:
        cluster, response = self._cluster.describe(call.session), messages.DescribeClusterResponse
        if request.endpoint_type != _BROKER_ENDPOINTS:
            return response(
                error_code=int(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
                error_message="this cluster has no separate controllers: use endpoint type 1 (brokers)",
                cluster_id=cluster.cluster_id,
                brokers=[],
            )
        is_requested = request.include_cluster_authorized_operations
        return response(
            cluster_id=cluster.cluster_id,
            controller_id=cluster.controller_id,
            brokers=[
                response.DescribeClusterBroker(broker_id=one.id, host=one.host, port=one.port, rack=one.rack)
                for one in cluster.brokers
            ],
            cluster_authorized_operations=self._operations(call, CLUSTER) if is_requested else _NOT_REQUESTED,
        )

    def describe_topic_partitions(
        self, call: Call, request: messages.DescribeTopicPartitionsRequest
    ) -> Sliced[messages.DescribeTopicPartitionsResponse]:
        """Topics with their partitions, in pages with a limited number of partitions and a cursor."""
        response = messages.DescribeTopicPartitionsResponse
        left = min(max(1, request.response_partition_limit), DESCRIBED_PARTITIONS_MAX)
        cursor = request.cursor
        start = (cursor.topic_name, max(0, cursor.partition_index)) if cursor else ("", 0)
        topics, next_cursor = [], None
        for name in sorted(self._names(call, request)):
            if name < start[0]:
                continue
            first = start[1] if name == start[0] else 0
            if not left:
                next_cursor = response.Cursor(topic_name=name, partition_index=first)
                break
            topic, partition_count = self._describe_topic(call, name, first, left)
            topics.append(topic)
            yield 1 + len(topic.partitions)
            left -= len(topic.partitions)
            if first + len(topic.partitions) < partition_count:
                next_cursor = response.Cursor(topic_name=name, partition_index=first + len(topic.partitions))
                break
        return response(topics=topics, next_cursor=next_cursor)

    def _names(self, call: Call, request: messages.DescribeTopicPartitionsRequest) -> Iterable[str]:
        if request.topics:
            return dict.fromkeys(one.name for one in request.topics)
        return [topic.name for topic in self._topics.all(call.session)]

    def _describe_topic(
        self, call: Call, name: str, first: int, count: int
    ) -> tuple[messages.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic, int]:
        """A topic with some of its partitions, and its number of partitions."""
        response = messages.DescribeTopicPartitionsResponse
        try:
            topic = self._topics.get(call.session, check_topic_name(name))
        except BrokerError as error:
            unknown = response.DescribeTopicPartitionsResponseTopic(
                error_code=code_of(error), name=name, topic_id=NO_ID, partitions=[]
            )
            return unknown, 0
        described = response.DescribeTopicPartitionsResponseTopic(
            error_code=0,
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.internal,
            partitions=[
                response.DescribeTopicPartitionsResponsePartition(
                    **_leadership(one),
                    **self._cluster.eligible(call.session, name, one.partition)._asdict(),
                )
                for one in self._topics.states(call.session, name, first, count)
            ],
            topic_authorized_operations=self._operations(call, topic_resource(name)),
        )
        return described, topic.partition_count

    def describe_log_dirs(
        self, call: Call, request: messages.DescribeLogDirsRequest
    ) -> Sliced[messages.DescribeLogDirsResponse]:
        """The data directory, and the sizes of the requested partitions."""
        response = messages.DescribeLogDirsResponse
        try:
            directory = self._cluster.log_directory(call.session)
        except BrokerError as error:
            return response(error_code=code_of(error), results=[])
        wanted: dict[str, Sequence[int]] = {
            topic.name: range(topic.partition_count) for topic in self._topics.all(call.session)
        }
        if request.topics is not None:
            wanted = {one.topic: one.partitions for one in request.topics}
        topics = []
        for name, indexes in wanted.items():
            sizes: list[Any] = []
            for some in chunks(indexes):
                sizes += [self._size(call, name, index) for index in some]
                yield 1 + len(some)
            topics.append(
                response.DescribeLogDirsTopic(name=name, partitions=[one for one in sizes if one is not None])
            )
        result = response.DescribeLogDirsResult(
            error_code=0,
            log_dir=directory.path,
            topics=[topic for topic in topics if topic.partitions],
            total_bytes=directory.total_bytes,
            usable_bytes=directory.usable_bytes,
        )
        return response(results=[result])

    def _size(
        self, call: Call, name: str, index: int
    ) -> messages.DescribeLogDirsResponse.DescribeLogDirsPartition | None:
        found = self._cluster.replica_size(call.session, name, index)
        if found is None:
            return None
        return messages.DescribeLogDirsResponse.DescribeLogDirsPartition(
            partition_index=index, partition_size=found.size_bytes, offset_lag=found.lag, is_future_key=False
        )


def _leadership(state: PartitionState) -> dict[str, Any]:
    """Leader and replicas of a partition; an offline partition has no leader."""
    return {
        "error_code": 0 if state.leader_id >= 0 else int(ErrorCode.LEADER_NOT_AVAILABLE),
        "partition_index": state.partition,
        "leader_id": state.leader_id,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replica_ids,
        "isr_nodes": state.isr_ids,
        "offline_replicas": state.offline_ids,
    }


def _unknown(
    call: Call, name: str | None, topic_id: bytes, error: BrokerError
) -> messages.MetadataResponse.MetadataResponseTopic:
    if name is None and call.version < _BY_ID_FROM:
        name = ""
    return messages.MetadataResponse.MetadataResponseTopic(
        error_code=code_of(error), name=name, topic_id=topic_id, partitions=[]
    )
