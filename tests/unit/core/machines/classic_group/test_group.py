"""The classic group, rule by rule: who may join, what is refused and with which error, what a refusal leaves alone."""

from __future__ import annotations

import pytest

from group_play import LIMITS, Play, subscription
from penstock.core.errors import (
    FencedInstance,
    GroupFull,
    GroupNotEmpty,
    InconsistentProtocol,
    InvalidSession,
    MemberIdRequired,
    Rebalancing,
    StaleGeneration,
    UnknownMember,
)
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.classic_group.round import Round
from penstock.core.machines.classic_group.state import NEXT, ClassicState
from penstock.core.machines.classic_group.values import Assigned, Joined, RoundClosed, SyncCommand


def state_of(group: Group) -> object:
    return {
        name: list(value.items()) if isinstance(value, dict) else value for name, value in vars(group).items()
    }


def test_a_new_member_is_sent_back_once_for_its_id_and_only_that_id_works() -> None:
    play = Play()
    assert isinstance(play.join(fresh="ann", known_id=True), MemberIdRequired)
    assert not play.group.members and list(play.group.pending) == ["ann"]
    assert isinstance(play.join("other", known_id=True), UnknownMember)
    play.join("ann", known_id=True)
    assert list(play.group.members) == ["ann"] and not play.group.pending


def test_an_id_that_is_not_used_is_forgotten_after_a_session() -> None:
    play = Play()
    play.join(fresh="ann", known_id=True)
    play.wait(10_000)
    assert isinstance(play.join("ann"), UnknownMember)
    assert play.group.is_vacant


def test_a_static_member_needs_no_second_visit() -> None:
    play = Play()
    play.join(fresh="ann-1", instance="ann", known_id=True)
    assert play.group.statics == {"ann": "ann-1"}


@pytest.mark.parametrize("session_ms", [5_999, 60_001, -1])
def test_a_session_out_of_bounds_is_refused(session_ms: int) -> None:
    play = Play()
    assert isinstance(play.join(session_ms=session_ms), InvalidSession)
    assert play.group.is_vacant


@pytest.mark.parametrize(
    ("protocols", "protocol_type"),
    [("", "consumer"), ("range", ""), ("sticky", "consumer"), ("range", "connect")],
)
def test_a_member_that_shares_no_protocol_is_refused_and_nothing_moves(
    protocols: str, protocol_type: str
) -> None:
    play = Play()
    play.stable("ann")
    before = state_of(play.group)
    assert isinstance(play.join(protocols=protocols, protocol_type=protocol_type), InconsistentProtocol)
    assert state_of(play.group) == before


def test_the_protocol_with_most_votes_among_those_that_all_know_wins() -> None:
    play = Play()
    play.join(fresh="a", protocols="sticky range")
    play.join(fresh="b", protocols="range sticky hash")
    play.join(fresh="c", protocols="range sticky")
    play.wait(200)
    assert play.answers["a"].protocol == "range"


def test_a_tie_goes_to_the_first_members_preference() -> None:
    play = Play()
    play.join(fresh="a", protocols="sticky range")
    play.join(fresh="b", protocols="range sticky")
    play.wait(200)
    assert play.answers["b"].protocol == "sticky"


def test_a_full_group_refuses_newcomers_but_not_its_members() -> None:
    play = Play(LIMITS._replace(size_max=1))
    play.stable("ann")
    assert isinstance(play.join(), GroupFull)
    play.join("ann")
    assert play.answers["ann"].generation == 2


def test_the_first_round_grows_while_members_keep_coming_but_not_for_ever() -> None:
    play = Play()
    play.join(rebalance_ms=200)
    for _ in range(10):
        play.wait(40)
        if play.group.state is not ClassicState.PREPARING:
            break
        play.join(rebalance_ms=200)
    assert play.now_ms == 200, "the round ends at the rebalance timeout however many still come"
    assert all(answer.generation == 1 for answer in play.answers.values())


def test_a_first_round_closes_when_the_member_that_is_coming_leaves_or_is_given_up() -> None:
    play = Play()
    play.join(fresh="ann")
    play.join(fresh="bob", known_id=True)
    play.wait(500)
    assert play.group.state is ClassicState.PREPARING
    play.leave("bob")
    play.wait(1)
    assert play.answers["ann"].generation == 1


def test_clients_that_ask_for_ids_and_never_use_them_do_not_keep_a_group_from_starting() -> None:
    play = Play()
    play.join(fresh="ann")
    for _ in range(40):
        play.join(known_id=True)
        play.wait(100)
    assert play.answers["ann"].generation == 1
    assert play.group.state is ClassicState.COMPLETING


def test_a_quiet_period_ends_at_the_rebalance_timeout_at_the_latest() -> None:
    play = Play(LIMITS._replace(initial_rebalance_static_ms=1_000))
    play.join(fresh="ann", instance="one", rebalance_ms=300)
    play.wait(299)
    assert play.group.state is ClassicState.PREPARING
    play.wait(1)
    assert play.answers["ann"].generation == 1


def test_a_follower_that_lost_its_answer_gets_it_again_without_a_new_round() -> None:
    play = Play()
    play.stable("ann", "bob")
    again = play.join("bob")
    assert isinstance(again, Joined) and again.generation == 1 and again.members == ()
    assert play.group.state is ClassicState.STABLE
    assert play.sync("bob") == Assigned("consumer", "range", b"bob")


def test_a_leader_that_joins_again_opens_a_round() -> None:
    play = Play()
    play.stable("ann", "bob")
    play.join("ann")
    assert play.group.state is ClassicState.PREPARING


def test_a_member_that_changes_its_metadata_opens_a_round() -> None:
    play = Play()
    play.stable("ann", "bob")
    play.join("bob", metadata=b"other topics")
    assert play.group.state is ClassicState.PREPARING


def test_joining_again_while_assignments_are_awaited_repeats_the_answer() -> None:
    play = Play()
    play.join(fresh="ann")
    play.join(fresh="bob")
    play.wait(200)
    first = play.answers["ann"]
    assert play.join("ann") == first and play.group.state is ClassicState.COMPLETING


@pytest.mark.parametrize(
    ("who", "generation", "error"),
    [("ann", 0, StaleGeneration), ("ann", 2, StaleGeneration), ("nobody", 1, UnknownMember)],
)
def test_wrong_ids_and_generations_are_refused_everywhere(who: str, generation: int, error: type) -> None:
    play = Play()
    play.stable("ann")
    before = state_of(play.group)
    assert isinstance(play.beat(who, generation), error)
    assert isinstance(play.sync(who, generation), error)
    with pytest.raises(error):
        play.group.check_commit(who, generation, None, transactional=False)
    assert state_of(play.group) == before


def test_a_static_member_that_was_replaced_is_fenced_everywhere() -> None:
    play = Play()
    play.stable("ann-1", instance="ann")
    play.join(fresh="ann-2", instance="ann")
    assert isinstance(play.beat("ann-1", instance="ann"), FencedInstance)
    assert isinstance(play.join("ann-1", instance="ann"), FencedInstance)
    assert isinstance(play.leave("ann-1", instance="ann")[0], FencedInstance)
    with pytest.raises(FencedInstance):
        play.group.check_commit("ann-1", 1, "ann", transactional=False)
    with pytest.raises(UnknownMember):
        play.group.check_commit("ann-2", 1, "bob", transactional=False)


def test_a_static_members_waiting_call_is_fenced_when_it_is_replaced() -> None:
    play = Play()
    play.join(fresh="ann-1", instance="ann")
    play.join(fresh="ann-2", instance="ann")
    play.wait(200)
    assert isinstance(play.answers["ann-1"], FencedInstance)
    assert play.answers["ann-2"].generation == 1 and list(play.group.members) == ["ann-2"]


def test_an_old_client_that_replaces_a_static_leader_is_told_that_the_old_one_leads() -> None:
    play = Play()
    play.stable("ann-1", instance="ann")
    answer = play.join(fresh="ann-2", instance="ann", may_skip=False)
    assert (answer.leader, answer.members, answer.skip_assignment) == ("ann-1", (), False)


def test_a_static_member_that_would_change_the_protocol_opens_a_round() -> None:
    play = Play()
    play.join(fresh="ann-1", instance="ann", protocols="range sticky")
    play.wait(100)
    play.sync("ann-1", **{"ann-1": b"x"})
    play.join(fresh="ann-2", instance="ann", protocols="sticky range")
    assert play.answers["ann-2"].generation == 2 and play.answers["ann-2"].protocol == "sticky"


def test_a_static_member_may_be_away_for_a_session_and_its_partitions_wait_for_it() -> None:
    play = Play()
    play.join(fresh="ann-1", instance="ann")
    play.join(fresh="bob-1", instance="bob")
    play.wait(100)
    play.sync("ann-1", **{"ann-1": b"p0", "bob-1": b"p1"})
    play.sync("bob-1")
    play.wait(9_000)
    play.beat("ann-1")
    play.join(fresh="bob-2", instance="bob")
    assert play.sync("bob-2").assignment == b"p1"
    play.wait(9_900)
    play.beat("ann-1")
    play.wait(200)
    assert list(play.group.members) == ["ann-1"] and play.group.state is ClassicState.PREPARING


def test_leaving_in_a_batch_answers_each_and_rebalances_once() -> None:
    play = Play()
    play.stable("ann", "bob", "cleo")
    assert [type(one) for one in play.leave("bob", "nobody", "bob", "cleo")] == [
        type(None),
        UnknownMember,
        UnknownMember,
        type(None),
    ]
    assert list(play.group.members) == ["ann"] and play.group.state is ClassicState.PREPARING


def test_a_static_member_can_be_removed_by_its_instance_id_alone() -> None:
    play = Play()
    play.stable("ann-1", instance="ann")
    assert play.leave("", instance="ann") == [None]
    assert isinstance(play.leave("", instance="ann")[0], UnknownMember)
    assert play.group.state is ClassicState.EMPTY


def test_a_leaver_that_was_waited_for_lets_the_round_close() -> None:
    play = Play()
    play.stable("ann", "bob")
    play.join("ann")
    play.leave("bob")
    assert play.answers["ann"].generation == 2


def test_a_pending_id_that_leaves_is_no_longer_waited_for_and_opens_no_round() -> None:
    play = Play()
    play.stable("ann")
    play.join(fresh="bob", known_id=True)
    assert play.leave("bob") == [None]
    assert play.group.state is ClassicState.STABLE
    play.join(fresh="cleo", known_id=True)
    play.join("ann")
    assert play.group.state is ClassicState.PREPARING, "cleo is on the way"
    play.leave("cleo")
    assert play.group.state is ClassicState.COMPLETING


def test_members_that_wait_for_the_round_do_not_time_out() -> None:
    play = Play()
    play.stable("ann", "bob", rebalance_ms=60_000)
    play.join("ann", rebalance_ms=60_000)
    for _ in range(5):
        play.wait(9_000)
        play.beat("bob")
    assert set(play.group.members) == {"ann", "bob"}


def test_commits_follow_the_state_of_the_group() -> None:
    play = Play()
    play.group.check_commit("", -1, None, transactional=False)
    play.join(fresh="ann")
    with pytest.raises(UnknownMember):
        play.group.check_commit("", -1, None, transactional=False)
    play.group.check_commit("", -1, None, transactional=True)
    with pytest.raises(UnknownMember):
        play.group.check_commit("eve", -1, None, transactional=True)
    play.wait(100)
    with pytest.raises(Rebalancing):
        play.group.check_commit("ann", 1, None, transactional=False)
    play.group.check_commit("ann", 1, None, transactional=True)
    play.sync("ann", ann=b"x")
    play.group.check_commit("ann", 1, None, transactional=False)
    play.join(fresh="bob")
    play.group.check_commit("ann", 1, None, transactional=False)


def test_only_an_empty_group_can_be_removed() -> None:
    play = Play()
    play.stable("ann")
    with pytest.raises(GroupNotEmpty):
        play.group.decide_remove()
    play.leave("ann")
    for event in play.group.decide_remove():
        play.group.apply(event)
    assert play.group.is_dead and play.group.saved is None


def test_a_group_knows_what_its_members_read_if_they_are_consumers() -> None:
    play = Play()
    play.stable("ann", metadata=subscription("orders", "returns"))
    assert play.group.is_subscribed("orders") and not play.group.is_subscribed("other")
    assert play.group.offsets_expire_from_ms("orders", 5) is None
    assert play.group.offsets_expire_from_ms("other", 5) == 5
    opaque = Play()
    opaque.stable("ann", metadata=b"not a subscription")
    assert opaque.group.is_subscribed("anything")
    workers = Play()
    workers.stable("ann", protocol_type="connect")
    with pytest.raises(GroupNotEmpty):
        workers.group.check_remove_offsets()


def test_offsets_age_from_when_the_group_became_empty() -> None:
    play = Play()
    assert play.group.offsets_expire_from_ms("orders", 5) == 5
    play.stable("ann", metadata=subscription("orders"))
    play.wait(1_000)
    play.leave("ann")
    emptied_ms = play.moment.wall_ms
    play.wait(5_000)
    assert play.group.offsets_expire_from_ms("orders", 5) == emptied_ms


def test_after_a_restart_members_keep_their_place_for_a_session() -> None:
    play = Play()
    play.stable("ann", "bob")
    again = Play()
    for event in play.kept:
        again.group.apply(event)
    for event in again.group.decide_revive(again.moment).events:
        again.group.apply(event)
    assert again.beat("ann") is None
    assert again.sync("bob").assignment == b"bob"
    again.wait(9_000)
    again.beat("ann")
    again.wait(1_000)
    assert list(again.group.members) == ["ann"] and again.group.state is ClassicState.PREPARING


def test_replaying_two_saves_of_a_member_that_changed_gives_the_later_one() -> None:
    play = Play()
    play.stable("ann", "bob", metadata=subscription("orders"))
    play.join("bob", metadata=subscription("returns"))
    play.join("ann", metadata=subscription("orders"))
    play.sync("ann", ann=b"ann", bob=b"bob")
    again = Play()
    for event in play.kept:
        again.group.apply(event)
    assert again.group.members["bob"].metadata_for("range") == subscription("returns")
    assert again.group.is_subscribed("returns")


def test_the_sync_of_a_stated_protocol_must_match() -> None:
    play = Play()
    play.stable("ann")
    with pytest.raises(InconsistentProtocol):
        play.group.decide_sync(SyncCommand("ann", None, 1, "connect", None, {}), play.moment)
    with pytest.raises(InconsistentProtocol):
        play.group.decide_sync(SyncCommand("ann", None, 1, "consumer", "sticky", {}), play.moment)


def test_no_move_leads_out_of_dead() -> None:
    assert not [source for source, _ in NEXT if source is ClassicState.DEAD]


def test_a_decision_that_leaves_the_table_of_moves_is_a_defect() -> None:
    play = Play()
    round = Round(play.group, LIMITS, play.moment)
    with pytest.raises(AssertionError, match="from Empty to CompletingRebalance"):
        round.emit(RoundClosed("g", 1, "range", "ann", 0, 1))


def test_a_round_of_many_members_costs_events_in_proportion() -> None:
    """Each join adds a few events, however many members there are already: no join touches them all."""
    play = Play(LIMITS._replace(size_max=500))
    for _ in range(200):
        play.join()
    assert max(play.event_counts) <= 4
