"""Groups between two protocols: classic members stay when the group becomes a consumer group, and get it back."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import (
    InconsistentProtocol,
    InvalidSession,
    MemberIdRequired,
    Rebalancing,
    StaleGeneration,
    UnknownGroup,
    UnknownMember,
)
from penstock.core.machine import GroupKind, Moment, Waiter
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Topic, TopicSaved
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.classic_group.records import GROUP_RECORDS
from penstock.core.machines.classic_group.values import (
    Assigned,
    GroupLimits,
    GroupSaved,
    JoinCommand,
    Joined,
    LeaveCommand,
    Protocol,
    SavedGroup,
    SavedMember,
    SyncCommand,
)
from penstock.core.machines.consumer_group import classic_members as classic
from penstock.core.machines.consumer_group.events import MemberState
from penstock.core.machines.consumer_group.group import (
    ConsumerGroup,
    ConsumerGroupTerms,
    HeartbeatAnswer,
    MemberHeartbeat,
)
from penstock.core.machines.consumer_group.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from penstock.core.machines.consumer_group.records import CONSUMER_GROUP_RECORDS
from penstock.core.machines.consumer_group.targets import Topics
from penstock.core.machines.consumer_group.upgrade import decide_upgrade
from penstock.core.machines.offsets.roster import Roster
from penstock.core.machines.record_fields import int16, int32, text

A = bytes([1]) * 16
LIMITS = GroupLimits(
    session_ms_min=1,
    session_ms_max=60_000,
    initial_rebalance_ms=0,
    initial_rebalance_static_ms=0,
    size_max=10,
)
TERMS = ConsumerGroupTerms(
    session_ms=45_000,
    heartbeat_ms=5_000,
    size_max=10,
    classic_session_ms_min=10,
    classic_session_ms_max=60_000,
)
SESSION_MS = 10_000


def subscription(*topics: str, owned: tuple[int, ...] = (), version: int = 1) -> bytes:
    out = int16(version) + int32(len(topics)) + b"".join(map(text, topics)) + int32(-1)
    if version >= 1:
        out += int32(1) + text("a") + int32(len(owned)) + b"".join(map(int32, owned)) if owned else int32(0)
    return out


def join_command(member_id: str, *, owned: tuple[int, ...] = (), **changed: Any) -> JoinCommand:
    values: dict[str, Any] = {
        "member_id": member_id,
        "fresh_id": "fresh",
        "instance_id": None,
        "client_id": "c",
        "client_host": "h",
        "session_ms": SESSION_MS,
        "rebalance_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": (Protocol("range", subscription("a", owned=owned)),),
        "needs_known_id": True,
        "may_skip": True,
    }
    return JoinCommand(**{**values, **changed})


class Stage:
    """A roster with one classic group of two members, each with two of the four partitions of `a`."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.catalog.apply(TopicSaved(Topic(A, "a", 4, {}, False, 0)))
        self.now_ms = 0
        self.roster = Roster(
            {
                GroupKind.CLASSIC: lambda group_id: Group(group_id, LIMITS),
                GroupKind.CONSUMER: lambda group_id: ConsumerGroup(group_id, TERMS),
            }
        )
        self.log: list[Any] = []
        self.carry_out([GroupSaved("g", saved_group())])

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.now_ms)

    @property
    def topics(self) -> Topics:
        return Topics(self.catalog, 1)

    @property
    def group(self) -> Any:
        return self.roster.find("g")

    def carry_out(self, events: list[Any]) -> None:
        records = GROUP_RECORDS | CONSUMER_GROUP_RECORDS
        for event in events:
            if records.is_persisted(event):
                self.log.append(records.encode(event))
            self.roster.apply(event)

    def upgrade(self) -> HeartbeatAnswer:
        """A member of the new protocol joins, as the host lets it."""
        before = decide_upgrade(self.group, self.catalog, self.moment)
        self.carry_out(before.events)
        return self.beat("new", 0, topic_names=("a",), rebalance_ms=30_000)

    def beat(self, member_id: str, epoch: int, **said: Any) -> HeartbeatAnswer:
        beat = MemberHeartbeat(member_id=member_id, epoch=epoch, **said)
        return self.answered(self.group.decide_heartbeat(beat, self.topics, self.moment))

    def join(self, command: JoinCommand) -> Joined:
        return self.answered(classic.decide_join(self.group, command, self.topics, self.moment))

    def sync(self, member_id: str, generation: int) -> list[int]:
        command = SyncCommand(member_id, None, generation, "consumer", "range", {})
        answer = self.answered(classic.decide_sync(self.group, command, self.catalog, self.moment))
        assert isinstance(answer, Assigned)
        return sorted(decode_assignment(answer.assignment).get("a", ()))

    def heartbeat(self, member_id: str, generation: int) -> Any:
        return self.answered(classic.decide_heartbeat(self.group, member_id, None, generation, self.moment))

    def answered(self, decision: Any) -> Any:
        self.carry_out(decision.events)
        return decision.answer


def saved_group() -> SavedGroup:
    shares = {"m1": frozenset({0, 1}), "m2": frozenset({2, 3})}
    members = tuple(
        SavedMember(
            name, None, "c", "h", 30_000, SESSION_MS, subscription("a"), encode_assignment(1, {"a": share})
        )
        for name, share in shares.items()
    )
    return SavedGroup("consumer", 5, "range", "m1", 0, members)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_members_keep_what_they_have_and_their_generation_becomes_their_epoch(stage: Stage) -> None:
    answer = stage.upgrade()
    group = stage.group
    assert group.kind is GroupKind.CONSUMER
    assert (answer.epoch, answer.assignment) == (6, {})
    assert group.current_assignment("m1").assigned == {A: frozenset({0, 1})}
    assert (group.current_assignment("m1").epoch, group.epoch) == (5, 6)
    assert group.deadlines["m1"] == SESSION_MS, "classic members bring their own session"
    group.check_commit("m1", 5, None, transactional=False)
    with pytest.raises(StaleGeneration):
        group.check_commit("m1", 4, None, transactional=False)


def test_classic_members_step_by_step_make_room_for_the_new_one(stage: Stage) -> None:
    stage.upgrade()
    assert isinstance(stage.heartbeat("m1", 5), Rebalancing)
    joined = stage.join(join_command("m1", owned=(0, 1)))
    (target,) = stage.group.target("m1").values()
    assert (joined.generation, joined.leader, joined.members) == (6 if len(target) == 2 else 5, "", ())
    for member_id, owned in (("m1", (0, 1)), ("m2", (2, 3))):
        for _ in range(2):
            generation = stage.join(join_command(member_id, owned=owned)).generation
            owned = tuple(stage.sync(member_id, generation))
    stage.beat("new", 6, owned={})
    shares = [stage.group.current_assignment(one).assigned.get(A, frozenset()) for one in ("m1", "m2", "new")]
    assert sorted(map(len, shares)) == [1, 1, 2]
    assert frozenset().union(*shares) == frozenset(range(4))
    assert stage.group.state_name == "Stable"
    assert stage.heartbeat("m1", stage.group.current_assignment("m1").epoch) is None


def test_an_eager_member_that_says_nothing_of_what_it_owns_has_given_everything_up(stage: Stage) -> None:
    stage.upgrade()
    for member_id in ("m1", "m2"):
        metadata = Protocol("range", subscription("a", version=0))
        joined = stage.join(join_command(member_id, protocols=(metadata,)))
        assert joined.generation == 6
        assert stage.sync(member_id, 6) == sorted(stage.group.target(member_id).get(A, ()))


def test_a_member_that_is_told_to_join_again_and_does_not_is_gone(stage: Stage) -> None:
    stage.upgrade()
    for now_ms in (0, 9_000, 18_000, 27_000, 29_999):
        stage.now_ms = now_ms
        assert isinstance(stage.heartbeat("m1", 5), Rebalancing)
        stage.heartbeat("m2", 5)
        stage.beat("new", 6)
    stage.now_ms = 30_000
    stage.carry_out(stage.group.decide_tick(stage.moment).events)
    assert stage.group.members.keys() == {"new"}
    assert stage.beat("new", 6).assignment == {A: frozenset(range(4))}


@pytest.mark.parametrize("how", ["leaves", "falls silent"])
def test_when_only_classic_members_are_left_the_group_is_theirs_again(stage: Stage, how: str) -> None:
    stage.upgrade()
    if how == "leaves":
        stage.beat("new", -1)
    else:
        for now_ms in (0, 10_000 - 1, 20_000 - 2, 29_000, 38_000, 44_999):
            stage.now_ms = now_ms
            for member_id in ("m1", "m2"):
                generation = stage.join(join_command(member_id)).generation
                stage.sync(member_id, generation)
        stage.now_ms = 45_000
        stage.carry_out(stage.group.decide_tick(stage.moment).events)
    group = stage.group
    assert isinstance(group, Group)
    assert group.state_name == "PreparingRebalance"
    assert group.members.keys() == {"m1", "m2"}
    assert group.generation > 6
    replayed = Roster(stage.roster._kinds)
    for key, value in stage.log:
        replayed.apply((GROUP_RECORDS | CONSUMER_GROUP_RECORDS).decode(key, value))
    found = replayed.find("g")
    assert isinstance(found, Group)
    assert found.saved == group.saved
    assert found.generation > 6, "after a restart too, nobody is in this generation, so everybody joins again"


def test_only_groups_of_consumers_can_become_one(stage: Stage) -> None:
    other = Group("g", LIMITS)
    other.apply(GroupSaved("g", _connect()))
    with pytest.raises(UnknownGroup):
        decide_upgrade(other, stage.catalog, stage.moment)
    torn = Group("g", LIMITS)
    member = SavedMember("m1", None, "c", "h", 1, 1, b"\0", b"")
    torn.apply(GroupSaved("g", SavedGroup("consumer", 1, "range", "m1", 0, (member,))))
    with pytest.raises(UnknownGroup):
        decide_upgrade(torn, stage.catalog, stage.moment)


def _connect() -> SavedGroup:
    return SavedGroup("connect", 1, "v1", "m1", 0, (SavedMember("m1", None, "c", "h", 1, 1, b"x", b""),))


def test_members_that_wait_for_a_round_are_told_to_join_again(stage: Stage) -> None:
    group = stage.group
    changed = join_command("m1", protocols=(Protocol("range", b"changed"),))
    stage.carry_out(group.decide_join(changed, stage.moment).events)
    stage.carry_out(group.decide_join(join_command("m1"), stage.moment).events)
    decision = decide_upgrade(group, stage.catalog, stage.moment)
    assert [waiter for waiter, _ in decision.replies] == [Waiter("join", "m1")]
    assert all(isinstance(answer, Rebalancing) for _, answer in decision.replies)


def test_a_new_classic_member_is_given_an_id_first_and_then_taken_in(stage: Stage) -> None:
    stage.upgrade()
    asked = stage.join(join_command(""))
    assert isinstance(asked, MemberIdRequired)
    assert "fresh" not in stage.group.members
    joined = stage.join(join_command(asked.member_id))
    assert (joined.member_id, joined.protocol) == ("fresh", "range")
    assert stage.group.current_assignment("fresh").state is MemberState.UNRELEASED


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"session_ms": 1}, InvalidSession),
        ({"protocol_type": "connect"}, InconsistentProtocol),
        ({"protocols": ()}, InconsistentProtocol),
        ({"protocols": (Protocol("other", subscription("a")),)}, InconsistentProtocol),
        ({"protocols": (Protocol("range", b"\0"),)}, InconsistentProtocol),
    ],
)
def test_joins_that_cannot_be_are_refused(
    stage: Stage, changed: dict[str, Any], error: type[Exception]
) -> None:
    stage.upgrade()
    with pytest.raises(error):
        stage.join(join_command("m1", **changed))


def test_a_static_classic_member_takes_over_from_its_former_self(stage: Stage) -> None:
    stage.upgrade()
    stage.join(join_command("", instance_id="i", fresh_id="s1", needs_known_id=False))
    joined = stage.join(join_command("", instance_id="i", fresh_id="s2", needs_known_id=False))
    assert joined.member_id == "s2"
    assert stage.group.instances == {"i": "s2"}
    assert "s1" not in stage.group.members


def test_leaving_is_answered_for_each_member(stage: Stage) -> None:
    stage.upgrade()
    commands = [LeaveCommand("m1", None), LeaveCommand("nobody", None), LeaveCommand("m1", None)]
    outcomes = stage.answered(classic.decide_leave(stage.group, commands, stage.moment))
    assert outcomes[0] is None
    assert all(isinstance(one, UnknownMember) for one in outcomes[1:])
    assert stage.group.members.keys() == {"m2", "new"}


def test_strangers_to_the_classic_protocol_and_stale_generations_are_refused(stage: Stage) -> None:
    stage.upgrade()
    refused = (("new", 6, UnknownMember), ("m9", 5, UnknownMember), ("m1", 4, StaleGeneration))
    for member_id, generation, error in refused:
        with pytest.raises(error):
            stage.heartbeat(member_id, generation)
        with pytest.raises(error):
            stage.sync(member_id, generation)
    with pytest.raises(Rebalancing):
        stage.sync("m1", 5)


def test_subscriptions_of_all_versions_can_be_read() -> None:
    assert decode_subscription(subscription("a", "b", version=0)).topics == ("a", "b")
    whole = subscription("a", owned=(1, 2), version=3) + int32(7) + text("rack")
    read = decode_subscription(whole)
    assert (read.version, read.owned) == (3, {"a": frozenset({1, 2})})
    with_data = int16(0) + int32(1) + text("a") + int32(3) + b"xyz"
    assert decode_subscription(with_data).topics == ("a",)
    for length in range(len(whole) - 12):
        with pytest.raises(InconsistentProtocol):
            decode_subscription(whole[:length])
    with pytest.raises(InconsistentProtocol):
        decode_assignment(b"\0\1\0")
    assert decode_assignment(b"") == {}
