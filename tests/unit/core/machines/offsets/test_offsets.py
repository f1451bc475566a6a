"""Committed offsets, rule by rule: limits, removal, expiry, and what an open transaction holds back."""

from __future__ import annotations

import pytest

from penstock.core.errors import MetadataTooLarge, StaleProducer
from penstock.core.limits import OFFSET_METADATA_BYTES_MAX
from penstock.core.machines.offsets.offsets import Committed, Event, Offsets
from penstock.core.model import TopicPartition

HERE = TopicPartition("orders", 0)
THERE = TopicPartition("orders", 1)


def at(offset: int, commit_ms: int = 0, expire_ms: int = -1) -> Committed:
    return Committed(offset, -1, "", commit_ms, expire_ms)


def apply(machine: Offsets, *events: Event) -> None:
    for event in events:
        machine.apply(event)


@pytest.fixture
def machine() -> Offsets:
    made = Offsets()
    apply(made, made.decide_commit("g", HERE, at(5)), made.decide_commit("g", THERE, at(7)))
    return made


def test_the_last_commit_counts(machine: Offsets) -> None:
    apply(machine, machine.decide_commit("g", HERE, at(3)))
    assert machine.find("g", HERE) == at(3) and machine.find("other", HERE) is None


def test_metadata_is_limited_in_bytes_not_characters(machine: Offsets) -> None:
    fits = at(1)._replace(metadata="ä" * (OFFSET_METADATA_BYTES_MAX // 2))
    machine.decide_commit("g", HERE, fits)
    with pytest.raises(MetadataTooLarge):
        machine.decide_commit("g", HERE, fits._replace(metadata=fits.metadata + "x"))
    with pytest.raises(MetadataTooLarge):
        machine.decide_pend("g", 1, 0, HERE, fits._replace(metadata=fits.metadata + "x"))


def test_a_pended_offset_is_unseen_until_its_transaction_commits(machine: Offsets) -> None:
    apply(machine, machine.decide_pend("g", 9, 0, HERE, at(50)))
    assert machine.find("g", HERE) == at(5)
    assert machine.is_unstable("g", HERE) and not machine.is_unstable("g", THERE)
    apply(machine, *machine.decide_settle(9, is_commit=True))
    assert machine.find("g", HERE) == at(50) and not machine.is_unstable("g", HERE)
    assert not machine.producers


def test_an_aborted_transaction_leaves_everything_as_it_was(machine: Offsets) -> None:
    apply(
        machine, machine.decide_pend("g", 9, 0, HERE, at(50)), machine.decide_pend("fresh", 9, 0, HERE, at(1))
    )
    apply(machine, *machine.decide_settle(9, is_commit=False))
    assert machine.find("g", HERE) == at(5) and not machine.has_any("fresh")


def test_an_older_epoch_of_a_producer_cannot_change_what_a_newer_one_has_pended(machine: Offsets) -> None:
    apply(machine, machine.decide_pend("g", 9, 4, HERE, at(50)))
    with pytest.raises(StaleProducer):
        machine.decide_pend("g", 9, 3, THERE, at(60))


def test_offsets_expire_by_the_groups_clock_or_by_their_own(machine: Offsets) -> None:
    apply(machine, machine.decide_commit("g", THERE, at(7, expire_ms=40)))
    assert machine.decide_expire("g", lambda topic, commit_ms: None, 39, 10) == []
    apply(machine, *machine.decide_expire("g", lambda topic, commit_ms: None, 40, 10))
    assert list(machine.of_group("g")) == [HERE]
    assert machine.decide_expire("g", lambda topic, commit_ms: 100, 109, 10) == []
    apply(machine, *machine.decide_expire("g", lambda topic, commit_ms: 100, 110, 10))
    assert not machine.has_any("g")


def test_an_offset_that_a_transaction_is_about_to_change_does_not_expire(machine: Offsets) -> None:
    apply(machine, machine.decide_pend("g", 9, 0, HERE, at(50)))
    apply(machine, *machine.decide_expire("g", lambda topic, commit_ms: 0, 1_000, 1))
    assert list(machine.of_group("g")) == [HERE]


def test_a_deleted_topic_takes_its_offsets_along(machine: Offsets) -> None:
    kept = TopicPartition("returns", 0)
    apply(machine, machine.decide_commit("g", kept, at(1)), machine.decide_pend("g", 9, 0, HERE, at(50)))
    apply(machine, *machine.decide_remove_topics("g", ["orders"]))
    assert list(machine.of_group("g")) == [kept] and not machine.has_pended("g")


def test_removing_one_offset_or_all_of_a_group(machine: Offsets) -> None:
    assert machine.decide_remove("g", TopicPartition("other", 0)) == []
    apply(machine, *machine.decide_remove("g", HERE))
    assert list(machine.of_group("g")) == [THERE]
    apply(machine, *machine.decide_remove_group("g"))
    assert machine.group_ids == []
