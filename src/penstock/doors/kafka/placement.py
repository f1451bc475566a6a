"""Where partitions and the cluster's metadata live, as tools ask and try to change it: all of it is on this one node.

With one replica of everything, a leader is where it should be, nothing is ever being moved, and the quorum is the node
itself. Never changes anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import BrokerError, InvalidAssignment, UnknownTopic, words_of
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.changes import check_count
from penstock.doors.kafka.errors import code_of
from penstock.node.addresses import Address
from penstock.node.broker import Broker
from penstock.wire.kafka import ApiKey, ErrorCode, messages

METADATA_TOPIC = "__cluster_metadata"
LISTENER = "PLAINTEXT"

_PREFERRED, _UNCLEAN = 0, 1
_NODES_FROM = 2
"""The first version of DescribeQuorum that says where the voters listen."""
_OFFLINE = {
    _PREFERRED: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    _UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}
_Outcome = tuple[int, str | None]


class PlacementHandlers:
    """Answers the calls about reassignments, elections, the quorum and registered brokers."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.advertised = Address(broker.settings.host, broker.settings.port)
        """Where clients are told to connect to; the door says so once it listens."""

    def handlers(self) -> dict[int, Handler]:
        """Who answers what."""
        return {
            ApiKey.ELECT_LEADERS: self.elect_leaders,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self.alter_partition_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self.list_partition_reassignments,
            ApiKey.DESCRIBE_QUORUM: self.describe_quorum,
            ApiKey.UNREGISTER_BROKER: self.unregister_broker,
        }

    # -- reassignments

    def list_partition_reassignments(
        self, call: Call, request: messages.ListPartitionReassignmentsRequest
    ) -> messages.ListPartitionReassignmentsResponse:
        return messages.ListPartitionReassignmentsResponse(error_message=None, topics=[])

    def alter_partition_reassignments(
        self, call: Call, request: messages.AlterPartitionReassignmentsRequest
    ) -> messages.AlterPartitionReassignmentsResponse:
        """A partition may be put where it is already; there is no other place, and no move to cancel."""
        response = messages.AlterPartitionReassignmentsResponse
        try:
            check_count(sum(len(topic.partitions) for topic in request.topics))
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=words_of(error), responses=[])
        answers = []
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                code, words = self._reassign(topic.name, one.partition_index, one.replicas)
                partitions.append(
                    response.ReassignablePartitionResponse(
                        partition_index=one.partition_index, error_code=code, error_message=words
                    )
                )
            answers.append(response.ReassignableTopicResponse(name=topic.name, partitions=partitions))
        return response(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
            responses=answers,
        )

    def _reassign(self, topic: str, index: int, replicas: Sequence[int] | None) -> _Outcome:
        try:
            if not self._broker.row(topic):
                raise UnknownTopic(f"Unable to find a topic named {topic}.")
            if not 0 <= index < len(self._broker.row(topic)):
                raise UnknownTopic(f"Unable to find partition {topic}:{index}.")
            if replicas is None:
                return int(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS), None
            self._check_replicas(replicas)
        except BrokerError as error:
            return code_of(error), words_of(error)
        return 0, None

    def _check_replicas(self, replicas: Sequence[int]) -> None:
        if not replicas:
            raise InvalidAssignment("The manual partition assignment includes an empty replica list.")
        for broker_id in sorted(replicas):
            if broker_id != self._broker.identity.node_id:
                raise InvalidAssignment(
                    f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
                )
        if len(replicas) > 1:
            raise InvalidAssignment(
                f"The manual partition assignment includes the broker {replicas[0]} more than once."
            )

    # -- elections

    def elect_leaders(
        self, call: Call, request: messages.ElectLeadersRequest
    ) -> messages.ElectLeadersResponse:
        """Every partition that is online is led by its only replica, so no election is needed."""
        response, named = messages.ElectLeadersResponse, self._elections(request)
        try:
            check_count(sum(len(indexes) for _, indexes in named))
        except BrokerError as error:
            return response(error_code=code_of(error), replica_election_results=[])
        results = []
        for topic, indexes in named:
            partitions = []
            for index in indexes:
                code, words = self._elect(topic, index, request.election_type)
                partitions.append(
                    response.PartitionResult(partition_id=index, error_code=code, error_message=words)
                )
            results.append(response.ReplicaElectionResult(topic=topic, partition_result=partitions))
        is_known = request.election_type in _OFFLINE
        code = 0 if is_known else int(ErrorCode.INVALID_REQUEST)
        return response(error_code=code, replica_election_results=results)

    def _elections(self, request: messages.ElectLeadersRequest) -> list[tuple[str, list[int]]]:
        """The partitions asked for by topic; of all partitions only those that are offline matter."""
        if request.topic_partitions is not None:
            return [(one.topic, one.partitions) for one in request.topic_partitions]
        return [
            (topic.name, [one.index for one in self._broker.row(topic.name) if one.failure is not None])
            for topic in self._broker.catalog.topics
        ]

    def _elect(self, topic: str, index: int, kind: int) -> _Outcome:
        if kind not in _OFFLINE:
            return int(ErrorCode.INVALID_REQUEST), f"Unknown election type {kind}"
        row = self._broker.row(topic)
        if not row:
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), f"No such topic as {topic}"
        if not 0 <= index < len(row):
            return int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), f"No such partition as {topic}-{index}"
        if row[index].failure is not None:
            code, words = _OFFLINE[kind]
            return int(code), words
        return int(ErrorCode.ELECTION_NOT_NEEDED), "Leader election not needed for topic partition."

    # -- the cluster

    def describe_quorum(
        self, call: Call, request: messages.DescribeQuorumRequest
    ) -> messages.DescribeQuorumResponse:
        """The metadata log has one voter, which is this node."""
        response = messages.DescribeQuorumResponse
        try:
            check_count(sum(len(topic.partitions) for topic in request.topics))
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=words_of(error), topics=[], nodes=[])
        topics, is_found = [], False
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                is_own = (topic.topic_name, one.partition_index) == (METADATA_TOPIC, 0)
                is_found |= is_own
                partitions.append(self._quorum() if is_own else _no_quorum(one.partition_index))
            topics.append(response.TopicData(topic_name=topic.topic_name, partitions=partitions))
        nodes = []
        if is_found and call.version >= _NODES_FROM:
            listener = response.Listener(name=LISTENER, host=self.advertised.host, port=self.advertised.port)
            nodes = [response.Node(node_id=self._broker.identity.node_id, listeners=[listener])]
        return response(error_message="", topics=topics, nodes=nodes)

    def _quorum(self) -> messages.DescribeQuorumResponse.PartitionData:
        response, identity = messages.DescribeQuorumResponse, self._broker.identity
        now_ms, end = self._broker.runtime.clock.now_ms(), self._broker.metadata_end
        voter = response.ReplicaState(
            replica_id=identity.node_id,
            log_end_offset=end,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        return response.PartitionData(
            partition_index=0,
            error_message="",
            leader_id=identity.node_id,
            leader_epoch=identity.leader_epoch,
            high_watermark=end,
            current_voters=[voter],
            observers=[],
        )

    def unregister_broker(
        self, call: Call, request: messages.UnregisterBrokerRequest
    ) -> messages.UnregisterBrokerResponse:
        """Only this broker is registered, and it stays: without it there would be no cluster."""
        response = messages.UnregisterBrokerResponse
        if request.broker_id != self._broker.identity.node_id:
            return response(
                error_code=int(ErrorCode.BROKER_ID_NOT_REGISTERED),
                error_message=f"Broker ID {request.broker_id} is not currently registered",
            )
        return response(
            error_code=int(ErrorCode.INVALID_REQUEST),
            error_message=f"broker {request.broker_id} is the only broker of this cluster, so it stays registered",
        )


def _no_quorum(index: int) -> messages.DescribeQuorumResponse.PartitionData:
    return messages.DescribeQuorumResponse.PartitionData(
        partition_index=index,
        error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        error_message="This server does not host this topic-partition.",
        current_voters=[],
        observers=[],
    )
