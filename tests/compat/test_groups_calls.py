"""The calls of classic groups and committed offsets, in every version and with exact bytes; also the wrong ones.

Traps 7 (offsets of unknown groups), 8 (error codes by version) and 13 (timing of groups) are here. Expectations are
those of Apache Kafka 4.3: the suite can be pointed at it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import (
    JoinGroupRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from compat.group_calls import (
    GROUP,
    SUBSCRIPTION,
    beat,
    committed,
    fetched,
    join_fields,
    joined,
    left,
    neighbours,
    synced,
    topic_id,
)
from compat.raw import RawConnection
from compat.vocabulary import CreateTopic, error_name

READY_TRIES = 100


@pytest.fixture
def coordinator(raw: RawConnection) -> RawConnection:
    """A connection to the coordinator, which answers once somebody has looked for it."""
    for _ in range(READY_TRIES):
        answer = raw.call(FindCoordinatorRequest, 2, key="anybody", key_type=GROUP)
        if answer.error_code == 0 and fetched(raw, 2, "anybody", []).error_code == 0:
            return raw
    raise AssertionError(answer)


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def another(bootstrap: str) -> Iterator[Callable[[], RawConnection]]:
    """Opens more connections: calls that wait would hold up those behind them."""
    opened: list[RawConnection] = []

    def open_one() -> RawConnection:
        opened.append(RawConnection(bootstrap))
        return opened[-1]

    yield open_one
    for one in opened:
        one.__exit__()


# -- who coordinates


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator_in_every_version(coordinator: RawConnection, bootstrap: str, version: int) -> None:
    if version >= 4:
        keys = ["g1", "g2"]
        answer = coordinator.call(FindCoordinatorRequest, version, key_type=GROUP, coordinator_keys=keys)
        found = answer.coordinators
        assert [one.key for one in found] == keys
    else:
        changes = {"key_type": GROUP} if version else {}
        found = [coordinator.call(FindCoordinatorRequest, version, key="g1", **changes)]
    assert {f"{one.host}:{one.port}" for one in found} <= set(bootstrap.split(","))
    assert {one.error_code for one in found} == {0}


def test_there_is_no_coordinator_of_an_unknown_kind(coordinator: RawConnection) -> None:
    answer = coordinator.call(FindCoordinatorRequest, 3, key="g", key_type=9)
    assert error_name(answer.error_code) == "INVALID_REQUEST"


# -- joining


@pytest.mark.parametrize("version", range(10))
def test_a_member_lives_through_every_version(coordinator: RawConnection, group: str, version: int) -> None:
    """Join, sync, beat, leave: each in the version that goes with that of the join."""
    member = joined(coordinator, version, group)
    assert member.error_code == 0
    assert (member.generation_id, member.leader, member.protocol_name) == (1, member.member_id, "range")
    assert [(one.member_id, one.metadata) for one in member.members] == [(member.member_id, SUBSCRIPTION)]
    assert synced(coordinator, min(version, 5), group, member).assignment == b"all of it"
    assert beat(coordinator, min(version, 4), group, member) == error_name(0)
    assert set(left(coordinator, min(version, 5), group, member.member_id)) == {error_name(0)}
    assert beat(coordinator, min(version, 4), group, member) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("version", [4, 9])
def test_13_a_new_member_must_come_back_with_the_id_it_is_given(
    coordinator: RawConnection, group: str, version: int
) -> None:
    answer = coordinator.call(JoinGroupRequest, version, **join_fields(version, group))
    assert error_name(answer.error_code) == "MEMBER_ID_REQUIRED"
    assert answer.member_id.startswith("compat-raw-")
    other = coordinator.call(JoinGroupRequest, version, **join_fields(version, group, "made-up"))
    assert error_name(other.error_code) == "UNKNOWN_MEMBER_ID"


def test_13_static_members_and_old_clients_need_not_come_back(coordinator: RawConnection, group: str) -> None:
    answer = coordinator.call(JoinGroupRequest, 5, **join_fields(5, group, group_instance_id="one"))
    assert answer.error_code == 0 and answer.member_id.startswith("one-")
    assert coordinator.call(JoinGroupRequest, 3, **join_fields(3, f"{group}-old")).error_code == 0


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001])
def test_13_a_session_out_of_bounds_is_refused(
    coordinator: RawConnection, group: str, session_ms: int
) -> None:
    answer = joined(coordinator, 4, group, session_timeout_ms=session_ms)
    assert error_name(answer.error_code) == "INVALID_SESSION_TIMEOUT"


def test_a_member_that_shares_no_protocol_is_refused(coordinator: RawConnection, group: str) -> None:
    joined(coordinator, 5, group)
    for changes in ({"protocols": [{"name": "other", "metadata": b""}]}, {"protocol_type": "connect"}):
        answer = joined(coordinator, 5, group, **changes)
        assert error_name(answer.error_code) == "INCONSISTENT_GROUP_PROTOCOL"


def test_an_empty_group_id_is_refused(coordinator: RawConnection) -> None:
    assert error_name(joined(coordinator, 5, "").error_code) == "INVALID_GROUP_ID"


def test_13_a_followers_sync_waits_for_the_leaders(
    coordinator: RawConnection, another: Callable[[], RawConnection], group: str
) -> None:
    lines = [coordinator, another()]
    ids = [line.call(JoinGroupRequest, 5, **join_fields(5, group)).member_id for line in lines]
    for line, member_id in zip(lines, ids, strict=True):
        line.send(JoinGroupRequest, 5, **join_fields(5, group, member_id))
    members = [line.receive()[1] for line in lines]
    leader, follower = (0, 1) if members[0].leader == members[0].member_id else (1, 0)
    assert len(members[leader].members) == 2 and members[follower].members == []
    fields = {
        "group_id": group,
        "generation_id": 1,
        "member_id": members[follower].member_id,
        "assignments": [],
    }
    lines[follower].send(SyncGroupRequest, 3, **fields)
    assert not lines[follower].is_answer_due(0.2)
    shares = [{"member_id": one.member_id, "assignment": one.member_id.encode()} for one in members]
    synced(lines[leader], 3, group, members[leader], assignments=shares)
    assert lines[follower].receive()[1].assignment == members[follower].member_id.encode()


def test_13_heartbeats_tell_of_a_rebalance_and_stale_ones_are_fenced(
    coordinator: RawConnection, another: Callable[[], RawConnection], group: str
) -> None:
    first = joined(coordinator, 5, group)
    synced(coordinator, 3, group, first)
    newcomer = another()
    asked = newcomer.call(JoinGroupRequest, 5, **join_fields(5, group))
    newcomer.send(JoinGroupRequest, 5, **join_fields(5, group, asked.member_id))
    while beat(coordinator, 3, group, first) != "REBALANCE_IN_PROGRESS":
        continue
    again = joined(coordinator, 5, group, first.member_id)
    assert again.generation_id == 2 and newcomer.receive()[1].generation_id == 2
    assert beat(coordinator, 3, group, first) == "ILLEGAL_GENERATION"
    assert error_name(synced(coordinator, 3, group, first).error_code) == "ILLEGAL_GENERATION"


def test_a_replaced_static_member_is_fenced(coordinator: RawConnection, group: str) -> None:
    static = {"group_instance_id": "one"}
    first = joined(coordinator, 9, group, **static)
    assert synced(coordinator, 5, group, first, **static).assignment == b"all of it"
    again = joined(coordinator, 9, group, **static)
    assert (again.generation_id, again.leader, again.skip_assignment) == (1, again.member_id, True)
    assert synced(coordinator, 5, group, again, assignments=[], **static).assignment == b"all of it"
    assert beat(coordinator, 4, group, first, **static) == "FENCED_INSTANCE_ID"
    assert (
        error_name(joined(coordinator, 9, group, first.member_id, **static).error_code)
        == "FENCED_INSTANCE_ID"
    )


@pytest.mark.parametrize(
    "stated",
    [{"protocol_type": None}, {"protocol_name": None}, {"protocol_name": "x"}, {"protocol_type": "x"}],
)
def test_from_version_5_a_sync_states_the_protocol_that_was_chosen(
    coordinator: RawConnection, group: str, stated: dict[str, Any]
) -> None:
    member = joined(coordinator, 9, group)
    answer = synced(coordinator, 5, group, member, **stated)
    assert error_name(answer.error_code) == "INCONSISTENT_GROUP_PROTOCOL"


def test_leaving_twice_and_leaving_nowhere(coordinator: RawConnection, group: str) -> None:
    member = joined(coordinator, 5, group)
    assert left(coordinator, 1, group, member.member_id) == [error_name(0)]
    assert left(coordinator, 1, group, member.member_id) == ["UNKNOWN_MEMBER_ID"]
    assert left(coordinator, 5, f"{group}-nowhere", "m") == [error_name(0), "UNKNOWN_MEMBER_ID"]


# -- committed offsets


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_in_every_version(
    coordinator: RawConnection, new_topic: CreateTopic, group: str, version: int
) -> None:
    topic = new_topic()
    place = topic_id(coordinator, topic) if version >= 10 else topic
    assert committed(coordinator, version, group, (place, 0), 42, "why") == error_name(0)
    found = fetched(coordinator, 5, group, [(topic, 0)]).topics[0].partitions[0]
    assert (found.committed_offset, found.metadata, found.committed_leader_epoch) == (42, "why", -1)


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_fetched_in_every_version(
    coordinator: RawConnection, new_topic: CreateTopic, group: str, version: int
) -> None:
    topic = new_topic(partitions=2)
    place = topic_id(coordinator, topic) if version >= 10 else topic
    epoch = [
        {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": 3, "committed_metadata": None}
    ]
    committed(coordinator, 8, group, (topic, 0), 7, topics=[{"name": topic, "partitions": epoch}])
    (one,) = fetched(coordinator, version, group, [(place, 0)]).topics
    assert (one.topic_id if version >= 10 else one.name) == place
    assert (one.partitions[0].committed_offset, one.partitions[0].metadata) == (7, "")
    assert version < 5 or one.partitions[0].committed_leader_epoch == 3
    (none,) = fetched(coordinator, version, group, [(place, 1)]).topics
    assert (none.partitions[0].committed_offset, none.partitions[0].error_code) == (-1, 0)
    if version >= 2:
        everything = fetched(coordinator, version, group, None)
        assert [len(topic.partitions) for topic in everything.topics] == [1]


@pytest.mark.parametrize("version", range(1, 11))
def test_7_an_unknown_group_has_no_offsets_and_no_error(
    coordinator: RawConnection, new_topic: CreateTopic, group: str, version: int
) -> None:
    topic = new_topic()
    place = topic_id(coordinator, topic) if version >= 10 else topic
    answer = fetched(coordinator, version, group, [(place, 0)])
    assert version == 1 or answer.error_code == 0
    assert [(one.committed_offset, one.error_code) for one in answer.topics[0].partitions] == [(-1, 0)]


@pytest.mark.parametrize(("version", "error"), [(8, "ILLEGAL_GENERATION"), (9, "GROUP_ID_NOT_FOUND")])
def test_7_a_member_cannot_commit_to_a_group_that_is_not_there(
    coordinator: RawConnection, new_topic: CreateTopic, group: str, version: int, error: str
) -> None:
    changes = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert committed(coordinator, version, group, (new_topic(), 0), 1, **changes) == error


def test_commits_are_checked_one_by_one(
    coordinator: RawConnection, new_topic: CreateTopic, group: str
) -> None:
    topic = new_topic()
    assert committed(coordinator, 7, group, (topic, 5), 1) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert committed(coordinator, 7, group, ("no-such-topic", 0), 1) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert committed(coordinator, 10, group, (uuid.uuid4(), 0), 1) == "UNKNOWN_TOPIC_ID"
    assert committed(coordinator, 7, group, (topic, 0), 1, "x" * 4_096) == error_name(0)
    assert committed(coordinator, 7, group, (topic, 0), 2, "x" * 4_097) == "OFFSET_METADATA_TOO_LARGE"
    assert fetched(coordinator, 5, group, [(topic, 0)]).topics[0].partitions[0].committed_offset == 1


def test_only_members_of_this_generation_commit(
    coordinator: RawConnection, new_topic: CreateTopic, group: str
) -> None:
    place = (new_topic(), 0)
    member = joined(coordinator, 5, group)
    by = {"generation_id_or_member_epoch": 1, "member_id": member.member_id}
    assert committed(coordinator, 7, group, place, 1, **by) == "REBALANCE_IN_PROGRESS"
    synced(coordinator, 3, group, member)
    assert committed(coordinator, 7, group, place, 1, **by) == error_name(0)
    assert committed(coordinator, 7, group, place, 2) == "UNKNOWN_MEMBER_ID"
    stale = by | {"generation_id_or_member_epoch": 0}
    assert committed(coordinator, 7, group, place, 2, **stale) == "ILLEGAL_GENERATION"
    stranger = by | {"member_id": "stranger"}
    assert committed(coordinator, 7, group, place, 2, **stranger) == "UNKNOWN_MEMBER_ID"


# -- from outside


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(coordinator: RawConnection, group: str, version: int) -> None:
    member = joined(coordinator, 5, group, protocols=[{"name": "range", "metadata": SUBSCRIPTION}])
    synced(coordinator, 3, group, member)
    (one,) = coordinator.call(DescribeGroupsRequest, version, groups=[group]).groups
    assert (one.error_code, one.group_state, one.protocol_type, one.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (described,) = one.members
    assert (described.member_id, described.client_id) == (member.member_id, "compat-raw")
    assert (described.member_metadata, described.member_assignment) == (SUBSCRIPTION, b"all of it")


@pytest.mark.parametrize(("version", "error"), [(0, 0), (5, 0), (6, 69)])
def test_7_a_group_that_is_not_there_is_dead(
    coordinator: RawConnection, group: str, version: int, error: int
) -> None:
    (one,) = coordinator.call(DescribeGroupsRequest, version, groups=[group]).groups
    assert (one.error_code, one.group_state) == (error, "Dead")


def test_groups_are_listed_by_state_and_kind(
    coordinator: RawConnection, new_topic: CreateTopic, group: str
) -> None:
    busy, simple = neighbours(coordinator, group, 2)
    synced(coordinator, 3, busy, joined(coordinator, 5, busy))
    committed(coordinator, 7, simple, (new_topic(), 0), 1)

    def listed(version: int, **filters: Any) -> dict[str, Any]:
        answer = coordinator.call(ListGroupsRequest, version, **filters)
        return {one.group_id: one for one in answer.groups if one.group_id in (busy, simple)}

    assert {name: one.protocol_type for name, one in listed(0).items()} == {busy: "consumer", simple: ""}
    assert list(listed(4, states_filter=["Stable"])) == [busy]
    assert list(listed(4, states_filter=["Empty", "Dead"])) == [simple]
    assert {
        one.group_type.lower() for one in listed(5, states_filter=[], types_filter=["classic"]).values()
    } == {"classic"}
    assert listed(5, states_filter=[], types_filter=["share"]) == {}


def test_only_empty_groups_are_deleted_and_their_offsets_with_them(
    coordinator: RawConnection, new_topic: CreateTopic, group: str
) -> None:
    topic = new_topic()
    (nowhere,) = neighbours(coordinator, group, 1)
    member = joined(coordinator, 5, group)
    synced(coordinator, 3, group, member)
    by = {"generation_id_or_member_epoch": 1, "member_id": member.member_id}
    committed(coordinator, 7, group, (topic, 0), 5, **by)

    def deleted() -> list[str]:
        answer = coordinator.call(DeleteGroupsRequest, 2, groups_names=[group, nowhere])
        return [error_name(one.error_code) for one in answer.results]

    assert deleted() == ["NON_EMPTY_GROUP", "GROUP_ID_NOT_FOUND"]
    left(coordinator, 1, group, member.member_id)
    assert deleted() == [error_name(0), "GROUP_ID_NOT_FOUND"]
    assert fetched(coordinator, 5, group, [(topic, 0)]).topics[0].partitions[0].committed_offset == -1


def test_offsets_are_deleted_unless_a_member_reads_the_topic(
    coordinator: RawConnection, new_topic: CreateTopic, group: str
) -> None:
    topic, other = new_topic(), new_topic()
    for name in (topic, other):
        committed(coordinator, 7, group, (name, 0), 5)
    reads = b"\0\0\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\xff\xff\xff\xff"
    synced(
        coordinator, 3, group, joined(coordinator, 5, group, protocols=[{"name": "range", "metadata": reads}])
    )

    def deleted(name: str) -> str:
        wanted = [{"name": name, "partitions": [{"partition_index": 0}]}]
        answer = coordinator.call(OffsetDeleteRequest, 0, group_id=group, topics=wanted)
        return error_name(answer.error_code or answer.topics[0].partitions[0].error_code)

    assert deleted(topic) == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert deleted(other) == error_name(0)
    found = fetched(coordinator, 5, group, None)
    assert {one.name: one.partitions[0].committed_offset for one in found.topics} == {topic: 5}


def test_many_groups_are_fetched_at_once(
    coordinator: RawConnection, new_topic: CreateTopic, group: str
) -> None:
    topic = new_topic()
    one, two, nowhere = neighbours(coordinator, group, 3)
    committed(coordinator, 7, one, (topic, 0), 1)
    committed(coordinator, 7, two, (topic, 0), 2)
    wanted = [{"group_id": name, "topics": None} for name in (two, one, nowhere)]
    answer = coordinator.call(OffsetFetchRequest, 8, groups=wanted)
    found = [
        [one.committed_offset for topic in group.topics for one in topic.partitions]
        for group in answer.groups
    ]
    assert found == [[2], [1], []]


def test_21_the_topic_of_offsets_is_internal_and_not_for_clients(coordinator: RawConnection) -> None:
    (topic,) = coordinator.call(MetadataRequest, 12, topics=[{"name": "__consumer_offsets"}]).topics
    assert topic.error_code == 0 and topic.is_internal and topic.partitions
