"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the protocol with server-side assignment."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.core.errors import BrokerError
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.errors import coordinator_code_of
from penstock.node.runtime.slices import Sliced, once
from penstock.node.waist.group_descriptions import AssignedTopic, ConsumerGroupDescription, ConsumerMember
from penstock.node.waist.groups import JOIN_EPOCH, HeartbeatAnswer, MemberHeartbeat
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, messages

_OWN_ID_FROM = 1
"""First version in which clients choose their member ids."""

_DESCRIBED_MEMBER_UNITS = 4

_NATIVE, _CLASSIC = 1, 0
"""Member types in descriptions: consumer protocol, or classic protocol."""


class ConsumerGroupHandlers:
    """Handlers of consumer group calls."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._verbs = waist.groups

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key."""
        return {
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self.heartbeat,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self.describe,
        }

    def heartbeat(self, call: Call, request: messages.ConsumerGroupHeartbeatRequest) -> None:
        """A member joins, renews its session, acknowledges its assignment or leaves."""
        answer = call.answer_later()

        def answered(outcome: HeartbeatAnswer | BrokerError) -> None:
            answer(_error(outcome) if isinstance(outcome, BrokerError) else _beaten(outcome))

        beat = self._beat(call, request)
        go = partial(self._verbs.beat, call.session, request.group_id, beat, answered)
        if not beat.may_reassign:
            go()
            return
        # One assignment may cover thousands of partitions, so a hundred joins must not run in one loop iteration.
        release_hold = call.connection.hold()

        def done(outcome: Exception | None) -> None:
            release_hold()
            if outcome is not None:
                call.connection.close(f"defect: {outcome!r}")

        self._slices.queue(once(go), done)

    def _beat(self, call: Call, request: messages.ConsumerGroupHeartbeatRequest) -> MemberHeartbeat:
        member_id = request.member_id
        if not member_id and call.version < _OWN_ID_FROM and request.member_epoch == JOIN_EPOCH:
            member_id = self._verbs.new_consumer_id(call.session)
        names, owned = request.subscribed_topic_names, request.topic_partitions
        return MemberHeartbeat(
            member_id=member_id,
            epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            client_id=call.session.client_id or "",
            client_host=f"/{call.session.address}",
            rebalance_ms=request.rebalance_timeout_ms,
            topic_names=None if names is None else tuple(names),
            topic_regex=request.subscribed_topic_regex,
            assignor=request.server_assignor,
            owned=None if owned is None else {one.topic_id: frozenset(one.partitions) for one in owned},
        )

    def describe(self, call: Call, request: messages.ConsumerGroupDescribeRequest) -> Sliced[None]:
        """Groups with their members, current and target assignments."""
        answer = call.answer_later()
        group_ids = list(dict.fromkeys(request.group_ids))
        described: dict[str, Any] = {}

        def collect(group_id: str, outcome: ConsumerGroupDescription | BrokerError) -> None:
            described[group_id] = (
                _refused(group_id, outcome) if isinstance(outcome, BrokerError) else _described(outcome)
            )
            if len(described) == len(group_ids):
                answer(messages.ConsumerGroupDescribeResponse(groups=[described[one] for one in group_ids]))

        if not group_ids:
            answer(messages.ConsumerGroupDescribeResponse(groups=[]))
        for group_id in group_ids:
            self._verbs.describe_consumer(call.session, group_id, partial(collect, group_id))
            yield 1 + _DESCRIBED_MEMBER_UNITS * (
                len(described[group_id].members) if group_id in described else 0
            )


def _described(group: ConsumerGroupDescription) -> messages.ConsumerGroupDescribeResponse.DescribedGroup:
    return messages.ConsumerGroupDescribeResponse.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_described_member(one) for one in group.members],
    )


def _described_member(member: ConsumerMember) -> messages.ConsumerGroupDescribeResponse.Member:
    return messages.ConsumerGroupDescribeResponse.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(member.target),
        member_type=_CLASSIC if member.is_classic else _NATIVE,
    )


def _assignment(topics: list[AssignedTopic]) -> messages.ConsumerGroupDescribeResponse.Assignment:
    response = messages.ConsumerGroupDescribeResponse
    return response.Assignment(
        topic_partitions=[
            response.TopicPartitions(topic_id=one.topic_id, topic_name=one.name, partitions=one.partitions)
            for one in topics
        ]
    )


def _beaten(outcome: HeartbeatAnswer) -> messages.ConsumerGroupHeartbeatResponse:
    response = messages.ConsumerGroupHeartbeatResponse
    assignment = None
    if outcome.assignment is not None:
        assignment = response.Assignment(
            topic_partitions=[
                response.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(outcome.assignment.items())
            ]
        )
    return response(
        member_id=outcome.member_id,
        member_epoch=outcome.epoch,
        heartbeat_interval_ms=outcome.heartbeat_ms,
        assignment=assignment,
    )


def _error(error: BrokerError) -> messages.ConsumerGroupHeartbeatResponse:
    return messages.ConsumerGroupHeartbeatResponse(
        error_code=coordinator_code_of(error), error_message=str(error)
    )


def _refused(group_id: str, error: BrokerError) -> messages.ConsumerGroupDescribeResponse.DescribedGroup:
    return messages.ConsumerGroupDescribeResponse.DescribedGroup(
        group_id=group_id, error_code=coordinator_code_of(error), error_message=str(error), members=[]
    )
