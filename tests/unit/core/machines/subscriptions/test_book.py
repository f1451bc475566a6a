"""The book of subscriptions: coming, going, what a compacted log gives back, and records that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import InvalidRequest, TornSegment, UnknownGroup
from penstock.core.machines.subscriptions.book import SubscriptionBook
from penstock.core.machines.subscriptions.definitions import BOOK_RECORDS, Defined, SubscriptionDefinition
from penstock.core.machines.subscriptions.subscription import Available, Outcome

TOPIC_ID = bytes(15) + b"\7"
WORK = SubscriptionDefinition("work", "t", TOPIC_ID, hold_ms=1_000, deliveries_max=3, created_ms=5)
Log = list[tuple[bytes, bytes | None]]


class Kept:
    """A book and the log of what was kept of it."""

    def __init__(self) -> None:
        self.book = SubscriptionBook()
        self.log: Log = []

    def run(self, events: list[Any]) -> None:
        for event in events:
            if BOOK_RECORDS.is_persisted(event):
                self.log.append(BOOK_RECORDS.encode(event))
            self.book.apply(event)


def replayed(log: Log) -> SubscriptionBook:
    book = SubscriptionBook()
    for key, value in log:
        book.apply(BOOK_RECORDS.decode(key, value))
    return book


def compacted(log: Log) -> Log:
    last = {key: place for place, (key, _) in enumerate(log)}
    return [log[place] for place in sorted(last.values())]


def test_a_subscription_comes_with_all_partitions_and_goes_with_all_that_was_kept() -> None:
    kept = Kept()
    kept.run(kept.book.decide_create(WORK, [3, 0]))
    assert kept.book.definitions == [WORK]
    assert [machine.start_offset for machine in kept.book.machines("work")] == [3, 0]
    kept.run(kept.book.decide_extend("work", 3))
    assert [machine.start_offset for machine in kept.book.machines("work")] == [3, 0, 0]
    assert kept.book.decide_extend("work", 3) == []
    kept.run(kept.book.decide_remove("work"))
    assert (kept.book.definitions, kept.book.machines("work")) == ([], [])
    assert {value for _, value in compacted(kept.log)} == {None}
    for verb in (kept.book.decide_remove, kept.book.get):
        with pytest.raises(UnknownGroup, match="create it first"):
            verb("work")


def test_members_are_shared_by_the_partitions() -> None:
    kept = Kept()
    kept.run(kept.book.decide_create(WORK, [0, 0]))
    first, second = kept.book.machines("work")
    kept.run(first.decide_join("a", 2))
    kept.run(first.decide_join("b", 1))
    given = first.decide_dispatch(Available([0], 1), 0, 9)
    kept.run(given.events)
    more = second.decide_dispatch(Available([0, 1, 2], 3), 0, 9)
    kept.run(more.events)
    assert [(one.offset, one.member_id) for one in more.answer] == [(0, "b"), (1, "a")]
    assert kept.book.members("work").room == 0


def test_terms_count_even_if_the_log_holds_them_last() -> None:
    """Bringing back dead letters writes the definition anew: after compaction it comes behind everything else."""
    kept = Kept()
    kept.run(kept.book.decide_create(WORK, [0]))
    (machine,) = kept.book.machines("work")
    kept.run(machine.decide_join("a", 5))
    kept.run(machine.decide_dispatch(Available([0, 1], 2), 0, 9).events)
    kept.run(machine.decide_settle("a", {1: Outcome.RELEASE}).events)
    kept.run(kept.book.decide_redriven("work", 9))
    for log in (kept.log, compacted(kept.log)):
        book = replayed(log)
        (revived,) = book.machines("work")
        assert book.get("work") == WORK._replace(redriven_offset=9)
        assert (revived.terms.hold_ms, revived.terms.deliveries_max) == (1_000, 3)
        assert revived.mark(1) == machine.mark(1)


def test_creating_again_changes_nothing_unless_the_terms_differ() -> None:
    kept = Kept()
    kept.run(kept.book.decide_create(WORK, [0]))
    assert kept.book.decide_create(WORK._replace(created_ms=9), []) == []
    for other in (
        WORK._replace(topic_id=bytes(16)),
        WORK._replace(hold_ms=2),
        WORK._replace(deliveries_max=2),
    ):
        with pytest.raises(InvalidRequest, match="choose another name"):
            kept.book.decide_create(other, [0])


GOOD_KEY, GOOD_VALUE = BOOK_RECORDS.encode(Defined("work", WORK))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (GOOD_KEY + b"\0", GOOD_VALUE),
        (GOOD_KEY[:-1], GOOD_VALUE),
        (GOOD_KEY, b"\0\1" + (GOOD_VALUE or b"")[2:]),
        (GOOD_KEY, (GOOD_VALUE or b"")[:-1]),
        (GOOD_KEY, (GOOD_VALUE or b"") + b"\0"),
        (GOOD_KEY, BOOK_RECORDS.encode(Defined("work", WORK._replace(hold_ms=0)))[1]),
        (GOOD_KEY, BOOK_RECORDS.encode(Defined("work", WORK._replace(topic_id=b"short")))[1]),
        (GOOD_KEY, BOOK_RECORDS.encode(Defined("work", WORK._replace(redriven_offset=-1)))[1]),
    ],
)
def test_records_that_cannot_be_are_torn(key: bytes, value: bytes | None) -> None:
    with pytest.raises(TornSegment):
        BOOK_RECORDS.decode(key, value)
