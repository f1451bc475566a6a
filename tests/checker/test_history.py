"""Histories survive the file, pair up, are refused when they cannot be one; cycles are found as in the whole graph."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker import cycles
from checker.analysis import analyse
from checker.findings import Findings
from checker.history import (
    INFO,
    INVOKE,
    OK,
    POLL,
    SEND,
    Event,
    MalformedHistory,
    decode,
    key_of,
    merge,
    operations,
    read_diary,
    read_history,
    topic_of,
    write_history,
)
from checker.model import Model
from checker.versions import Versions


@pytest.mark.parametrize("transactional", [False, True])
def test_file_and_back(tmp_path: Path, transactional: bool) -> None:
    events = Model(7, transactional=transactional).history(200)
    write_history(tmp_path / "h.jsonl", events)
    again = read_history(tmp_path / "h.jsonl")
    assert [event.encode() for event in again] == [event.encode() for event in events]
    assert analyse(again).findings.counts == analyse(events).findings.counts
    assert analyse(again).counts == analyse(events).counts


def test_a_torn_last_line_does_not_count(tmp_path: Path) -> None:
    events = Model(7).history(20)
    path = tmp_path / "diary.jsonl"
    write_history(path, events)
    text = path.read_text()
    path.write_text(text[:-5])
    assert len(read_diary(path)) == len(events) - 1
    with pytest.raises(MalformedHistory):
        read_history(path)
    path.write_text("")
    assert read_diary(path) == []


def test_keys_are_partitions() -> None:
    assert topic_of(7) == ("t3", 1)
    assert all(key_of(*topic_of(key)) == key for key in range(20))


def test_what_never_completed_is_unknown() -> None:
    (op,) = operations([Event(0, 1, INVOKE, SEND, [[SEND, 0, 5]])])
    assert (op.type, op.completed, op.sends) == (INFO, None, [(0, None, 5)])


def test_the_nemesis_takes_no_part() -> None:
    assert operations([Event(-1, 1, INFO, "kill", None)]) == []


@pytest.mark.parametrize(
    "events",
    [
        [Event(0, 1, OK, POLL)],
        [Event(0, 1, INVOKE, POLL), Event(0, 2, INVOKE, POLL)],
        [Event(0, 1, INVOKE, POLL), Event(0, 2, OK, SEND)],
    ],
)
def test_events_that_do_not_pair(events: list[Event]) -> None:
    with pytest.raises(MalformedHistory):
        operations(events)


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"process": 1}', "not json"])
def test_lines_that_are_no_events(line: str) -> None:
    with pytest.raises(MalformedHistory):
        decode(line)


def test_a_type_nobody_knows() -> None:
    line = Event(0, 1, "maybe", POLL).encode()
    with pytest.raises(MalformedHistory, match="maybe"):
        decode(line)


@st.composite
def tangled(draw: st.DrawFn) -> list[Event]:
    """A history of sends and polls that need not make any sense: everybody reads anything at any time."""
    processes = draw(st.integers(1, 4))
    count = draw(st.integers(1, 12))
    moments = draw(st.permutations([number // 2 for number in range(2 * count)]))
    busy: dict[int, int] = {}
    owner: dict[int, int] = {}
    events: list[Event] = []
    for now, number in enumerate(moments):
        if number not in owner:
            free = [process for process in range(processes + count) if process not in busy]
            owner[number] = free[0]
            busy[owner[number]] = number
            events.append(Event(owner[number], now, INVOKE, SEND, [[SEND, 0, number]]))
        else:
            del busy[owner[number]]
            read = draw(st.lists(st.integers(0, count - 1), max_size=2))
            mops = [[SEND, 0, [number, number]], [POLL, {0: [[value, value] for value in read]}]]
            events.append(Event(owner[number], now, OK, SEND, mops))
    return merge([events])


@given(tangled(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_spans_find_a_cycle_where_the_whole_graph_has_one(events: list[Event], ww_edges: bool) -> None:
    versions = Versions(operations(events))
    found = Findings()
    cycles.find_cycles(versions, found, ww_edges=ww_edges)
    ops = [op for op in versions.ops if versions.must_have_committed(op)]
    follow: dict[int, list[int]] = {index: [] for index in range(len(ops))}
    place = {op: index for index, op in enumerate(ops)}
    for reader in ops:
        for _, value in reader.polls.get(0, ()):
            writer = versions.writer[0].get(value)
            if writer in place and writer is not reader:
                follow[place[writer]].append(place[reader])
        for later in ops:
            if reader.completed is not None and reader.completed < later.invoked:
                follow[place[reader]].append(place[later])
    order = versions.of(0).order if ww_edges else []
    for one, two in pairwise(order):
        follow[place[versions.writer[0][one]]].append(place[versions.writer[0][two]])
    assert bool(found.counts) == bool(cycles.strongly_connected(follow))
