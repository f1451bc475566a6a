"""ConsumerGroupHeartbeat and ConsumerGroupDescribe call by call: the numbers that Kafka answers with, per version."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from compat.raw import RawConnection
from penstock.wire.kafka import ApiKey, ErrorCode, decode_response, encode_request, messages

SIZE_BYTES = 4


class Caller:
    """Heartbeats over one socket."""

    def __init__(self, raw: RawConnection, topic: str) -> None:
        self._raw = raw
        self.topic = topic
        self.group = f"group-{uuid.uuid4().hex[:8]}"

    def call(self, key: ApiKey, version: int, body: Any, group: str | None = None) -> Any:
        """Ask the coordinator of a group, the caller's own unless another is named."""
        self._raw.go(ApiKey.CONSUMER_GROUP_HEARTBEAT, {"group_id": group or self.group})
        self._raw.send_bytes(encode_request(key, version, 1, "caller", body))
        return decode_response(key, version, self._raw.receive_frame())[1]

    def beat(self, member_id: str, epoch: int, version: int = 1, **said: Any) -> Any:
        values = {"group_id": self.group, "member_id": member_id, "member_epoch": epoch, **said}
        return self.call(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, version, messages.ConsumerGroupHeartbeatRequest(**values)
        )

    def join(self, member_id: str, version: int = 1, **said: Any) -> Any:
        values = {
            "rebalance_timeout_ms": 1_000,
            "subscribed_topic_names": [self.topic],
            "topic_partitions": [],
            **said,
        }
        return self.beat(member_id, 0, version, **values)

    def describe(self, group: str, version: int = 1) -> Any:
        body = messages.ConsumerGroupDescribeRequest(group_ids=[group])
        (described,) = self.call(ApiKey.CONSUMER_GROUP_DESCRIBE, version, body, group).groups
        return described


@pytest.fixture
def caller(raw: RawConnection, new_topic: Any) -> Iterator[Caller]:
    caller = Caller(raw, new_topic(partitions=3))
    found = messages.FindCoordinatorRequest(key=caller.group)
    assert caller.call(ApiKey.FIND_COORDINATOR, 3, found).error_code == 0
    yield caller


def test_the_broker_chooses_the_id_in_version_0_and_the_client_in_version_1(caller: Caller) -> None:
    chosen = caller.join("", version=0)
    assert chosen.error_code == 0
    assert len(chosen.member_id) == 36
    assert (chosen.member_epoch, chosen.heartbeat_interval_ms) == (1, 5_000)
    assert [sorted(one.partitions) for one in chosen.assignment.topic_partitions] == [[0, 1, 2]]
    assert caller.join("").error_code == ErrorCode.INVALID_REQUEST
    own = str(uuid.uuid4())
    assert (caller.join(own).member_id, caller.join(own).error_code) == (own, 0)


def test_each_wrong_heartbeat_has_its_own_error(caller: Caller) -> None:
    assert caller.beat("m", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert caller.join("m", instance_id="i").member_epoch == 1
    wrong = {
        ErrorCode.UNKNOWN_MEMBER_ID: caller.beat("stranger", 1),
        ErrorCode.FENCED_MEMBER_EPOCH: caller.beat("m", 9, instance_id="i"),
        ErrorCode.UNRELEASED_INSTANCE_ID: caller.join("other", instance_id="i"),
        ErrorCode.FENCED_INSTANCE_ID: caller.beat("other", 1, instance_id="i"),
        ErrorCode.UNSUPPORTED_ASSIGNOR: caller.join("x", server_assignor="none"),
        ErrorCode.INVALID_REGULAR_EXPRESSION: caller.join("x", subscribed_topic_regex="("),
        ErrorCode.INVALID_REQUEST: caller.join("x", rebalance_timeout_ms=-1),
    }
    assert {code: answer.error_code for code, answer in wrong.items()} == {code: code for code in wrong}
    assert all(answer.error_message for answer in wrong.values())
    described = caller.describe(caller.group)
    assert [one.member_id for one in described.members] == ["m"], "what was refused has changed nothing"
    caller.group = ""
    assert caller.join("m").error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [0, 1])
def test_a_description_tells_what_each_member_has_and_is_to_have(caller: Caller, version: int) -> None:
    caller.join("m1", subscribed_topic_regex="no-such-.*")
    caller.join("m2")
    found, missing = (caller.describe(group, version) for group in (caller.group, "no-group"))
    assert (missing.error_code, missing.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, "no-group")
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Reconciling", 2, 2)
    assert found.assignor_name == "uniform"
    first, second = found.members
    assert (first.member_id, first.member_epoch, first.subscribed_topic_regex) == ("m1", 1, "no-such-.*")
    (held,) = first.assignment.topic_partitions
    assert (held.topic_name, sorted(held.partitions)) == (caller.topic, [0, 1, 2])
    assert second.assignment.topic_partitions == []
    (wanted,) = second.target_assignment.topic_partitions
    assert len(wanted.partitions) == 1
    if version >= 1:
        assert (first.member_type, second.member_type) == (1, 1)


def commit(caller: Caller, member_id: str, epoch: int, version: int = 9) -> int:
    request = messages.OffsetCommitRequest
    body = request(
        group_id=caller.group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[
            request.OffsetCommitRequestTopic(
                name=caller.topic,
                partitions=[request.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)],
            )
        ],
    )
    answer = caller.call(ApiKey.OFFSET_COMMIT, version, body)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def test_commits_are_fenced_by_the_members_epoch(caller: Caller) -> None:
    caller.join("m")
    assert commit(caller, "m", 1) == 0
    assert commit(caller, "m", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(caller, "m", 2, version=8) == ErrorCode.UNSUPPORTED_VERSION, "it knows no epochs of members"
    assert commit(caller, "stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert caller.beat("m", -1).error_code == 0
    assert commit(caller, "", -1) == 0, "an empty group takes commits from outside"


def test_a_group_of_another_kind_makes_room_once_it_is_empty(caller: Caller) -> None:
    caller.join("m")
    caller.beat("m", -1)
    protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol(name="any", metadata=b"opaque")
    joining = messages.JoinGroupRequest(
        group_id=caller.group, session_timeout_ms=10_000, protocol_type="connect", protocols=[protocol]
    )
    joined = caller.call(ApiKey.JOIN_GROUP, 3, joining)
    assert joined.error_code == 0
    assert caller.join("m").error_code == ErrorCode.GROUP_ID_NOT_FOUND, "it has members that are no consumers"
    leaving = messages.LeaveGroupRequest(group_id=caller.group, member_id=joined.member_id)
    assert caller.call(ApiKey.LEAVE_GROUP, 2, leaving).error_code == 0
    assert caller.join("m").error_code == 0
