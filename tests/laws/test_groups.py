"""Laws of classic groups: deciding changes nothing, replay gives back what was kept, records survive their bytes.

A walk plays a whole world: members that join, rejoin, sync, beat, leave, fall silent, in any order, with stale and
wrong ids and generations thrown in. After every step the invariants of a group must hold.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from group_play import Play
from penstock.core.errors import BrokerError, MemberIdRequired
from penstock.core.limits import GROUP_COMING_MS
from penstock.core.machine import NEVER_MS, Decision, Moment, Waiter
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.classic_group.records import GROUP_RECORDS
from penstock.core.machines.classic_group.state import NEXT, ClassicState
from penstock.core.machines.classic_group.values import (
    GroupLimits,
    GroupRemoved,
    GroupSaved,
    JoinCommand,
    LeaveCommand,
    Protocol,
    SavedGroup,
    SavedMember,
    SyncCommand,
)

LIMITS = GroupLimits(
    session_ms_min=100,
    session_ms_max=10_000,
    initial_rebalance_ms=50,
    initial_rebalance_static_ms=200,
    size_max=6,
)
PROTOCOLS = [("range",), ("range", "sticky"), ("sticky", "range"), ("cooperative",), ()]
INSTANCES = [None, None, "s1", "s2"]


class World:
    """A group and those who talk to it, as a host sees them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.group = Group("g", LIMITS)
        self.now_ms = 1_000
        self.kept: list[GroupSaved | GroupRemoved] = []
        self.waiting: set[Waiter] = set()
        self.ids: list[str] = ["nobody"]
        self.serial = 0
        self.moves: list[tuple[ClassicState, ClassicState]] = []

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.now_ms + 10**12)

    def step(self) -> None:
        actions = [
            self.join,
            self.join,
            self.join,
            self.sync,
            self.sync,
            self.heartbeat,
            self.leave,
            self.tick,
        ]
        decide = self.random.choice(actions)
        before = visible(self.group)
        try:
            decision = decide()
        except BrokerError:
            assert visible(self.group) == before, "a refusal changed something"
            return
        assert visible(self.group) == before, "decide wrote"
        self.carry_out(decision)
        self.check()

    def carry_out(self, decision: Decision) -> None:
        for event in decision.events:
            before = self.group.state
            self.group.apply(event)
            if self.group.state is not before:
                self.moves.append((before, self.group.state))
            if GROUP_RECORDS.is_persisted(event):
                self.kept.append(event)
        if decision.waits is not None:
            self.waiting.add(decision.waits)
        for waiter, _ in decision.replies:
            assert waiter in self.waiting, f"{waiter} is answered but does not wait"
            self.waiting.discard(waiter)
        if isinstance(decision.answer, MemberIdRequired):
            self.ids.append(decision.answer.member_id)

    def join(self) -> Decision:
        self.serial += 1
        fresh = f"m{self.serial}"
        known = self.random.random() < 0.6
        member_id = self.random.choice([*self.group.members, *self.ids]) if known else ""
        names = self.random.choice(PROTOCOLS)
        member = self.group.members.get(member_id)
        decision = self.group.decide_join(
            JoinCommand(
                member_id=member_id,
                fresh_id=fresh,
                instance_id=member.instance_id if member else self.random.choice(INSTANCES),
                client_id="c",
                client_host="/h",
                session_ms=self.random.choice([50, 200, 500]),
                rebalance_ms=self.random.choice([100, 700]),
                protocol_type=self.random.choice(["consumer", "consumer", "consumer", "connect"]),
                protocols=tuple(Protocol(name, self.random.choice([b"a", b"b"])) for name in names),
                needs_known_id=self.random.random() < 0.5,
                may_skip=self.random.random() < 0.5,
            ),
            self.moment,
        )
        self.ids.append(fresh)
        return decision

    def pick(self) -> tuple[str, int]:
        generation = self.group.generation + self.random.choice([0, 0, 0, 0, -1, 1])
        return self.random.choice([*self.group.members, *self.group.members, "nobody"]), generation

    def sync(self) -> Decision:
        member_id, generation = self.pick()
        if self.random.random() < 0.5 and self.group.leader is not None:
            member_id = self.group.leader
        assignments = {one: one.encode() for one in self.group.members}
        instance = self.group.members[member_id].instance_id if member_id in self.group.members else None
        return self.group.decide_sync(
            SyncCommand(member_id, instance, generation, None, None, assignments), self.moment
        )

    def heartbeat(self) -> Decision:
        member_id, generation = self.pick()
        return self.group.decide_heartbeat(member_id, self.random.choice(INSTANCES), generation, self.moment)

    def leave(self) -> Decision:
        leaving = [
            LeaveCommand(
                self.random.choice(["", *self.group.members, *self.ids]), self.random.choice(INSTANCES)
            )
        ]
        leaving += leaving if self.random.random() < 0.2 else []
        return self.group.decide_leave(leaving, self.moment)

    def tick(self) -> Decision:
        if self.random.random() < 0.5 and self.group.wake_ms != NEVER_MS:
            self.now_ms = max(self.now_ms, self.group.wake_ms)
        else:
            self.now_ms += self.random.choice([1, 60, 250, 1_000])
        return self.group.decide_tick(self.moment)

    def check(self) -> None:
        """What is true of a group at any time."""
        group = self.group
        members = set(group.members)
        assert set(group.deadlines) == members
        assert set(group.joining) | set(group.syncing) | set(group.unsynced) | set(group.newcomers) <= members
        assert group.statics == {one.instance_id: one.id for one in group.members.values() if one.instance_id}
        counts: dict[str, int] = {}
        for one in group.members.values():
            for protocol in one.protocols:
                counts[protocol.name] = counts.get(protocol.name, 0) + 1
        assert group.votes == counts
        assert group.state is not ClassicState.EMPTY or not members
        assert group.state is ClassicState.PREPARING or not group.joining
        assert group.state is ClassicState.COMPLETING or not group.syncing
        assert {waiter.member_id for waiter in self.waiting if waiter.slot == "join"} == set(group.joining)
        assert {waiter.member_id for waiter in self.waiting if waiter.slot == "sync"} == set(group.syncing)
        if group.state in (ClassicState.COMPLETING, ClassicState.STABLE):
            assert group.leader in members and group.protocol is not None
        if group.state is ClassicState.STABLE:
            assert group.saved is not None and group.snapshot(group.saved.since_ms) == group.saved
        deadlines = [*group.deadlines.values(), *group.pending.values(), group.round_deadline_ms]
        assert group.wake_ms <= min(deadlines), "something is due before the group wants to be woken"
        assert set(group.coming) == set(group.pending)
        if group.state is ClassicState.PREPARING:
            assert group.round_deadline_ms <= group.round_limit_ms
        if group.round_is_initial:
            latest_ms = max(group.round_quiet_ms, group.round_opened_ms + GROUP_COMING_MS)
            assert group.round_deadline_ms <= latest_ms, "a first round waits for nobody any more"


def visible(group: Group) -> object:
    """Everything there is to a group, by value and in order."""
    return {
        name: list(value.items()) if isinstance(value, dict) else value for name, value in vars(group).items()
    }


def durable(group: Group) -> object:
    return group.saved, group.topics, group.state is ClassicState.DEAD


@given(st.integers(0, 2**32), st.integers(1, 120))
def test_deciding_writes_nothing_and_a_walk_keeps_every_invariant(seed: int, steps: int) -> None:
    world = World(seed)
    for _ in range(steps):
        world.step()


@given(st.integers(0, 2**32), st.integers(1, 120))
def test_replaying_what_was_kept_gives_back_what_was_kept(seed: int, steps: int) -> None:
    world = World(seed)
    for _ in range(steps):
        world.step()
    again = Group("g", LIMITS)
    for event in world.kept:
        again.apply(GROUP_RECORDS.decode(*GROUP_RECORDS.encode(event)))
    assert durable(again) == durable(world.group)
    if again.saved is not None:
        assert again.state is (ClassicState.STABLE if again.saved.members else ClassicState.EMPTY)
        assert again.snapshot(again.saved.since_ms) == again.saved


@given(st.integers(0, 2**32))
def test_a_group_moves_only_as_its_table_says(seed: int) -> None:
    world = World(seed)
    for _ in range(80):
        world.step()
    assert set(world.moves) <= set(NEXT)


def test_long_walks_visit_every_move_but_removal() -> None:
    """The walk is only worth something if it goes everywhere."""
    seen: set[tuple[ClassicState, ClassicState]] = set()
    for seed in range(30):
        world = World(seed)
        for _ in range(300):
            world.step()
        seen |= set(world.moves)
    assert seen == set(NEXT) - {(ClassicState.EMPTY, ClassicState.DEAD)}


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_a_group_left_alone_becomes_empty(seed: int, steps: int) -> None:
    """Whatever happened, when everybody falls silent time alone empties the group, and nobody is left waiting."""
    world = World(seed)
    for _ in range(steps):
        world.step()
    for _ in range(200):
        if world.group.wake_ms == NEVER_MS:
            break
        world.now_ms = max(world.now_ms, world.group.wake_ms)
        world.carry_out(world.group.decide_tick(world.moment))
        world.check()
    assert world.group.state is ClassicState.EMPTY and not world.group.pending and not world.waiting


ARRIVALS = st.lists(st.tuples(st.integers(0, 250), st.booleans()), min_size=1, max_size=5)
"""Members that come to an empty group: how long after the one before, and whether it is a static member."""


@given(ARRIVALS)
def test_members_that_come_within_the_quiet_period_share_their_first_generation(
    arrivals: list[tuple[int, bool]],
) -> None:
    play = Play(LIMITS._replace(session_ms_max=60_000))
    last_ms, has_static, expected = 0, False, 0
    for number, (gap_ms, is_static) in enumerate(arrivals):
        period_ms = LIMITS.initial_rebalance_static_ms if has_static else LIMITS.initial_rebalance_ms
        if number and gap_ms >= period_ms:
            break
        play.wait(gap_ms)
        play.join(fresh=f"m{number}", instance=f"i{number}" if is_static else None)
        last_ms, has_static, expected = play.now_ms, has_static or is_static, expected + 1
    period_ms = LIMITS.initial_rebalance_static_ms if has_static else LIMITS.initial_rebalance_ms
    play.wait(last_ms + period_ms - 1 - play.now_ms)
    assert not play.answers, "the round closes once it has been quiet for long enough, not before"
    play.wait(1)
    assert len(play.answers) == expected and {one.generation for one in play.answers.values()} == {1}


NAMES = st.text(max_size=8)
MEMBERS = st.builds(
    SavedMember,
    id=NAMES,
    instance_id=st.none() | NAMES,
    client_id=NAMES,
    client_host=NAMES,
    rebalance_ms=st.integers(0, 2**31 - 1),
    session_ms=st.integers(0, 2**31 - 1),
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
SAVED = st.builds(
    SavedGroup,
    protocol_type=NAMES,
    generation=st.integers(0, 2**31 - 1),
    protocol=st.none() | NAMES,
    leader=st.none() | NAMES,
    since_ms=st.integers(0, 2**62),
    members=st.lists(MEMBERS, max_size=4, unique_by=lambda one: one.id).map(tuple),
)
EVENTS: st.SearchStrategy[Any] = st.builds(GroupSaved, NAMES, SAVED) | st.builds(GroupRemoved, NAMES)


@given(EVENTS)
def test_events_survive_their_bytes(event: Any) -> None:
    assert GROUP_RECORDS.decode(*GROUP_RECORDS.encode(event)) == event


@given(st.lists(EVENTS, max_size=10))
def test_apply_never_refuses_what_was_kept(events: list[Any]) -> None:
    group = Group("g", LIMITS)
    for event in events:
        group.apply(event)
    assert set(group.members) == ({one.id for one in group.saved.members} if group.saved else set())


@given(st.binary(max_size=120), st.integers(0, 119))
def test_bytes_of_any_kind_are_an_event_or_refused(value: bytes, cut: int) -> None:
    key, whole = GROUP_RECORDS.encode(GroupSaved("g", SavedGroup("consumer", 1, "range", "m", 5, ())))
    assert whole is not None
    for raw in (value, (3).to_bytes(2, "big") + value, whole[: cut % len(whole)], whole + value[:1]):
        try:
            event = GROUP_RECORDS.decode(key, raw)
        except BrokerError as error:
            assert error.code == "TornSegment"
        else:
            assert GROUP_RECORDS.decode(*GROUP_RECORDS.encode(event)) == event
