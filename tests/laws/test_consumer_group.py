"""Laws of consumer groups: replay gives the same state, deciding writes nothing, no partition is ever with two clients,
and when changes end everybody gets what is theirs."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import BrokerError, FencedInstance, FencedMember, UnknownMember
from penstock.core.machine import Moment
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Topic, TopicRemoved, TopicSaved
from penstock.core.machines.consumer_group.assignors import Assignment
from penstock.core.machines.consumer_group.events import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    PAUSE_EPOCH,
    MemberState,
    assignment_of,
    partitions_of,
)
from penstock.core.machines.consumer_group.group import ConsumerGroup, ConsumerGroupTerms, MemberHeartbeat
from penstock.core.machines.consumer_group.records import CONSUMER_GROUP_RECORDS as RECORDS
from penstock.core.machines.consumer_group.state import ConsumerGroupState
from penstock.core.machines.consumer_group.targets import Topics, topic_names

TERMS = ConsumerGroupTerms(
    session_ms=100, heartbeat_ms=10, size_max=4, classic_session_ms_min=1, classic_session_ms_max=1_000
)
REBALANCE_MS = 60
TOPIC_NAMES = ["a", "ab", "b"]
SUBSCRIPTIONS: list[tuple[tuple[str, ...], str]] = [
    (("a",), ""),
    (("a", "b"), ""),
    (("a", "ab", "b"), ""),
    ((), "a.*"),
    (("b",), "a"),
    ((), ""),
]
ASSIGNORS = ["uniform", "range", "roundrobin"]


@dataclass
class Client:
    """A well-behaved member: it uses only what it was given, and gives up what it is told to in its own time."""

    member_id: str
    instance_id: str | None
    subscription: tuple[tuple[str, ...], str]
    assignor: str
    epoch: int = JOIN_EPOCH
    owned: dict[bytes, set[int]] = field(default_factory=dict)
    told: dict[bytes, set[int]] = field(default_factory=dict)
    is_in: bool = False

    def beat(self) -> MemberHeartbeat:
        joins = self.epoch == JOIN_EPOCH
        names, regex = self.subscription
        return MemberHeartbeat(
            member_id=self.member_id,
            epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_ms=REBALANCE_MS,
            topic_names=names,
            topic_regex=regex,
            assignor=self.assignor,
            owned={} if joins else assignment_of(self.owned),
        )

    def hear(self, epoch: int, assignment: Assignment | None) -> None:
        self.epoch, self.is_in = epoch, True
        if assignment is not None:
            self.told = {topic: set(partitions) for topic, partitions in assignment.items()}

    def obey(self) -> None:
        """Stop using what was taken away, begin to use what was given."""
        self.owned = {topic: set(partitions) for topic, partitions in self.told.items()}

    def lose_all(self) -> None:
        self.epoch, self.owned, self.told, self.is_in = JOIN_EPOCH, {}, {}, False


def seen(state: ConsumerGroupState) -> dict[str, Any]:
    """Everything that a group knows, as values."""
    return {
        name: dict(value) if hasattr(value, "items") else value
        for name, value in vars(state).items()
        if name != "terms"
    }


def kept(state: ConsumerGroupState) -> dict[str, Any]:
    """What survives the node."""
    volatile = {"deadlines", "revocations", "checked_version", "wake_ms"}
    return {name: value for name, value in seen(state).items() if name not in volatile}


class World:
    """A group, its topics, its clients, and a log of what was kept."""

    def __init__(self) -> None:
        self.group = ConsumerGroup("g", TERMS)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.catalog = Catalog()
        self.version = 0
        self.now_ms = 1_000
        self.fresh = 0
        self.clients: list[Client] = []
        for name, count in zip(TOPIC_NAMES, (3, 1, 4), strict=True):
            self.set_topic(name, count)

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, 1_000_000 + self.now_ms)

    def set_topic(self, name: str, count: int) -> None:
        self.version += 1
        known = self.catalog.find(name)
        topic_id = known.id if known is not None else self.version.to_bytes(16, "big")
        self.catalog.apply(TopicSaved(Topic(topic_id, name, count, {}, False, 0)))

    def drop_topic(self, name: str) -> None:
        known = self.catalog.find(name)
        if known is not None:
            self.version += 1
            self.catalog.apply(TopicRemoved(known.id))

    def carry_out(self, events: list[Any]) -> None:
        for event in events:
            if RECORDS.is_persisted(event):
                self.log.append(RECORDS.encode(event))
            self.group.apply(event)
        self.check_safety()

    def decide(self, beat: MemberHeartbeat) -> Any:
        before = seen(self.group)
        try:
            decision = self.group.decide_heartbeat(beat, Topics(self.catalog, self.version), self.moment)
        finally:
            assert seen(self.group) == before, "decide wrote"
        self.carry_out(decision.events)
        return decision.answer

    def heartbeat(self, client: Client) -> None:
        try:
            answer = self.decide(client.beat())
        except (FencedMember, UnknownMember, FencedInstance):
            client.lose_all()
            return
        except BrokerError:
            return
        client.hear(answer.epoch, answer.assignment)

    def leave(self, client: Client, epoch: int) -> None:
        if not client.is_in:
            return
        client.owned = {}
        with suppress(BrokerError):  # it may be fenced already
            self.decide(
                MemberHeartbeat(member_id=client.member_id, epoch=epoch, instance_id=client.instance_id)
            )
        client.lose_all()
        if epoch == PAUSE_EPOCH:
            client.member_id = self.fresh_id()

    def fresh_id(self) -> str:
        self.fresh += 1
        return f"m{self.fresh}"

    def tick(self) -> None:
        before = seen(self.group)
        decision = self.group.decide_tick(self.moment)
        assert seen(self.group) == before, "decide wrote"
        gone = set(self.group.members)
        self.carry_out(decision.events)
        gone -= set(self.group.members)
        for client in self.clients:
            if client.member_id in gone:
                client.owned = (
                    client.told
                ) = {}  # its own session has ended as well: it stops using what it had

    def restart(self) -> None:
        """Only what was kept comes back."""
        revived = replay(self.log)
        assert kept(revived) == kept(self.group)
        self.group = revived
        self.carry_out(revived.decide_revive(self.moment).events)

    def check_safety(self) -> None:
        holders = Counter(
            place for client in self.clients for place in partitions_of(assignment_of(client.owned))
        )
        assert all(count == 1 for count in holders.values()), f"two clients use the same partition: {holders}"
        placed = Counter(
            place
            for current in self.group.current_assignments.values()
            for place in (*partitions_of(current.assigned), *partitions_of(current.revoking))
        )
        assert all(count == 1 for count in placed.values()), f"given twice: {placed}"
        assert self.group.holders == {
            place: member_id
            for member_id, current in self.group.current_assignments.items()
            for place in (*partitions_of(current.assigned), *partitions_of(current.revoking))
        }


def replay(log: list[tuple[bytes, bytes | None]]) -> ConsumerGroup:
    group = ConsumerGroup("g", TERMS)
    for key, value in log:
        group.apply(RECORDS.decode(key, value))
    return group


def compacted(log: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    """What compaction keeps: the last record of each key, in the order of the log."""
    last = {key: place for place, (key, _) in enumerate(log)}
    return [log[place] for place in sorted(last.values())]


STEPS = st.one_of(
    st.tuples(st.just("start"), st.integers(0, 5), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("beat"), st.integers(0, 5)),
    st.tuples(st.just("beat"), st.integers(0, 5)),
    st.tuples(st.just("obey"), st.integers(0, 5)),
    st.tuples(st.just("obey all")),
    st.tuples(st.just("beat all")),
    st.tuples(st.just("beat all")),
    st.tuples(st.just("leave"), st.integers(0, 5)),
    st.tuples(st.just("pause"), st.integers(0, 5)),
    st.tuples(st.just("resubscribe"), st.integers(0, 5), st.integers(0, 5)),
    st.tuples(st.just("forget"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([5, 40, 70, 101])),
    st.tuples(st.just("grow"), st.sampled_from(TOPIC_NAMES), st.integers(1, 6)),
    st.tuples(st.just("drop"), st.sampled_from(TOPIC_NAMES)),
    st.tuples(st.just("restart")),
)


def act(world: World, step: tuple[Any, ...]) -> None:
    match step:
        case ("start", subscription, assignor, is_static):
            member_id = world.fresh_id()
            instance_id = f"i{len(world.clients) % 3}" if is_static else None
            client = Client(member_id, instance_id, SUBSCRIPTIONS[subscription], ASSIGNORS[assignor])
            world.clients.append(client)
            world.heartbeat(client)
        case ("beat all",):
            for client in world.clients:
                world.heartbeat(client)
        case ("obey all",):
            for client in world.clients:
                client.obey()
                world.check_safety()
        case ("wait", wait_ms):
            world.now_ms += wait_ms
            world.tick()
        case ("grow", name, count):
            known = world.catalog.find(name)
            world.set_topic(name, max(count, known.partition_count if known is not None else 1))
        case ("drop", name):
            world.drop_topic(name)
        case ("restart",):
            world.restart()
        case (verb, place, *rest) if world.clients:
            client = world.clients[place % len(world.clients)]
            match verb:
                case "beat":
                    world.heartbeat(client)
                case "obey":
                    client.obey()
                    world.check_safety()
                case "leave":
                    world.leave(client, LEAVE_EPOCH)
                case "pause" if client.instance_id is not None:
                    world.leave(client, PAUSE_EPOCH)
                case "resubscribe":
                    client.subscription = SUBSCRIPTIONS[rest[0]]
                case "forget":
                    client.lose_all()  # it crashed and comes back under the same id


def run(steps: list[tuple[Any, ...]]) -> World:
    world = World()
    opening = (("start", 2, 0, False), ("obey all",), ("start", 2, 0, False))
    for step in (*opening, *steps):
        act(world, step)
    return world


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_no_partition_is_ever_with_two_clients_and_deciding_writes_nothing(
    steps: list[tuple[Any, ...]],
) -> None:
    run(steps)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=40), st.integers(0, 200))
def test_replaying_a_log_compacted_anywhere_gives_the_live_state(
    steps: list[tuple[Any, ...]], cleaned: int
) -> None:
    world = run(steps)
    assert kept(replay(world.log)) == kept(world.group)
    assert kept(replay(compacted(world.log[:cleaned]) + world.log[cleaned:])) == kept(world.group)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_once_changes_end_every_member_gets_its_target_and_every_topic_is_read(
    steps: list[tuple[Any, ...]],
) -> None:
    world = run(steps)
    world.clients = [client for client in world.clients if client.instance_id is None]
    world.now_ms += TERMS.session_ms
    world.tick()
    for client in world.clients:
        client.lose_all()
    world.clients = world.clients[: TERMS.size_max]
    check_settles(world)
    world.set_topic("a", 9)
    check_settles(world)
    world.drop_topic("b")
    check_settles(world)


def check_settles(world: World) -> None:
    """A few rounds of heartbeats, and everybody has what is theirs."""
    for _ in range(4):
        for client in world.clients:
            client.obey()
            world.heartbeat(client)
            client.obey()
            world.check_safety()
    group = world.group
    assert group.members.keys() == {client.member_id for client in world.clients}
    assert group.state_name == ("Stable" if world.clients else "Empty")
    for client in world.clients:
        target = group.target(client.member_id)
        assert group.current_assignment(client.member_id).assigned == target == assignment_of(client.owned)
    wanted = {name for member in group.members.values() for name in topic_names(group, member)}
    topics = [topic for name in sorted(wanted) if (topic := world.catalog.find(name)) is not None]
    assert set(group.holders) == {(topic.id, one) for topic in topics for one in range(topic.partition_count)}
    assert all(current.state is MemberState.STABLE for current in group.current_assignments.values())


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_a_group_that_is_removed_leaves_nothing(steps: list[tuple[Any, ...]]) -> None:
    world = run(steps)
    world.now_ms += TERMS.session_ms
    world.tick()
    assert world.group.is_empty
    world.carry_out(world.group.decide_remove())
    assert world.group.is_dead
    assert replay(world.log).is_dead
    assert all(value is None for _, value in compacted(world.log))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 20), st.none() | st.binary(max_size=60), st.binary(max_size=20))
def test_bytes_of_any_kind_are_an_event_or_torn(version: int, value: bytes | None, rest: bytes) -> None:
    try:
        event = RECORDS.decode(version.to_bytes(2, "big") + rest, value)
    except BrokerError as error:
        assert error.code == "TornSegment"
    else:
        if event is not None:
            assert RECORDS.decode(*RECORDS.encode(event)) == event
