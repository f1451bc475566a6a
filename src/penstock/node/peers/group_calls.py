"""Group calls on behalf of a client to the broker that coordinates the group, over links.

Each call travels in an Envelope, as Kafka's brokers forward requests: it carries the client's principal, address and
client id, so that the coordinator checks permissions and describes members as if the client had called it itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from penstock.core.errors import BrokerError, TimedOut, UnknownGroup
from penstock.core.machines.consumer_group.group import HeartbeatAnswer, MemberHeartbeat
from penstock.core.machines.offsets.offsets import NO_OFFSET, Committed
from penstock.core.model import TopicPartition
from penstock.core.session import Session
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import by_topic, sliced
from penstock.wire.kafka import (
    ApiKey,
    KafkaRequest,
    ResponseT,
    api_key_of,
    decode_response,
    encode_request,
    error_from_code,
    error_name,
    messages,
)

CALL_MS_MAX = 5_000
SIZE_BYTES = 4
UNKNOWN_MS = 0
"""The time of a commit: Kafka's protocol does not tell it."""
DEAD = "Dead"
"""The state in which Kafka describes a group that does not exist."""

VERSIONS = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.DESCRIBE_GROUPS: 5,
}
"""The calls that are forwarded, in the version that brokers use among themselves: offsets go by topic name."""


class GroupCoordinatorCall(NamedTuple):
    """Where a call goes, and on whose behalf."""

    links: PeerLinks
    broker_id: int
    session: Session
    client_id: str | None

    async def ask(self, request: KafkaRequest[ResponseT]) -> ResponseT:
        """The coordinator's response. Raises what the link or the envelope failed with."""
        api_key = api_key_of(type(request))
        version = VERSIONS[api_key]
        envelope = messages.EnvelopeRequest(
            request_data=encode_request(api_key, version, 0, self.client_id, request)[SIZE_BYTES:],
            request_principal=self.session.principal.encode(),
            client_host_address=self.session.address.encode(),
        )
        response = await self.links.call(self.broker_id, envelope, timeout_ms=CALL_MS_MAX)
        if response.error_code:
            raise self.error(response.error_code)
        return cast(ResponseT, decode_response(api_key, version, bytes(sliced(response.response_data)))[1])

    def error(self, code: int, message: str | None = None) -> BrokerError:
        """The error that the coordinator answered, in its own words if it sent any."""
        return error_from_code(code, message or f"broker {self.broker_id}: {error_name(code)}")


async def send_heartbeat(call: GroupCoordinatorCall, group_id: str, beat: MemberHeartbeat) -> HeartbeatAnswer:
    """A member joins, renews its session, acknowledges its assignment or leaves. Raises BrokerError."""
    request = messages.ConsumerGroupHeartbeatRequest
    owned = beat.owned
    response = await call.ask(
        request(
            group_id=group_id,
            member_id=beat.member_id,
            member_epoch=beat.epoch,
            instance_id=beat.instance_id,
            rack_id=beat.rack_id,
            rebalance_timeout_ms=beat.rebalance_ms,
            subscribed_topic_names=None if beat.topic_names is None else list(beat.topic_names),
            subscribed_topic_regex=beat.topic_regex,
            server_assignor=beat.assignor,
            topic_partitions=None
            if owned is None
            else [
                request.TopicPartitions(topic_id=topic_id, partitions=sorted(some))
                for topic_id, some in sorted(owned.items())
            ],
        ),
    )
    if response.error_code:
        raise call.error(response.error_code, response.error_message)
    assignment = None
    if response.assignment is not None:
        assignment = {
            bytes(one.topic_id): frozenset(one.partitions) for one in response.assignment.topic_partitions
        }
    return HeartbeatAnswer(
        response.member_id or beat.member_id,
        response.member_epoch,
        response.heartbeat_interval_ms,
        assignment,
    )


async def send_commit(
    call: GroupCoordinatorCall,
    group_id: str,
    by: tuple[str, int, str | None],
    offsets: Sequence[tuple[TopicPartition, int, int, str]],
) -> list[BrokerError | None]:
    """Commit offsets (partition, offset, leader epoch, metadata) as a member (id, epoch, instance id); one outcome for
    each, in their order. Raises BrokerError if the call failed as a whole."""
    request = messages.OffsetCommitRequest
    member_id, member_epoch, instance_id = by
    topics: dict[str, list[Any]] = {}
    for place, offset, leader_epoch, metadata in offsets:
        topics.setdefault(place.topic, []).append(
            request.OffsetCommitRequestPartition(
                partition_index=place.partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
        )
    response = await call.ask(
        request(
            group_id=group_id,
            generation_id_or_member_epoch=member_epoch,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[
                request.OffsetCommitRequestTopic(name=name, partitions=some) for name, some in topics.items()
            ],
        ),
    )
    # A partition may be listed several times; the coordinator answers in the order of the request.
    codes = {
        name: iter([one.error_code for one in topic.partitions])
        for name, topic in zip(topics, response.topics, strict=True)
    }
    outcomes: list[BrokerError | None] = []
    for place, *_ in offsets:
        code = next(codes[place.topic], None)
        if code is None:
            raise TimedOut(
                f"broker {call.broker_id} sent a response that does not match, the outcome is unknown"
            )
        outcomes.append(call.error(code) if code else None)
    return outcomes


async def fetch_committed(
    call: GroupCoordinatorCall, group_id: str, wanted: Sequence[TopicPartition] | None
) -> dict[TopicPartition, Committed | BrokerError | None]:
    """Committed offsets; None fetches all. Raises BrokerError."""
    request = messages.OffsetFetchRequest
    group = request.OffsetFetchRequestGroup(
        group_id=group_id,
        member_id=None,
        member_epoch=-1,
        topics=None
        if wanted is None
        else [
            request.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(wanted).items()
        ],
    )
    response = await call.ask(request(groups=[group], require_stable=False))
    (answer,) = response.groups
    if answer.error_code:
        raise call.error(answer.error_code)
    found: dict[TopicPartition, Committed | BrokerError | None] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            place = TopicPartition(topic.name, one.partition_index)
            if one.error_code:
                found[place] = call.error(one.error_code)
            elif one.committed_offset == NO_OFFSET:
                found[place] = None
            else:
                found[place] = Committed(
                    one.committed_offset, one.committed_leader_epoch, one.metadata or "", UNKNOWN_MS
                )
    return found


async def describe_group(
    call: GroupCoordinatorCall, group_id: str
) -> messages.ConsumerGroupDescribeResponse.DescribedGroup | messages.DescribeGroupsResponse.DescribedGroup:
    """A group of either kind, as Kafka describes it. Raises UnknownGroup."""
    described = await call.ask(messages.ConsumerGroupDescribeRequest(group_ids=[group_id]))
    (consumer,) = described.groups
    if not consumer.error_code:
        return consumer
    error = call.error(consumer.error_code, consumer.error_message)
    if not isinstance(error, UnknownGroup):
        raise error
    response = await call.ask(messages.DescribeGroupsRequest(groups=[group_id]))
    (classic,) = response.groups
    if classic.error_code:
        raise call.error(classic.error_code)
    if classic.group_state == DEAD:
        raise UnknownGroup(f"there is no group {group_id!r}")
    return classic
