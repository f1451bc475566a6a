"""The checker finds each planted fault and nothing else, and nothing in histories of a log that is right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker import findings as kinds
from checker.analysis import analyse
from checker.history import FAIL, INFO, OK, Event, operations
from checker.model import Model
from checker.plants import (
    PLANTS,
    REPLICA_PLANTS,
    WW_PLANTS,
    Plant,
    lose_record,
    planted,
    subscribed_poll_skip,
)
from checker.versions import Versions

OPS = 120
NATURAL = {kinds.INT_SEND_SKIP}
NATURAL_WITH_WW = NATURAL | {kinds.G0 + end for end in ("", kinds.PROCESS, kinds.REALTIME)}


def more(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What was found beyond what was there."""
    grown = {kind: count - before.get(kind, 0) for kind, count in after.items()}
    return {kind: count for kind, count in grown.items() if count}


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("kind", PLANTS)
def test_exactly_what_was_planted(kind: str, transactional: bool) -> None:
    for seed in range(5):
        events = Model(seed, transactional=transactional).history(OPS)
        before, after = analyse(events), analyse(planted(PLANTS[kind], events))
        assert before.is_valid, before.findings.examples
        assert more(before.findings.counts, after.findings.counts) == {kind: 1}, after.findings.examples
        assert after.invalid_kinds == ([] if kind in kinds.ALWAYS_ALLOWED else [kind])
        assert len(after.findings.examples[kind]) == after.findings.counts[kind]


@pytest.mark.parametrize("plant", REPLICA_PLANTS, ids=lambda plant: plant.__name__)
def test_what_broken_replication_shows(plant: Plant) -> None:
    for seed in range(5):
        events = Model(seed).history(OPS)
        before, after = analyse(events), analyse(planted(plant, events))
        assert more(before.findings.counts, after.findings.counts) == REPLICA_PLANTS[plant], (
            after.findings.examples
        )
        assert not after.is_valid


@pytest.mark.parametrize("kind", WW_PLANTS)
def test_cycles_through_the_order_of_versions(kind: str) -> None:
    for seed in range(5):
        events = Model(seed).history(OPS)
        bent = planted(WW_PLANTS[kind], events)
        before, after = analyse(events, ww_edges=True), analyse(bent, ww_edges=True)
        assert more(before.findings.counts, after.findings.counts) == {kind: 1}, after.findings.examples
        assert after.is_valid
        assert kind not in analyse(bent).findings.counts, "without that order there is no such cycle"


def test_members_of_a_group_may_skip() -> None:
    verdict = analyse(planted(subscribed_poll_skip, Model(1).history(OPS)))
    assert verdict.findings.counts[kinds.POLL_SKIP] == 1
    assert verdict.is_valid


@given(seed=st.integers(0, 2**32), transactional=st.booleans(), processes=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_a_right_log_is_found_right(seed: int, transactional: bool, processes: int) -> None:
    events = Model(seed, transactional=transactional, processes=processes).history(OPS)
    verdict = analyse(events)
    assert set(verdict.findings.counts) <= NATURAL, verdict.findings.examples
    assert verdict.is_valid
    assert verdict.counts.acked <= verdict.counts.polled, "an unknown send may be read, none may be missed"
    assert analyse(events, ww_edges=True).is_valid


@given(seed=st.integers(0, 2**32), transactional=st.booleans(), pick=st.integers(0))
@settings(max_examples=40, deadline=None)
def test_a_forgotten_record_never_passes(seed: int, transactional: bool, pick: int) -> None:
    events = Model(seed, transactional=transactional).history(OPS)
    acked = [
        (key, value)
        for key, values in sorted(Versions(operations(events)).written_ok.items())
        for value in sorted(values)
    ]
    if not acked:
        return
    key, value = acked[pick % len(acked)]
    verdict = analyse(lose_record(events, key, value))
    assert verdict.findings.counts.get(kinds.UNSEEN) == 1
    is_last = value == Versions(operations(events)).of(key).order[-1]
    assert is_last or verdict.findings.counts.get(kinds.LOST_WRITE) == 1
    allowed = {kinds.UNSEEN, kinds.LOST_WRITE, kinds.INT_POLL_SKIP, kinds.POLL_SKIP, kinds.INT_SEND_SKIP}
    assert set(verdict.findings.counts) <= allowed


def test_the_model_shows_every_type() -> None:
    """A law over histories in which nothing goes wrong would say little."""
    for transactional in (False, True):
        types = {op.type for op in operations(Model(3, transactional=transactional).history(400))}
        assert types == {OK, INFO, FAIL}


def test_an_empty_history_is_valid_and_says_that_nothing_happened() -> None:
    events: list[Event] = []
    verdict = analyse(events)
    assert verdict.is_valid
    assert (verdict.counts.ops, verdict.counts.acked, verdict.counts.polled) == (0, 0, 0)
