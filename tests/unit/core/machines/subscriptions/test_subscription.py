"""The subscription, rule by rule: turns, windows, what comes back, what dies, and what a restart keeps."""

from __future__ import annotations

import pytest

from penstock.core.errors import NotHeld, UnknownMember
from penstock.core.machine import NEVER_MS, Decision
from penstock.core.machines.subscriptions.events import (
    SUBSCRIPTION_RECORDS,
    BlockSet,
    Event,
    Feed,
    Freed,
    Mark,
    MarkState,
    StartMoved,
)
from penstock.core.machines.subscriptions.subscription import (
    Available,
    DeadLetter,
    Delivery,
    Outcome,
    Subscription,
    SubscriptionTerms,
)

FEED = Feed("work", bytes(15) + b"\1", 0)
TERMS = SubscriptionTerms(hold_ms=30_000, deliveries_max=2, in_flight_max=6, has_dead_letters=True)
ACCEPT, RELEASE, REJECT = Outcome.ACCEPT, Outcome.RELEASE, Outcome.REJECT


class Stage:
    """A subscription from offset 0 on, with members `a` and `b` of three messages each."""

    def __init__(self, terms: SubscriptionTerms = TERMS) -> None:
        self.machine = Subscription(FEED, terms)
        self.kept: list[Event] = []
        self.apply(self.machine.decide_start(0))
        for name in ("a", "b"):
            self.apply(self.machine.decide_join(name, 3))

    def apply(self, events: list[Event]) -> None:
        for event in events:
            self.kept += [event] if SUBSCRIPTION_RECORDS.is_persisted(event) else []
            self.machine.apply(event)

    def run(self, decision: Decision) -> list[object]:
        self.apply(decision.events)
        assert isinstance(decision.answer, list)
        return decision.answer

    def dispatch(
        self, end: int, now_ms: int = 0, count: int = 100, holes: tuple[int, ...] = ()
    ) -> list[object]:
        offsets = [one for one in range(self.machine.cursor, end) if one not in holes]
        return self.run(self.machine.decide_dispatch(Available(offsets, end), now_ms, count))

    def settle(self, member_id: str, **outcomes: Outcome) -> list[object]:
        wanted = {int(name[1:]): outcome for name, outcome in outcomes.items()}
        return self.run(self.machine.decide_settle(member_id, wanted))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_members_take_turns_and_full_windows_are_passed_over(stage: Stage) -> None:
    assert stage.dispatch(3) == [Delivery(0, "a", 1), Delivery(1, "b", 1), Delivery(2, "a", 1)]
    assert stage.dispatch(4) == [Delivery(3, "b", 1)]
    stage.settle("a", _0=ACCEPT)
    assert stage.dispatch(9) == [Delivery(4, "a", 1), Delivery(5, "b", 1), Delivery(6, "a", 1)]
    assert stage.dispatch(9) == [], "both windows are full"


def test_one_member_can_be_given_messages_alone(stage: Stage) -> None:
    available = Available(range(9), 9)
    assert stage.run(stage.machine.decide_acquire("b", available, 0, 2)) == [
        Delivery(0, "b", 1),
        Delivery(1, "b", 1),
    ]
    with pytest.raises(UnknownMember):
        stage.machine.decide_acquire("z", available, 0, 2)


def test_settling_in_order_moves_the_start_and_writes_no_marks(stage: Stage) -> None:
    stage.dispatch(4)
    stage.settle("a", _0=ACCEPT, _2=ACCEPT)
    assert stage.machine.marks == {2: Mark(MarkState.DONE, 1)}
    stage.settle("b", _1=ACCEPT, _3=ACCEPT)
    assert (stage.machine.start_offset, stage.machine.marks) == (4, {})
    assert [type(event) for event in stage.kept] == [StartMoved, StartMoved, BlockSet, StartMoved]


def test_what_comes_back_is_delivered_first_and_counted(stage: Stage) -> None:
    stage.dispatch(2)
    assert stage.settle("a", _0=RELEASE) == []
    assert stage.dispatch(3) == [Delivery(0, "a", 2), Delivery(2, "b", 1)]


def test_what_comes_back_too_often_dies_and_is_done_once_it_is_buried(stage: Stage) -> None:
    stage.dispatch(1)
    stage.settle("a", _0=RELEASE)
    stage.dispatch(1)
    assert stage.settle("b", _0=RELEASE) == [DeadLetter(0, 2)]
    assert (stage.machine.dying, stage.machine.start_offset) == ([0], 0)
    assert stage.dispatch(1) == []
    stage.apply(stage.machine.decide_bury([0, 7]))
    assert (stage.machine.dying, stage.machine.start_offset) == ([], 1)
    assert stage.machine.decide_bury([0]) == []


def test_a_rejected_message_dies_at_once(stage: Stage) -> None:
    stage.dispatch(1)
    assert stage.settle("a", _0=REJECT) == [DeadLetter(0, 1)]


def test_without_a_dead_letter_topic_what_dies_is_done() -> None:
    stage = Stage(TERMS._replace(has_dead_letters=False))
    stage.dispatch(1)
    assert stage.settle("a", _0=REJECT) == []
    assert stage.machine.start_offset == 1


def test_time_takes_messages_back_unless_they_are_renewed(stage: Stage) -> None:
    stage.dispatch(2)
    assert stage.machine.wake_ms == 30_000
    stage.apply(stage.machine.decide_renew("b", [1], 20_000))
    assert stage.machine.decide_tick(29_999).events == []
    assert stage.machine.decide_tick(30_000).events[0] == Freed(FEED, [0], is_ready=True)
    stage.run(stage.machine.decide_tick(30_000))
    assert (stage.machine.ready, list(stage.machine.held), stage.machine.wake_ms) == ([0], [1], 50_000)
    with pytest.raises(NotHeld):
        stage.settle("a", _0=ACCEPT)


@pytest.mark.parametrize(("is_counted", "number"), [(True, 2), (False, 1)])
def test_a_member_that_goes_leaves_its_messages_to_others(
    stage: Stage, is_counted: bool, number: int
) -> None:
    stage.dispatch(2)
    stage.run(stage.machine.decide_leave("a", is_counted=is_counted))
    assert stage.dispatch(2) == [Delivery(0, "b", number)]
    with pytest.raises(UnknownMember):
        stage.machine.decide_leave("a", is_counted=True)


def test_settling_is_all_or_nothing(stage: Stage) -> None:
    stage.dispatch(2)
    for member_id, outcomes in (
        ("a", {"_0": ACCEPT, "_1": ACCEPT}),
        ("b", {"_9": ACCEPT}),
        ("z", {"_0": ACCEPT}),
    ):
        with pytest.raises(NotHeld):
            stage.settle(member_id, **outcomes)
    assert sorted(stage.machine.held) == [0, 1]
    with pytest.raises(NotHeld):
        stage.machine.decide_renew("a", [0, 1], 5)


def test_an_old_message_that_is_not_settled_holds_up_the_window(stage: Stage) -> None:
    stage.dispatch(4)
    stage.settle("a", _2=ACCEPT)
    stage.settle("b", _1=ACCEPT, _3=ACCEPT)
    assert stage.dispatch(50) == [Delivery(4, "a", 1), Delivery(5, "b", 1)], (
        "six in flight, all because of one"
    )
    stage.settle("a", _0=ACCEPT)
    assert stage.machine.start_offset == 4
    assert len(stage.dispatch(50)) == 4


def test_holes_in_the_log_hold_nothing_up(stage: Stage) -> None:
    assert stage.dispatch(6, holes=(0, 1, 3, 5)) == [Delivery(2, "a", 1), Delivery(4, "b", 1)]
    stage.dispatch(6, holes=(5,))
    stage.settle("b", _4=ACCEPT)
    assert stage.machine.start_offset == 2
    stage.settle("a", _2=ACCEPT)
    assert stage.machine.start_offset == 6


def test_a_restart_keeps_what_is_settled_and_delivers_the_rest_again(stage: Stage) -> None:
    stage.dispatch(5)
    stage.settle("a", _0=ACCEPT, _4=RELEASE)
    stage.settle("b", _3=ACCEPT, _1=REJECT)
    revived = Stage()
    for event in stage.kept:
        revived.machine.apply(SUBSCRIPTION_RECORDS.decode(*SUBSCRIPTION_RECORDS.encode(event)))
    assert revived.machine.dying == [1]
    assert revived.machine.wake_ms == NEVER_MS
    assert revived.dispatch(6) == [Delivery(2, "a", 1), Delivery(4, "b", 2), Delivery(5, "a", 1)]


def test_the_log_may_let_go_of_messages_that_nobody_settled(stage: Stage) -> None:
    stage.dispatch(4)
    stage.settle("b", _3=ACCEPT)
    assert stage.machine.decide_trim(0) == []
    stage.apply(stage.machine.decide_trim(100))
    assert (stage.machine.start_offset, stage.machine.held, stage.machine.blocks) == (100, {}, {})
    assert stage.machine.members.holding == {"a": 0, "b": 0}


def test_it_can_start_over_and_be_removed(stage: Stage) -> None:
    stage.dispatch(4)
    stage.settle("b", _3=ACCEPT)
    stage.apply(stage.machine.decide_reset(2))
    assert stage.dispatch(5)[0] == Delivery(2, "a", 1)
    assert stage.machine.members.windows == {"a": 3, "b": 3}
    stage.apply(stage.machine.decide_remove())
    assert stage.machine.start_offset is None
    assert stage.machine.decide_tick(10**9).events == []
    last = {
        SUBSCRIPTION_RECORDS.encode(event)[0]: SUBSCRIPTION_RECORDS.encode(event)[1] for event in stage.kept
    }
    assert set(last.values()) == {None}
