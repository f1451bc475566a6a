"""Laws of the assignors: complete, disjoint, only what is subscribed, even, moving little, and no quadratic work."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.machines.consumer_group.assignors import ASSIGNORS, Assignment, Subscriber, assign_uniform

TOPICS = [bytes([number]) * 16 for number in range(1, 6)]
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12))
ASSIGNMENTS = st.dictionaries(
    st.sampled_from(TOPICS), st.frozensets(st.integers(0, 14), min_size=1, max_size=8)
)
TOPIC_SETS = st.frozensets(st.sampled_from(TOPICS))
NAMES = [f"m{number}" for number in range(8)]


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False) -> list[Subscriber]:
    """Members in any order, some static; what they hold may be stale, too much, or claimed twice."""
    shared = draw(TOPIC_SETS) if equal else None
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    return [
        Subscriber(
            member_id=name,
            topics=shared if shared is not None else draw(TOPIC_SETS),
            current=draw(ASSIGNMENTS),
            instance_id=draw(st.none() | st.just(f"i-{name}")),
        )
        for name in names
    ]


def pairs(assignment: Assignment) -> set[tuple[bytes, int]]:
    return {(topic, partition) for topic, partitions in assignment.items() for partition in partitions}


def load(assignment: Assignment) -> int:
    return len(pairs(assignment))


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(deadline=None)
@given(subscribers=groups(), counts=COUNTS)
def test_each_partition_of_a_subscribed_topic_goes_to_exactly_one_of_its_subscribers(
    name: str, subscribers: list[Subscriber], counts: dict[bytes, int]
) -> None:
    given_out = ASSIGNORS[name](subscribers, counts)
    wanted = {topic for one in subscribers for topic in one.topics} & counts.keys()
    assert given_out.keys() == {one.member_id for one in subscribers}
    holders = Counter(pair for assignment in given_out.values() for pair in pairs(assignment))
    assert holders == Counter(
        {(topic, partition): 1 for topic in wanted for partition in range(counts[topic])}
    )
    assert all(given_out[one.member_id].keys() <= one.topics for one in subscribers)
    assert all(all(assignment.values()) for assignment in given_out.values()), (
        "a topic without partitions is named"
    )


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(deadline=None)
@given(subscribers=groups(), counts=COUNTS, order=st.randoms(use_true_random=False))
def test_the_order_of_members_and_topics_does_not_matter(
    name: str, subscribers: list[Subscriber], counts: dict[bytes, int], order: Any
) -> None:
    shuffled, topics = list(subscribers), list(counts)
    order.shuffle(shuffled)
    order.shuffle(topics)
    assert ASSIGNORS[name](shuffled, {topic: counts[topic] for topic in topics}) == ASSIGNORS[name](
        subscribers, counts
    )


@pytest.mark.parametrize("name", ["uniform", "roundrobin"])
@settings(deadline=None)
@given(subscribers=groups(equal=True), counts=COUNTS)
def test_equal_subscriptions_differ_by_one_partition_at_most(
    name: str, subscribers: list[Subscriber], counts: dict[bytes, int]
) -> None:
    loads = [load(assignment) for assignment in ASSIGNORS[name](subscribers, counts).values()]
    assert max(loads) - min(loads) <= 1


@settings(deadline=None)
@given(subscribers=groups(), counts=COUNTS)
def test_range_is_even_within_each_topic_and_gives_runs(
    subscribers: list[Subscriber], counts: dict[bytes, int]
) -> None:
    given_out = ASSIGNORS["range"](subscribers, counts)
    for topic in counts:
        shares = [
            given_out[one.member_id].get(topic, frozenset()) for one in subscribers if topic in one.topics
        ]
        assert not shares or max(map(len, shares)) - min(map(len, shares)) <= 1
        assert all(max(share) - min(share) == len(share) - 1 for share in shares if share)


@settings(deadline=None)
@given(subscribers=groups(), counts=COUNTS)
def test_uniform_leaves_no_partition_that_another_subscriber_should_rather_have(
    subscribers: list[Subscriber], counts: dict[bytes, int]
) -> None:
    given_out = assign_uniform(subscribers, counts)
    for holder in subscribers:
        for topic in given_out[holder.member_id]:
            for other in subscribers:
                if topic in other.topics:
                    assert load(given_out[holder.member_id]) <= load(given_out[other.member_id]) + 1


def most_kept(subscribers: list[Subscriber], counts: dict[bytes, int]) -> int:
    """How many partitions could stay where they are in any assignment that is even, by counting alone."""
    topics = subscribers[0].topics & counts.keys()
    taken: set[tuple[bytes, int]] = set()
    held = []
    for one in sorted(subscribers, key=lambda one: one.rank):
        mine = {
            pair for pair in pairs(one.current) if pair[0] in topics and pair[1] < counts[pair[0]]
        } - taken
        taken |= mine
        held.append(len(mine))
    share, extra = divmod(sum(counts[topic] for topic in topics), len(subscribers))
    return sum(min(count, share) for count in held) + min(extra, sum(count > share for count in held))


@settings(deadline=None)
@given(subscribers=groups(equal=True), counts=COUNTS)
def test_uniform_moves_no_more_than_evenness_demands(
    subscribers: list[Subscriber], counts: dict[bytes, int]
) -> None:
    given_out = assign_uniform(subscribers, counts)
    kept = sum(len(pairs(given_out[one.member_id]) & pairs(one.current)) for one in subscribers)
    assert kept >= most_kept(subscribers, counts)


@settings(deadline=None)
@given(subscribers=groups(), counts=COUNTS)
def test_uniform_moves_nothing_when_nothing_changed(
    subscribers: list[Subscriber], counts: dict[bytes, int]
) -> None:
    first = assign_uniform(subscribers, counts)
    again = [
        Subscriber(one.member_id, one.topics, first[one.member_id], one.instance_id) for one in subscribers
    ]
    assert assign_uniform(again, counts) == first


def lines_run(name: str, subscribers: list[Subscriber], counts: dict[bytes, int]) -> int:
    """How many lines of the assignors one assignment runs: work counted, not timed."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.endswith("assignors.py"):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        ASSIGNORS[name](subscribers, counts)
    finally:
        sys.settrace(before)
    return count


def crowd(name: str, scale: int, *, mixed: bool) -> tuple[list[Subscriber], dict[bytes, int]]:
    """A group in the middle of a change: one member in five has just joined and holds nothing."""
    counts = {number.to_bytes(16, "big"): 10 for number in range(1, 5 * scale + 1)}
    topics = sorted(counts)
    window = topics[:5]
    members = [
        Subscriber(f"m{number:05}", frozenset(window if not mixed else topics[number % scale :: scale]))
        for number in range(10 * scale)
    ]
    first = ASSIGNORS[name](members[::5] or members, counts)
    return [
        Subscriber(one.member_id, one.topics, first.get(one.member_id, {})) for one in members
    ], counts if mixed else dict.fromkeys(window, 10 * scale)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("name", ASSIGNORS)
def test_four_times_the_group_is_about_four_times_the_work(name: str, mixed: bool) -> None:
    small = lines_run(name, *crowd(name, 5, mixed=mixed))
    large = lines_run(name, *crowd(name, 20, mixed=mixed))
    assert large < 7 * small


def test_fifty_members_and_five_hundred_partitions_in_a_few_steps_each() -> None:
    subscribers, counts = crowd("uniform", 5, mixed=False)
    counts = dict.fromkeys(counts, 100)
    assert (len(subscribers), sum(counts.values())) == (50, 500)
    assert lines_run("uniform", subscribers, counts) < 20 * (50 * 5 + 500)
