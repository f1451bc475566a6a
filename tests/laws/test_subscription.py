"""Laws of subscriptions: nothing is lost, nothing settled comes again, turns are strict, windows hold, replay gives
back what was kept, and deciding writes nothing."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import BrokerError
from penstock.core.machine import Decision
from penstock.core.machines.subscriptions.events import BLOCK_OFFSETS, Feed
from penstock.core.machines.subscriptions.events import SUBSCRIPTION_RECORDS as RECORDS
from penstock.core.machines.subscriptions.state import SubscriptionState
from penstock.core.machines.subscriptions.subscription import (
    Available,
    Outcome,
    Subscription,
    SubscriptionTerms,
)

FEED = Feed("work", bytes(15) + b"\1", 2)
TERMS = SubscriptionTerms(hold_ms=50, deliveries_max=3, in_flight_max=90, has_dead_letters=True)
NAMES = ["m1", "m2", "m3"]
Log = list[tuple[bytes, bytes | None]]


def kept(state: SubscriptionState) -> dict[str, Any]:
    return {"start": state.start_offset, "marks": state.marks, "blocks": set(state.blocks)}


def seen(state: SubscriptionState) -> dict[str, Any]:
    return {name: deepcopy(value) for name, value in vars(state).items() if name != "terms"}


class World:
    """A log with holes, a subscription to it, and a dead letter topic."""

    def __init__(self, holes: frozenset[int]) -> None:
        self.machine = Subscription(FEED, TERMS)
        self.log: Log = []
        self.holes = holes
        self.end = 0
        self.now_ms = 0
        self.accepted: set[int] = set()
        self.dead: set[int] = set()
        self.failures: dict[int, int] = {}
        self.letters: list[int] = []
        self.buried: set[int] = set()
        self.carry_out(self.machine.decide_start(0))

    @property
    def messages(self) -> set[int]:
        return set(range(self.end)) - self.holes

    @property
    def available(self) -> Available:
        return Available(
            [one for one in range(self.machine.cursor, self.end) if one not in self.holes], self.end
        )

    def carry_out(self, events: list[Any]) -> None:
        for event in events:
            if RECORDS.is_persisted(event):
                self.log.append(RECORDS.encode(event))
            self.machine.apply(event)
        self.check()

    def run(self, decision: Decision) -> Any:
        self.carry_out(decision.events)
        return decision.answer

    def deliver(self, decision: Decision) -> None:
        for offset, member_id, number in self.run(decision):
            assert offset in self.messages - self.accepted - self.dead, (
                f"{offset} was settled or is not there"
            )
            assert self.machine.held[offset].member_id == member_id
            assert number == self.failures.get(offset, 0) + 1

    def settle(self, member_id: str, outcomes: dict[int, Outcome]) -> None:
        held = {offset for offset, hold in self.machine.held.items() if hold.member_id == member_id}
        try:
            decision = self.machine.decide_settle(member_id, outcomes)
        except BrokerError:
            assert not outcomes.keys() <= held
            return
        assert outcomes.keys() <= held
        self.accepted |= {offset for offset, outcome in outcomes.items() if outcome is Outcome.ACCEPT}
        self.fail({offset for offset, outcome in outcomes.items() if outcome is not Outcome.ACCEPT})
        self.take_letters(self.run(decision))

    def fail(self, offsets: set[int]) -> None:
        for offset in offsets:
            self.failures[offset] = self.failures.get(offset, 0) + 1

    def take_letters(self, letters: Any) -> None:
        self.dead |= {letter.offset for letter in letters}
        self.letters += [letter.offset for letter in letters]

    def bury(self) -> None:
        self.buried |= set(self.letters)
        self.carry_out(self.machine.decide_bury(self.letters))
        self.letters = []

    def tick(self) -> None:
        self.fail({one for one, hold in self.machine.held.items() if hold.deadline_ms <= self.now_ms})
        self.take_letters(self.run(self.machine.decide_tick(self.now_ms)))
        assert self.machine.wake_ms > self.now_ms

    def restart(self) -> None:
        revived = replay(self.log)
        assert kept(revived) == kept(self.machine)
        self.machine = revived
        assert revived.dying == sorted(revived.dying)
        self.letters = revived.dying

    def check(self) -> None:
        machine = self.machine
        assert machine.start_offset is not None
        assert not {one for one in self.messages - self.accepted - self.buried if one < machine.start_offset}
        assert machine.members.holding == {
            name: sum(hold.member_id == name for hold in machine.held.values())
            for name in machine.members.windows
        }
        assert all(
            machine.members.holding[name] <= window for name, window in machine.members.windows.items()
        )
        assert machine.in_flight_count <= TERMS.in_flight_max
        assert machine.ready == sorted(set(machine.ready) - machine.held.keys())
        deadlines = [hold.deadline_ms for hold in machine.held.values()]
        assert deadlines == sorted(deadlines)


def replay(log: Log) -> Subscription:
    machine = Subscription(FEED, TERMS)
    for key, value in log:
        machine.apply(RECORDS.decode(key, value))
    return machine


def compacted(log: Log) -> Log:
    last = {key: place for place, (key, _) in enumerate(log)}
    return [log[place] for place in sorted(last.values())]


MEMBER = st.sampled_from(NAMES)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 200)),
    st.tuples(st.just("join"), MEMBER, st.integers(1, 40)),
    st.tuples(st.just("leave"), MEMBER, st.booleans()),
    st.tuples(st.just("dispatch"), st.integers(1, 100)),
    st.tuples(st.just("dispatch"), st.integers(1, 100)),
    st.tuples(st.just("acquire"), MEMBER, st.integers(1, 60)),
    st.tuples(st.just("settle"), MEMBER, st.just(Outcome.ACCEPT), st.integers(1, 3), st.integers(0, 4)),
    st.tuples(st.just("settle"), MEMBER, st.sampled_from(Outcome), st.integers(1, 5), st.integers(0, 4)),
    st.tuples(st.just("settle"), MEMBER, st.sampled_from(Outcome), st.integers(1, 5), st.integers(0, 4)),
    st.tuples(st.just("accept all"), MEMBER),
    st.tuples(st.just("settle stranger"), MEMBER, st.integers(0, 30)),
    st.tuples(st.just("renew"), MEMBER),
    st.tuples(st.just("wait"), st.sampled_from([10, 51])),
    st.tuples(st.just("bury")),
    st.tuples(st.just("restart")),
)
HOLES = st.frozensets(st.integers(0, 60), max_size=20)


def act(world: World, step: tuple[Any, ...]) -> None:
    machine = world.machine
    held = {
        name: [offset for offset, hold in machine.held.items() if hold.member_id == name]
        for name in machine.members.windows
    }
    match step:
        case ("append", count):
            world.end += count
        case ("join", name, window):
            if window >= machine.members.holding.get(name, 0):
                world.carry_out(machine.decide_join(name, window))
        case ("leave", name, is_counted) if name in machine.members.windows:
            if is_counted:
                world.fail(set(held[name]))
            world.take_letters(world.run(machine.decide_leave(name, is_counted=is_counted)))
        case ("dispatch", count):
            world.deliver(machine.decide_dispatch(world.available, world.now_ms, count))
        case ("acquire", name, count) if name in machine.members.windows:
            world.deliver(machine.decide_acquire(name, world.available, world.now_ms, count))
        case ("settle", name, outcome, every, first) if name in machine.members.windows:
            world.settle(name, dict.fromkeys(held[name][first::every], outcome))
        case ("accept all", name) if name in machine.members.windows:
            world.settle(name, dict.fromkeys(held[name], Outcome.ACCEPT))
        case ("settle stranger", name, offset):
            world.settle(name, {offset: Outcome.ACCEPT})
        case ("renew", name) if name in machine.members.windows:
            world.carry_out(machine.decide_renew(name, held[name], world.now_ms))
        case ("wait", wait_ms):
            world.now_ms += wait_ms
            world.tick()
        case ("bury",):
            world.bury()
        case ("restart",):
            world.restart()


def run(steps: list[tuple[Any, ...]], holes: frozenset[int]) -> World:
    world = World(holes)
    opening = (("append", 150), ("join", "m1", 40), ("join", "m2", 70), ("dispatch", 100))
    for step in (*opening, *steps):
        act(world, step)
    return world


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40), HOLES)
def test_every_message_is_settled_once_or_dead_and_none_is_lost(
    steps: list[tuple[Any, ...]], holes: frozenset[int]
) -> None:
    world = run(steps, holes)
    for name in list(world.machine.members.windows):
        act(world, ("leave", name, False))
    world.carry_out(world.machine.decide_join("last", 50))
    for _ in range(len(world.messages) + 5):
        assert len(world.machine.blocks) <= 1 + TERMS.in_flight_max // BLOCK_OFFSETS + 1
        world.bury()
        world.deliver(world.machine.decide_dispatch(world.available, world.now_ms, 50))
        world.settle("last", dict.fromkeys(world.machine.held, Outcome.ACCEPT))
        if world.machine.start_offset == world.end:
            break
    assert world.accepted | world.buried == world.messages
    assert not world.accepted & world.buried
    highest = max(world.messages, default=-1)
    assert world.machine.start_offset is not None and world.machine.start_offset > highest
    assert (world.machine.in_flight_count, world.machine.marks) == (0, {})
    assert len(world.machine.blocks) <= 1, "records of blocks that were passed are gone"


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40), HOLES, st.integers(0, 200))
def test_replaying_a_log_compacted_anywhere_gives_what_was_kept(
    steps: list[tuple[Any, ...]], holes: frozenset[int], cleaned: int
) -> None:
    world = run(steps, holes)
    assert kept(replay(world.log)) == kept(world.machine)
    assert kept(replay(compacted(world.log[:cleaned]) + world.log[cleaned:])) == kept(world.machine)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=30), HOLES)
def test_deciding_writes_nothing(steps: list[tuple[Any, ...]], holes: frozenset[int]) -> None:
    world = run(steps, holes)
    machine = world.machine
    before = seen(machine)
    machine.decide_dispatch(world.available, world.now_ms, 100)
    machine.decide_tick(world.now_ms + 1_000)
    machine.decide_bury(range(world.end))
    machine.decide_trim(world.end)
    machine.decide_reset(0)
    for name in machine.members.windows:
        machine.decide_leave(name, is_counted=True)
        mine = [offset for offset, hold in machine.held.items() if hold.member_id == name]
        machine.decide_settle(name, dict.fromkeys(mine, Outcome.REJECT))
    assert seen(machine) == before


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.integers(0, 30),
    st.lists(st.integers(1, 7), min_size=1),
)
def test_turns_are_strict_among_those_with_room(windows: list[int], count: int, bites: list[int]) -> None:
    """However the dealing is cut into calls, nobody gets a second message before everybody with room got one."""
    whole, cut = World(frozenset()), World(frozenset())
    for world in (whole, cut):
        world.end = count
        for number, window in enumerate(windows):
            world.carry_out(world.machine.decide_join(f"m{number}", window))
    once = whole.run(whole.machine.decide_dispatch(whole.available, 0, count + 1))
    pieces = []
    for place in range(count + 1):
        pieces += cut.run(cut.machine.decide_dispatch(cut.available, 0, bites[place % len(bites)]))
    assert pieces == once
    rounds = [
        f"m{number}" for turn in range(max(windows)) for number, window in enumerate(windows) if window > turn
    ]
    assert [(one.offset, one.member_id) for one in once] == list(enumerate(rounds[:count]))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([1000, 1001]), st.binary(max_size=50), st.none() | st.binary(max_size=50))
def test_bytes_of_any_kind_are_an_event_or_torn(version: int, rest: bytes, value: bytes | None) -> None:
    try:
        event = RECORDS.decode(version.to_bytes(2, "big") + rest, value)
    except BrokerError as error:
        assert error.code == "TornSegment"
    else:
        assert event is not None
        assert RECORDS.decode(*RECORDS.encode(event)) == event
