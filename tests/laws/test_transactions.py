"""Laws of transactional ids: replay gives the same state, deciding changes nothing, nobody acts for a past epoch."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import BrokerError
from penstock.core.machines.transactions.records import decode, encode
from penstock.core.machines.transactions.transactions import Claim, Transactions
from penstock.core.machines.transactions.values import (
    EPOCH_MAX,
    NEXT,
    PREPARED,
    Enlisted,
    Event,
    Transaction,
    TransactionForgotten,
    TransactionSaved,
    TransactionState,
)

NAMES = st.sampled_from(["a", "b"])
TOPIC_IDS = st.sampled_from([b"", bytes(16), bytes(15) + b"1"])
PLACES = st.lists(
    st.builds(Enlisted, st.sampled_from(["t", "u"]), st.integers(0, 2), TOPIC_IDS), min_size=1, max_size=3
)
NO_CLAIM = Claim(-1, -1)

Decide = Callable[[Transactions, int], list[Event]]
BACK = st.integers(0, 3)
"""How many epochs ago the producer was told who it is; 0: it knows the latest."""


def claim(machine: Transactions, name: str, back: int) -> Claim:
    one = machine.find(name)
    return NO_CLAIM if one is None else Claim(one.producer_id, one.producer_epoch - back)


def init(name: str, back: int, tells: bool) -> Decide:
    def decide(machine: Transactions, step: int) -> list[Event]:
        expected = claim(machine, name, back) if tells else None
        return machine.decide_init(name, 50, expected, new_id=step, now_ms=step)

    return decide


def add(name: str, back: int, places: list[Enlisted], is_v2: bool) -> Decide:
    return lambda machine, step: machine.decide_add(
        name, claim(machine, name, back), places, now_ms=step, is_v2=is_v2
    )


def end(name: str, back: int, commit: bool, is_v2: bool) -> Decide:
    return lambda machine, step: machine.decide_end(
        name, claim(machine, name, back), commit=commit, is_v2=is_v2, new_id=step, now_ms=step
    )


def complete(name: str) -> Decide:
    """Only a host that has written all markers asks for this."""

    def decide(machine: Transactions, step: int) -> list[Event]:
        one = machine.find(name)
        return machine.decide_complete(name, step) if one is not None and one.state in PREPARED else []

    return decide


def time_out(machine: Transactions, step: int) -> list[Event]:
    return [
        event for one in machine.timed_out(step) for event in machine.decide_fence(one.transactional_id, step)
    ]


COMMANDS: st.SearchStrategy[Decide] = st.one_of(
    st.builds(init, NAMES, BACK, st.booleans()),
    st.builds(add, NAMES, BACK, PLACES, st.booleans()),
    st.builds(end, NAMES, BACK, st.booleans(), st.booleans()),
    st.builds(complete, NAMES),
    st.just(time_out),
    st.builds(lambda age: lambda machine, step: machine.decide_expire(step, age), st.integers(0, 60)),
)
STARTS = st.lists(
    st.builds(
        lambda name, epoch: TransactionSaved(Transaction(name, 1, epoch)),
        NAMES,
        st.sampled_from([0, 7, EPOCH_MAX - 2, EPOCH_MAX - 1, EPOCH_MAX]),
    ),
    max_size=2,
)


def live(starts: list[TransactionSaved], commands: list[Decide]) -> tuple[Transactions, list[Event]]:
    """Run commands as a host does; deciding alone must change nothing, and moves must be those of the table."""
    machine, happened = Transactions(), list[Event](starts)
    for event in starts:
        machine.apply(event)
    for step, decide in enumerate(commands, start=10):
        before = machine.all
        try:
            events = decide(machine, step * 10)
        except BrokerError:
            events = []
        assert machine.all == before, "decide wrote"
        for event in events:
            _check_move(machine, event)
            machine.apply(event)
        happened += events
    return machine, happened


def _check_move(machine: Transactions, event: Event) -> None:
    if isinstance(event, TransactionForgotten):
        return
    now = event.transaction
    was = machine.find(now.transactional_id) or Transaction(now.transactional_id, now.producer_id)
    assert now.state in {target for (source, _), target in NEXT.items() if source is was.state}
    assert 0 <= now.producer_epoch <= EPOCH_MAX
    if now.producer_id == was.producer_id:
        assert now.producer_epoch >= was.producer_epoch, "an epoch came back"
    else:
        assert now.producer_epoch == 0 and was.producer_epoch >= EPOCH_MAX - 1
    if now.state is TransactionState.ONGOING:
        assert now.partitions and now.started_ms >= 0
        names = [(at.topic, at.partition) for at in now.partitions]
        assert len(set(names)) == len(names), "a partition is in twice"


def replay(events: list[Event]) -> Transactions:
    machine = Transactions()
    for event in events:
        read = decode(*encode(event))
        assert read == event
        machine.apply(event)
    return machine


@given(STARTS, st.lists(COMMANDS, max_size=40))
def test_replaying_the_events_gives_the_live_state(
    starts: list[TransactionSaved], commands: list[Decide]
) -> None:
    machine, events = live(starts, commands)
    assert replay(events).all == machine.all
    assert replay(events).timed_out(10**6) == machine.timed_out(10**6)


@given(STARTS, st.lists(COMMANDS, max_size=40), st.integers(0, 40))
def test_replaying_a_log_compacted_anywhere_gives_the_live_state(
    starts: list[TransactionSaved], commands: list[Decide], cleaned: int
) -> None:
    machine, events = live(starts, commands)
    last = {encode(event)[0]: place for place, event in enumerate(events[:cleaned])}
    kept = [events[place] for place in sorted(last.values())]
    assert replay(kept + events[cleaned:]).all == machine.all


@given(STARTS, st.lists(COMMANDS, max_size=30), NAMES, st.integers(1, 5), PLACES, st.booleans())
def test_who_was_fenced_can_add_nothing_and_end_nothing(
    starts: list[TransactionSaved],
    commands: list[Decide],
    name: str,
    back: int,
    places: list[Enlisted],
    is_v2: bool,
) -> None:
    machine, _ = live(starts, commands)
    one = machine.find(name)
    if one is None:
        return
    old = Claim(one.producer_id, one.producer_epoch - back)
    for decide in (
        add(name, back, places, is_v2),
        end(name, back, True, is_v2),
        end(name, back, False, is_v2),
    ):
        try:
            events = decide(machine, 10**6)
        except BrokerError:
            continue
        assert events == [] and back == 1 and is_v2, f"{old} acted on {one}"


@given(st.binary(max_size=40), st.none() | st.binary(max_size=80))
def test_bytes_of_any_kind_are_an_event_or_refused(key: bytes, value: bytes | None) -> None:
    try:
        event = decode(key, value)
    except BrokerError as error:
        assert error.code == "TornSegment"
    else:
        assert event is None or decode(*encode(event)) == event
