"""The consumer group, rule by rule: who is let in, who is fenced, what moves when, and what time does."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import (
    BrokerError,
    FencedInstance,
    FencedMember,
    GroupFull,
    GroupNotEmpty,
    InvalidRegex,
    InvalidRequest,
    StaleMember,
    UnknownAssignor,
    UnknownMember,
    UnreleasedInstance,
)
from penstock.core.machine import NEVER_MS, Moment
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Topic, TopicRemoved, TopicSaved
from penstock.core.machines.consumer_group.events import MemberState
from penstock.core.machines.consumer_group.group import (
    ConsumerGroup,
    ConsumerGroupTerms,
    HeartbeatAnswer,
    MemberHeartbeat,
)
from penstock.core.machines.consumer_group.targets import Topics, preferred_assignor

A, B = bytes([1]) * 16, bytes([2]) * 16
TERMS = ConsumerGroupTerms(
    session_ms=45_000,
    heartbeat_ms=5_000,
    size_max=3,
    classic_session_ms_min=6_000,
    classic_session_ms_max=60_000,
)


class Stage:
    """A group with topics `a` (4 partitions) and `b` (2) and a clock that the test moves."""

    def __init__(self) -> None:
        self.group = ConsumerGroup("g", TERMS)
        self.catalog = Catalog()
        self.version = 0
        self.now_ms = 0
        self.set_topic(A, "a", 4)
        self.set_topic(B, "b", 2)

    def set_topic(self, topic_id: bytes, name: str, count: int) -> None:
        self.version += 1
        self.catalog.apply(TopicSaved(Topic(topic_id, name, count, {}, False, 0)))

    def beat(self, member_id: str, epoch: int, **said: Any) -> HeartbeatAnswer:
        decision = self.group.decide_heartbeat(
            MemberHeartbeat(member_id=member_id, epoch=epoch, **said),
            Topics(self.catalog, self.version),
            Moment(self.now_ms, self.now_ms),
        )
        for event in decision.events:
            self.group.apply(event)
        assert isinstance(decision.answer, HeartbeatAnswer)
        return decision.answer

    def join(self, member_id: str, *names: str, **said: Any) -> HeartbeatAnswer:
        return self.beat(member_id, 0, topic_names=names or ("a",), rebalance_ms=60_000, **said)

    def tick(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for event in self.group.decide_tick(Moment(now_ms, now_ms)).events:
            self.group.apply(event)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def of(*partitions: int) -> dict[bytes, frozenset[int]]:
    return {A: frozenset(partitions)} if partitions else {}


def test_the_first_member_gets_everything_at_once(stage: Stage) -> None:
    assert stage.group.state_name == "Empty"
    answer = stage.join("m1")
    assert answer == HeartbeatAnswer("m1", 1, 5_000, of(0, 1, 2, 3))
    assert stage.group.state_name == "Stable"
    assert stage.beat("m1", 1, owned=of(0, 1, 2, 3)).assignment is None


def test_a_second_member_waits_until_the_first_has_given_up(stage: Stage) -> None:
    stage.join("m1")
    assert stage.join("m2") == HeartbeatAnswer("m2", 2, 5_000, {})
    assert stage.group.current_assignment("m2").state is MemberState.UNRELEASED
    asked = stage.beat("m1", 1)
    assert (asked.epoch, asked.assignment) == (1, of(0, 1))
    assert stage.group.current_assignment("m1").state is MemberState.UNREVOKED
    assert stage.beat("m2", 2).assignment is None, "not while m1 may still use them"
    assert stage.beat("m1", 1, owned=of(0, 1, 2, 3)).epoch == 1, "it has not given up anything yet"
    assert stage.group.state_name == "Reconciling"
    assert stage.beat("m1", 1, owned=of(0, 1)).epoch == 2
    assert stage.beat("m2", 2).assignment == of(2, 3)
    assert stage.group.state_name == "Stable"


def test_a_member_that_does_not_give_up_in_time_is_gone(stage: Stage) -> None:
    stage.join("m1")
    stage.join("m2")
    stage.beat("m1", 1)
    for now_ms in (20_000, 40_000, 59_000):
        stage.now_ms = now_ms
        stage.beat("m1", 1)
        stage.beat("m2", 2)
    stage.tick(59_999)
    assert stage.group.members.keys() == {"m1", "m2"}
    stage.tick(60_000)
    assert stage.group.members.keys() == {"m2"}
    assert stage.beat("m2", 2).assignment == of(0, 1, 2, 3)
    with pytest.raises(UnknownMember):
        stage.beat("m1", 1)


def test_a_member_that_falls_silent_is_gone_after_its_session(stage: Stage) -> None:
    stage.join("m1")
    assert stage.group.wake_ms == 45_000
    stage.now_ms = 30_000
    stage.beat("m1", 1)
    stage.tick(45_000)
    assert "m1" in stage.group.members
    assert stage.group.wake_ms == 75_000
    stage.tick(75_000)
    assert stage.group.state_name == "Empty"
    assert (stage.group.epoch, stage.group.wake_ms) == (2, NEVER_MS)


def test_a_member_that_leaves_hands_over_at_once(stage: Stage) -> None:
    stage.join("m1")
    assert stage.beat("m1", -1) == HeartbeatAnswer("m1", -1, 0, None)
    assert stage.join("m2") == HeartbeatAnswer("m2", 3, 5_000, of(0, 1, 2, 3))


def test_a_lost_answer_is_told_again_and_other_epochs_are_fenced(stage: Stage) -> None:
    stage.join("m1")
    stage.beat("m1", 1, topic_names=("a", "b"))
    assert stage.group.current_assignment("m1").epoch == 2
    everything = {A: frozenset(range(4)), B: frozenset(range(2))}
    repeated = stage.beat("m1", 1, topic_names=("a", "b"), rebalance_ms=60_000, owned=of(0, 1))
    assert (repeated.epoch, repeated.assignment) == (2, everything)
    for epoch, owned in ((1, None), (1, {B: frozenset({7})}), (3, of(0)), (-3, None)):
        with pytest.raises((FencedMember, InvalidRequest)):
            stage.beat("m1", epoch, owned=owned)
    again = stage.join("m1", "a", "b")
    assert (again.epoch, again.assignment) == (2, everything), "joining again is always allowed"


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(stage: Stage) -> None:
    stage.join("m1", instance_id="i1")
    stage.join("m2", instance_id="i2")
    stage.beat("m1", 1)
    stage.beat("m1", 1, owned=of(0, 1))
    stage.beat("m2", 2)
    epoch = stage.group.epoch
    with pytest.raises(UnreleasedInstance):
        stage.join("m3", instance_id="i1")
    assert stage.beat("m1", -2, instance_id="i1").epoch == -2
    with pytest.raises(FencedMember):
        stage.beat("m1", 2, instance_id="i1")
    assert stage.join("m3", instance_id="i1") == HeartbeatAnswer("m3", 2, 5_000, of(0, 1))
    assert stage.group.epoch == epoch
    assert stage.beat("m2", 2, instance_id="i2").assignment is None
    with pytest.raises(FencedInstance):
        stage.beat("m1", 2, instance_id="i1")
    with pytest.raises(UnknownMember):
        stage.beat("m1", 2)


def test_a_static_member_that_stays_away_is_gone_after_its_session(stage: Stage) -> None:
    stage.join("m1", instance_id="i1")
    stage.beat("m1", -2, instance_id="i1")
    stage.tick(44_999)
    assert stage.group.instances == {"i1": "m1"}
    stage.tick(45_000)
    assert stage.group.is_empty
    with pytest.raises(UnknownMember):
        stage.beat("m1", 1, instance_id="i1")


def test_more_partitions_and_new_or_deleted_topics_move_the_group_on(stage: Stage) -> None:
    stage.join("m1", "a", "later")
    stage.set_topic(B, "b", 5)
    assert stage.beat("m1", 1).epoch == 1, "nobody reads b"
    stage.set_topic(A, "a", 5)
    assert stage.beat("m1", 1).assignment == of(0, 1, 2, 3, 4)
    stage.set_topic(bytes([3]) * 16, "later", 1)
    assert stage.beat("m1", 2).epoch == 3
    stage.version += 1
    stage.catalog.apply(TopicRemoved(A))
    assert stage.beat("m1", 3).assignment == {bytes([3]) * 16: frozenset({0})}


def test_regular_expressions_follow_the_topics(stage: Stage) -> None:
    stage.set_topic(bytes([9]) * 16, "internal-not", 1)
    stage.beat("m1", 0, topic_regex="a|b.*", rebalance_ms=1)
    assert stage.group.current_assignment("m1").assigned.keys() == {A, B}
    assert stage.group.is_subscribed("b") and not stage.group.is_subscribed("internal-not")
    stage.set_topic(bytes([4]) * 16, "bb", 1)
    assert stage.beat("m1", 1).epoch == 2
    assert stage.group.regexes["a|b.*"].topics == ("a", "b", "bb")
    stage.beat("m1", 2, topic_regex="", topic_names=("a",), owned={})
    assert not stage.group.regexes
    for regex in ("(", "a" * 2_000, "(?=a)", "((a{1,900}){1,900})"):
        with pytest.raises(InvalidRegex):
            stage.beat("m2", 0, topic_regex=regex, rebalance_ms=1)


def test_internal_topics_are_not_meant_by_a_regular_expression(stage: Stage) -> None:
    stage.catalog.apply(TopicSaved(Topic(bytes([8]) * 16, "__consumer_offsets", 1, {}, True, 0)))
    stage.version += 1
    stage.beat("m1", 0, topic_regex=".*", rebalance_ms=1)
    assert stage.group.regexes[".*"].topics == ("a", "b")


def test_most_votes_choose_the_assignor(stage: Stage) -> None:
    assert preferred_assignor(stage.group) == "uniform"
    stage.join("m1", assignor="roundrobin")
    stage.join("m2", assignor="range")
    assert preferred_assignor(stage.group) == "range", "at equal votes the first by name"
    stage.join("m3", assignor="roundrobin")
    assert preferred_assignor(stage.group) == "roundrobin"
    with pytest.raises(UnknownAssignor):
        stage.join("m1", assignor="cooperative")


@pytest.mark.parametrize(
    "said",
    [
        {"topic_names": ("a",)},
        {"rebalance_ms": 5},
        {"rebalance_ms": 5, "topic_names": ("a",), "owned": of(1)},
        {"rebalance_ms": 5, "topic_names": ("a",), "instance_id": ""},
        {"rebalance_ms": 5, "topic_names": ("a",), "rack_id": ""},
        {"rebalance_ms": 5, "topic_names": ("a",), "member_id": ""},
        {"epoch": -2},
        {"epoch": -3},
    ],
)
def test_contradictions_are_refused_and_change_nothing(stage: Stage, said: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        stage.beat(**{"member_id": "m1", "epoch": 0, **said})
    assert stage.group.is_vacant


def test_strangers_and_too_many_are_refused(stage: Stage) -> None:
    for member_id, epoch in (("m1", 1), ("m1", -1)):
        with pytest.raises(UnknownMember):
            stage.beat(member_id, epoch)
    for member_id in ("m1", "m2", "m3"):
        stage.join(member_id)
    with pytest.raises(GroupFull):
        stage.join("m4")
    stage.join("m3")


def outcome(check: Any) -> type[BrokerError] | None:
    try:
        check()
    except BrokerError as error:
        return type(error)
    return None


def test_commits_and_fetches_are_for_members_in_their_epoch(stage: Stage) -> None:
    group = stage.group
    group.check_commit("", -1, None, transactional=False)
    stage.join("m1")

    def commit(member_id: str, epoch: int, *, transactional: bool = False) -> type[BrokerError] | None:
        return outcome(lambda: group.check_commit(member_id, epoch, None, transactional=transactional))

    assert commit("m1", 1) is None
    assert commit("m1", 0) is StaleMember
    assert commit("m1", 2) is StaleMember
    assert commit("other", 1) is UnknownMember
    assert commit("", -1) is UnknownMember
    assert commit("", -1, transactional=True) is None
    assert outcome(lambda: group.check_fetch(None, -1)) is None
    assert outcome(lambda: group.check_fetch("m1", 1)) is None
    assert outcome(lambda: group.check_fetch("m1", 7)) is StaleMember
    assert outcome(lambda: group.check_fetch("other", 1)) is UnknownMember


def test_only_an_empty_group_can_be_removed_and_offsets_of_read_topics_stay(stage: Stage) -> None:
    stage.join("m1")
    with pytest.raises(GroupNotEmpty):
        stage.group.decide_remove()
    assert stage.group.offsets_expire_from_ms("a", 7) is None
    assert stage.group.offsets_expire_from_ms("b", 7) == 7
    stage.beat("m1", -1)
    for event in stage.group.decide_remove():
        stage.group.apply(event)
    assert stage.group.is_dead


def test_after_a_restart_everybody_has_a_whole_session(stage: Stage) -> None:
    stage.join("m1")
    stage.join("m2")
    stage.beat("m1", 1)
    for event in stage.group.decide_revive(Moment(1_000_000, 5)).events:
        stage.group.apply(event)
    assert stage.group.deadlines == {"m1": 1_045_000, "m2": 1_045_000}
    assert stage.group.revocations == {"m1": 1_060_000}
