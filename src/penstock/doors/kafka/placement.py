"""Reassignments, elections, the metadata quorum and broker registration."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import BrokerError, message_of
from penstock.core.setting import INT32_MAX
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.checks import check_count
from penstock.doors.kafka.errors import code_of
from penstock.node.waist.cluster import Quorum
from penstock.node.waist.placement import PlacementOutcome, Reassignment
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, ErrorCode, messages

METADATA_TOPIC = "__cluster_metadata"
LISTENER = "PLAINTEXT"

_PREFERRED, _UNCLEAN = 0, 1
_ELECTION_ERROR_FROM = 1
_NODES_FROM = 2
"""First version of DescribeQuorum with the listeners of voters."""
_OFFLINE = {
    _PREFERRED: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    _UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}
_Coded = tuple[int, str | None]


class PlacementHandlers:
    """Handlers of calls about reassignments, elections, the quorum and registered brokers."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.placement
        self._cluster = waist.cluster

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key."""
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
        response = messages.ListPartitionReassignmentsResponse
        topics: dict[str, list[messages.ListPartitionReassignmentsResponse.OngoingPartitionReassignment]] = {}
        named = None
        if request.topics is not None:
            named = [(one.name, one.partition_indexes) for one in request.topics]
        try:
            check_count(sum(len(indexes) for _, indexes in named or ()))
            for one in self._verbs.reassignments(call.session, named):
                topics.setdefault(one.topic, []).append(
                    response.OngoingPartitionReassignment(
                        partition_index=one.partition,
                        replicas=list(one.replica_ids),
                        adding_replicas=list(one.adding_ids),
                        removing_replicas=list(one.removing_ids),
                    )
                )
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=message_of(error), topics=[])
        return response(
            error_message=None,
            topics=[
                response.OngoingTopicReassignment(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    async def alter_partition_reassignments(
        self, call: Call, request: messages.AlterPartitionReassignmentsRequest
    ) -> messages.AlterPartitionReassignmentsResponse:
        """Start, replace or cancel reassignments. The response does not wait until records are copied."""
        response = messages.AlterPartitionReassignmentsResponse
        wanted = [
            Reassignment(topic.name, one.partition_index, one.replicas)
            for topic in request.topics
            for one in topic.partitions
        ]
        try:
            check_count(len(wanted))
            outcomes = iter(await self._verbs.reassign_all(call.session, wanted, request.timeout_ms))
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=message_of(error), responses=[])
        answers = []
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                code, message = _reassigned(next(outcomes))
                partitions.append(
                    response.ReassignablePartitionResponse(
                        partition_index=one.partition_index, error_code=code, error_message=message
                    )
                )
            answers.append(response.ReassignableTopicResponse(name=topic.name, partitions=partitions))
        return response(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
            responses=answers,
        )

    # -- elections

    async def elect_leaders(
        self, call: Call, request: messages.ElectLeadersRequest
    ) -> messages.ElectLeadersResponse:
        named: Sequence[tuple[str, list[int]]] = []
        kind = request.election_type
        try:
            named = self._elections(call, request)
            check_count(sum(len(indexes) for _, indexes in named))
            places = [(topic, index) for topic, indexes in named for index in indexes]
            outcomes = iter(await self._verbs.elect_all(call.session, kind, places, request.timeout_ms))
        except BrokerError as error:
            return _elections_refused(call, named, code_of(error), message_of(error))
        results = [
            _election_results(
                topic, [_election_result(index, *_elected(next(outcomes), kind)) for index in indexes]
            )
            for topic, indexes in named
        ]
        code = 0 if kind in _OFFLINE else int(ErrorCode.INVALID_REQUEST)
        return messages.ElectLeadersResponse(error_code=code, replica_election_results=results)

    def _elections(
        self, call: Call, request: messages.ElectLeadersRequest
    ) -> Sequence[tuple[str, list[int]]]:
        """The requested partitions by topic; without a list, all for which such an election makes sense."""
        if request.topic_partitions is not None:
            return [(one.topic, one.partitions) for one in request.topic_partitions]
        return self._verbs.electable(call.session, request.election_type)

    # -- the cluster

    def describe_quorum(
        self, call: Call, request: messages.DescribeQuorumRequest
    ) -> messages.DescribeQuorumResponse:
        """The metadata log has one voter, which is the controller."""
        response = messages.DescribeQuorumResponse
        try:
            quorum = self._cluster.quorum(call.session)
            check_count(sum(len(topic.partitions) for topic in request.topics))
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=message_of(error), topics=[], nodes=[])
        topics, is_found = [], False
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                is_own = (topic.topic_name, one.partition_index) == (METADATA_TOPIC, 0)
                is_found |= is_own
                partitions.append(_quorum(quorum) if is_own else _no_quorum(one.partition_index))
            topics.append(response.TopicData(topic_name=topic.topic_name, partitions=partitions))
        nodes = []
        voter = self._cluster.find(call.session, quorum.leader_id)
        if voter is not None and is_found and call.version >= _NODES_FROM:
            listener = response.Listener(name=LISTENER, host=voter.host, port=voter.port)
            nodes = [response.Node(node_id=voter.id, listeners=[listener])]
        return response(error_message="", topics=topics, nodes=nodes)

    async def unregister_broker(
        self, call: Call, request: messages.UnregisterBrokerRequest
    ) -> messages.UnregisterBrokerResponse:
        """Only a broker that is stopped and empty can be unregistered."""
        response = messages.UnregisterBrokerResponse
        try:
            await self._cluster.unregister(call.session, request.broker_id)
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=message_of(error))
        return response(error_message=None)


def _reassigned(outcome: PlacementOutcome | BrokerError) -> _Coded:
    if isinstance(outcome, BrokerError):
        return code_of(outcome), message_of(outcome)
    return int(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS) if outcome is PlacementOutcome.NO_MOVE else 0, None


def _elections_refused(
    call: Call, named: Sequence[tuple[str, list[int]]], code: int, message: str | None
) -> messages.ElectLeadersResponse:
    """The first version has no request-level error: every partition carries it."""
    response = messages.ElectLeadersResponse
    if call.version >= _ELECTION_ERROR_FROM:
        return response(error_code=code, replica_election_results=[])
    results = [
        _election_results(topic, [_election_result(index, code, message) for index in indexes])
        for topic, indexes in named
    ]
    return response(replica_election_results=results)


def _election_results(
    topic: str, partitions: list[messages.ElectLeadersResponse.PartitionResult]
) -> messages.ElectLeadersResponse.ReplicaElectionResult:
    return messages.ElectLeadersResponse.ReplicaElectionResult(topic=topic, partition_result=partitions)


def _election_result(
    index: int, code: int, message: str | None
) -> messages.ElectLeadersResponse.PartitionResult:
    return messages.ElectLeadersResponse.PartitionResult(
        partition_id=index, error_code=code, error_message=message
    )


def _elected(outcome: PlacementOutcome | BrokerError, kind: int) -> _Coded:
    if isinstance(outcome, BrokerError):
        return code_of(outcome), message_of(outcome)
    if outcome is PlacementOutcome.DONE:
        return 0, None
    if outcome is PlacementOutcome.OFFLINE:
        code, message = _OFFLINE[kind]
        return int(code), message
    return int(ErrorCode.ELECTION_NOT_NEEDED), "Leader election not needed for topic partition."


def _quorum(quorum: Quorum) -> messages.DescribeQuorumResponse.PartitionData:
    response = messages.DescribeQuorumResponse
    voter = response.ReplicaState(
        replica_id=quorum.leader_id,
        log_end_offset=quorum.end_offset,
        last_fetch_timestamp=quorum.now_ms,
        last_caught_up_timestamp=quorum.now_ms,
    )
    return response.PartitionData(
        partition_index=0,
        error_message="",
        leader_id=quorum.leader_id,
        leader_epoch=quorum.leader_epoch
        & INT32_MAX,  # of a cluster: the number of a session, which is longer
        high_watermark=quorum.end_offset,
        current_voters=[voter],
        observers=[],
    )


def _no_quorum(index: int) -> messages.DescribeQuorumResponse.PartitionData:
    return messages.DescribeQuorumResponse.PartitionData(
        partition_index=index,
        error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        error_message="This server does not host this topic-partition.",
        current_voters=[],
        observers=[],
    )
