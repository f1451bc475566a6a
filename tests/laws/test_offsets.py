"""Laws of committed offsets: deciding changes nothing, replay gives the live state, also of a compacted log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import BrokerError
from penstock.core.machines.offsets.offsets import Committed, Event, Offsets
from penstock.core.machines.offsets.records import OFFSET_RECORDS
from penstock.core.model import TopicPartition

GROUPS = st.sampled_from(["g", "h"])
PLACES = st.builds(TopicPartition, st.sampled_from(["t", "u"]), st.integers(0, 2))
COMMITTED = st.builds(
    Committed,
    offset=st.integers(-1, 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(max_size=5) | st.just("x" * 5_000),
    commit_ms=st.integers(0, 100),
    expire_ms=st.just(-1),
)
EXPIRING = st.builds(
    Committed, st.integers(0, 9), st.just(-1), st.text(max_size=5), st.integers(0, 9), st.integers(0, 99)
)
PRODUCERS = st.integers(0, 2)

Decide = Callable[[Offsets], list[Event]]
COMMANDS: st.SearchStrategy[Decide] = st.one_of(
    st.builds(lambda g, p, c: lambda m: [m.decide_commit(g, p, c)], GROUPS, PLACES, COMMITTED | EXPIRING),
    st.builds(
        lambda g, i, e, p, c: lambda m: [m.decide_pend(g, i, e, p, c)],
        GROUPS,
        PRODUCERS,
        st.integers(0, 1),
        PLACES,
        COMMITTED,
    ),
    st.builds(lambda i, c: lambda m: m.decide_settle(i, is_commit=c), PRODUCERS, st.booleans()),
    st.builds(lambda g, p: lambda m: m.decide_remove(g, p), GROUPS, PLACES),
    st.builds(lambda g: lambda m: m.decide_remove_group(g), GROUPS),
    st.builds(lambda g, t: lambda m: m.decide_remove_topics(g, [t]), GROUPS, st.sampled_from(["t", "u"])),
    st.builds(
        lambda g, now: lambda m: m.decide_expire(g, lambda topic, commit_ms: commit_ms, now, 50),
        GROUPS,
        st.integers(0, 200),
    ),
)


def state(machine: Offsets) -> object:
    """Everything that can be seen of the offsets."""
    groups = machine.group_ids
    return (
        [(group, list(machine.of_group(group).items())) for group in groups],
        {one: sorted(machine.producers[one]) for one in machine.producers},
        [(group, one, machine.pended(group, one)) for group in groups for one in range(3)],
    )


def live(commands: list[Decide]) -> tuple[Offsets, list[Event]]:
    machine, happened = Offsets(), []
    for decide in commands:
        before = state(machine)
        try:
            events = decide(machine)
        except BrokerError:
            events = []
        assert state(machine) == before, "decide wrote"
        for event in events:
            machine.apply(event)
        happened += events
    return machine, happened


def replay(records: list[tuple[bytes, bytes | None]]) -> Offsets:
    machine = Offsets()
    for record in records:
        machine.apply(OFFSET_RECORDS.decode(*record))  # type: ignore[arg-type]
    return machine


@given(st.lists(COMMANDS, max_size=30), st.integers(0, 60))
def test_replaying_a_log_compacted_anywhere_gives_the_live_state(
    commands: list[Decide], cleaned: int
) -> None:
    machine, events = live(commands)
    records = [OFFSET_RECORDS.encode(event) for event in events]
    last = {key: place for place, (key, _) in enumerate(records[:cleaned])}
    compacted = [records[place] for place in sorted(last.values())]
    assert state(replay(records)) == state(machine)
    assert state(replay(compacted + records[cleaned:])) == state(machine)


@given(st.lists(COMMANDS, max_size=30), PRODUCERS, st.booleans())
def test_a_transaction_settles_once_and_whole(
    commands: list[Decide], producer_id: int, is_commit: bool
) -> None:
    machine, _ = live(commands)
    expected = {group: machine.of_group(group) for group in ("g", "h")}
    if is_commit:
        for group in expected:
            expected[group] = dict(sorted({**expected[group], **machine.pended(group, producer_id)}.items()))
    for event in machine.decide_settle(producer_id, is_commit=is_commit):
        machine.apply(event)
    assert {group: machine.of_group(group) for group in ("g", "h")} == expected
    assert machine.decide_settle(producer_id, is_commit=is_commit) == []


@given(st.binary(max_size=40), st.none() | st.binary(max_size=60), st.sampled_from([0, 1, 30_000]))
def test_bytes_of_any_kind_are_an_event_or_refused(key: bytes, value: bytes | None, version: int) -> None:
    try:
        event: Any = OFFSET_RECORDS.decode(version.to_bytes(2, "big") + key, value)
    except BrokerError as error:
        assert error.code == "TornSegment"
    else:
        assert OFFSET_RECORDS.decode(*OFFSET_RECORDS.encode(event)) == event
