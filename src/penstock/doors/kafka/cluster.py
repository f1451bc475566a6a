"""Metadata and the describe calls.

What there is and where. Creates a topic only where Kafka's clients expect it to be created.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from penstock.core.errors import BrokerError, InvalidRequest, TopicExists, UnknownTopic
from penstock.core.limits import AUTO_CREATED_TOPICS_MAX, DESCRIBED_PARTITIONS_MAX
from penstock.core.machines.catalog_events import Topic
from penstock.core.model import check_topic_name
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import code_of
from penstock.node.addresses import Address
from penstock.node.broker import Broker
from penstock.node.partition import Partition
from penstock.node.slices import Pace, Sliced, chunks
from penstock.wire.kafka import ErrorCode, messages

_NO_ID = bytes(16)
_EMPTY_MEANS_ALL = 0
"""In this version of Metadata an empty list asks for all topics; later ones say null."""
_CREATES_ALWAYS_BEFORE = 4
_BY_ID_FROM = 12
_BROKER_ENDPOINTS = 1
_TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, write, create, delete, alter, describe, describe configs, alter configs: everybody may, there are no ACLs."""
_CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
_NOT_ASKED = -(2**31)


class ClusterHandlers:
    """Answers questions about the cluster of one."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.advertised = Address("", 0)

    # -- Metadata

    def metadata(
        self, call: Call, request: messages.MetadataRequest
    ) -> Sliced[messages.MetadataResponse] | Coroutine[Any, Any, messages.MetadataResponse]:
        """The broker, and the topics asked for.

        Topics that are not there are created if client and settings want that.
        """
        if request.topics is None or (call.version == _EMPTY_MEANS_ALL and not request.topics):
            return self._answer_all(call, request)
        may_create = request.allow_auto_topic_creation or call.version < _CREATES_ALWAYS_BEFORE
        if may_create and self._broker.settings.auto_create_topics:
            find = self._broker.catalog.find
            if any(one.name is not None and find(one.name) is None for one in request.topics):
                return self._create_and_answer(call, request)
        return self._answer(call, request, {})

    async def _create_and_answer(
        self, call: Call, request: messages.MetadataRequest
    ) -> messages.MetadataResponse:
        """Create what is missing, one topic after the other."""
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
                await self._broker.auto_create_topic(name)
            except TopicExists:
                continue
            except BrokerError as failure:
                failures[name] = failure
        return await self._broker.runtime.slices.run(self._answer(call, request, failures))

    def _answer(
        self, call: Call, request: messages.MetadataRequest, failures: dict[str, BrokerError]
    ) -> Sliced[messages.MetadataResponse]:
        answers = []
        assert request.topics is not None
        for one in request.topics:
            name, topic, error = self._find(call, one)
            if topic is not None:
                answers.append((yield from self._known(topic, request)))
            else:
                assert error is not None
                answers.append(_unknown(call, name, one.topic_id, failures.get(name or "", error)))
                yield 1
        return self._metadata(call, request, answers)

    def _answer_all(self, call: Call, request: messages.MetadataRequest) -> Sliced[messages.MetadataResponse]:
        answers = []
        for topic in self._broker.catalog.topics:
            answers.append((yield from self._known(topic, request)))
        return self._metadata(call, request, answers)

    def _find(
        self, call: Call, one: messages.MetadataRequest.MetadataRequestTopic
    ) -> tuple[str | None, Topic | None, BrokerError | None]:
        """(name asked for, the topic, or why there is none)."""
        try:
            if call.version < _BY_ID_FROM and (one.name is None or one.topic_id != _NO_ID):
                raise InvalidRequest(f"topics are asked for by id from version {_BY_ID_FROM} on")
            if one.name is None or one.topic_id != _NO_ID:
                return None, self._broker.catalog.topic_by_id(one.topic_id), None
            check_topic_name(one.name)
            return one.name, self._broker.catalog.topic(one.name), None
        except BrokerError as error:
            return one.name, None, error

    def _metadata(
        self,
        call: Call,
        request: messages.MetadataRequest,
        topics: list[messages.MetadataResponse.MetadataResponseTopic],
    ) -> messages.MetadataResponse:
        identity, address = self._broker.identity, self.advertised
        response = messages.MetadataResponse
        return response(
            brokers=[
                response.MetadataResponseBroker(
                    node_id=identity.node_id, host=address.host, port=address.port
                )
            ],
            cluster_id=identity.cluster_id,
            controller_id=identity.node_id,
            topics=topics,
            cluster_authorized_operations=(
                _CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else _NOT_ASKED
            ),
        )

    def _known(
        self, topic: Topic, request: messages.MetadataRequest
    ) -> Sliced[messages.MetadataResponse.MetadataResponseTopic]:
        response = messages.MetadataResponse
        partitions: list[Any] = []
        for some in chunks(self._broker.row(topic.name)):
            partitions += [response.MetadataResponsePartition(**self._place(one)) for one in some]
            yield 1 + len(some)
        is_open = len(partitions) >= topic.partition_count
        return response.MetadataResponseTopic(
            error_code=0 if is_open else int(ErrorCode.LEADER_NOT_AVAILABLE),
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.internal,
            partitions=partitions,
            topic_authorized_operations=_TOPIC_OPERATIONS
            if request.include_topic_authorized_operations
            else _NOT_ASKED,
        )

    def _place(self, partition: Partition) -> dict[str, Any]:
        """Who leads a partition and who holds it; a partition whose disk failed has nobody."""
        here = [self._broker.identity.node_id]
        is_online = partition.failure is None
        return {
            "error_code": 0 if is_online else int(ErrorCode.LEADER_NOT_AVAILABLE),
            "partition_index": partition.index,
            "leader_id": here[0] if is_online else -1,
            "leader_epoch": partition.leader_epoch,
            "replica_nodes": here,
            "isr_nodes": here if is_online else [],
            "offline_replicas": [] if is_online else here,
        }

    # -- describe

    def describe_cluster(
        self, call: Call, request: messages.DescribeClusterRequest
    ) -> messages.DescribeClusterResponse:
        identity, address = self._broker.identity, self.advertised
        response = messages.DescribeClusterResponse
        if request.endpoint_type != _BROKER_ENDPOINTS:
            return response(
                error_code=int(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
                error_message="there are no separate controllers here: ask for brokers (endpoint type 1)",
                cluster_id=identity.cluster_id,
                brokers=[],
            )
        return response(
            cluster_id=identity.cluster_id,
            controller_id=identity.node_id,
            brokers=[
                response.DescribeClusterBroker(
                    broker_id=identity.node_id, host=address.host, port=address.port
                )
            ],
            cluster_authorized_operations=(
                _CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else _NOT_ASKED
            ),
        )

    def describe_topic_partitions(
        self, call: Call, request: messages.DescribeTopicPartitionsRequest
    ) -> Sliced[messages.DescribeTopicPartitionsResponse]:
        """Topics with their partitions, in pages: at most so many partitions, and where to go on."""
        response = messages.DescribeTopicPartitionsResponse
        left = min(max(1, request.response_partition_limit), DESCRIBED_PARTITIONS_MAX)
        cursor = request.cursor
        start = (cursor.topic_name, max(0, cursor.partition_index)) if cursor else ("", 0)
        topics, next_cursor = [], None
        for name in sorted(self._names(request)):
            if name < start[0]:
                continue
            first = start[1] if name == start[0] else 0
            if not left:
                next_cursor = response.Cursor(topic_name=name, partition_index=first)
                break
            topic = self._describe_topic(name, first, left)
            topics.append(topic)
            yield 1 + len(topic.partitions)
            left -= len(topic.partitions)
            found = self._broker.catalog.find(name)
            if found is not None and first + len(topic.partitions) < found.partition_count:
                next_cursor = response.Cursor(topic_name=name, partition_index=first + len(topic.partitions))
                break
        return response(topics=topics, next_cursor=next_cursor)

    def _names(self, request: messages.DescribeTopicPartitionsRequest) -> Iterable[str]:
        if request.topics:
            return dict.fromkeys(one.name for one in request.topics)
        return [topic.name for topic in self._broker.catalog.topics]

    def _describe_topic(
        self, name: str, first: int, count: int
    ) -> messages.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic:
        response = messages.DescribeTopicPartitionsResponse
        try:
            topic = self._broker.catalog.topic(check_topic_name(name))
        except BrokerError as error:
            return response.DescribeTopicPartitionsResponseTopic(
                error_code=code_of(error), name=name, topic_id=_NO_ID, partitions=[]
            )
        return response.DescribeTopicPartitionsResponseTopic(
            error_code=0,
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.internal,
            partitions=[
                response.DescribeTopicPartitionsResponsePartition(
                    **self._place(one), eligible_leader_replicas=[], last_known_elr=[]
                )
                for one in self._broker.row(topic.name)[first : first + count]
            ],
            topic_authorized_operations=_TOPIC_OPERATIONS,
        )

    def describe_log_dirs(
        self, call: Call, request: messages.DescribeLogDirsRequest
    ) -> Sliced[messages.DescribeLogDirsResponse]:
        """The one data directory, and what the partitions asked for take up in it."""
        response = messages.DescribeLogDirsResponse
        wanted: dict[str, Sequence[int]] = {
            topic.name: range(topic.partition_count) for topic in self._broker.catalog.topics
        }
        if request.topics is not None:
            wanted = {one.topic: one.partitions for one in request.topics}
        topics = []
        for name, indexes in wanted.items():
            sizes: list[Any] = []
            for some in chunks(indexes):
                sizes += [self._size(name, index) for index in some]
                yield 1 + len(some)
            topics.append(
                response.DescribeLogDirsTopic(name=name, partitions=[one for one in sizes if one is not None])
            )
        total_bytes, usable_bytes = self._broker.runtime.files.space()
        directory = response.DescribeLogDirsResult(
            error_code=0,
            log_dir=self._broker.data_directory,
            topics=[topic for topic in topics if topic.partitions],
            total_bytes=total_bytes,
            usable_bytes=usable_bytes,
        )
        return response(results=[directory])

    def _size(
        self, name: str, index: int
    ) -> messages.DescribeLogDirsResponse.DescribeLogDirsPartition | None:
        try:
            partition = self._broker.partition(name, index)
        except UnknownTopic:
            return None
        return messages.DescribeLogDirsResponse.DescribeLogDirsPartition(
            partition_index=index, partition_size=partition.log.size(), offset_lag=0, is_future_key=False
        )


def _unknown(
    call: Call, name: str | None, topic_id: bytes, error: BrokerError
) -> messages.MetadataResponse.MetadataResponseTopic:
    if name is None and call.version < _BY_ID_FROM:
        name = ""
    return messages.MetadataResponse.MetadataResponseTopic(
        error_code=code_of(error), name=name, topic_id=topic_id, partitions=[]
    )
