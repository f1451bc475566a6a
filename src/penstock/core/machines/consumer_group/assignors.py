"""Who of a group reads which partition: `uniform` (sticky), `range` and `roundrobin`, pure. Never keep state.

Every assignor gives each partition of a subscribed topic to exactly one member that subscribes to it. The work
grows with the number of subscriptions and partitions, never with their product; equal inputs give equal outputs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

TopicId = bytes
Assignment = Mapping[TopicId, frozenset[int]]
"""Partitions by topic. A topic without partitions is left out."""

NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member as an assignor sees it. `current` is what it was given the last time."""

    member_id: str
    topics: frozenset[TopicId]
    current: Assignment = field(default_factory=dict)
    instance_id: str | None = None

    @property
    def rank(self) -> tuple[bool, str, str]:
        """Static members come first and keep their place over restarts, because their instance id does."""
        return (self.instance_id is None, self.instance_id or "", self.member_id)


Assignor = Callable[[Sequence[Subscriber], Mapping[TopicId, int]], dict[str, Assignment]]
"""Subscribers and the partition count of each topic that exists to an assignment for each subscriber."""


def assign_range(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]
) -> dict[str, Assignment]:
    """A run of neighbours of each topic for each subscriber, so that equal keys of two topics meet in one member."""
    ranked = sorted(subscribers, key=lambda one: one.rank)
    given: dict[str, dict[TopicId, frozenset[int]]] = {one.member_id: {} for one in ranked}
    for topic, readers in _readers(ranked, partition_counts).items():
        share, extra = divmod(partition_counts[topic], len(readers))
        start = 0
        for place, reader in enumerate(readers):
            end = start + share + (place < extra)
            if end > start:
                given[ranked[reader].member_id][topic] = frozenset(range(start, end))
            start = end
    return dict(given)


def assign_roundrobin(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]
) -> dict[str, Assignment]:
    """All partitions of all topics dealt out in turn, passing over members that do not subscribe to the topic."""
    ranked = sorted(subscribers, key=lambda one: one.rank)
    hands = [_Hand() for _ in ranked]
    last = -1
    for topic, readers in _readers(ranked, partition_counts).items():
        for partition in range(partition_counts[topic]):
            place = bisect_right(readers, last)
            last = readers[place] if place < len(readers) else readers[0]
            hands[last].take(topic, partition)
    return {one.member_id: hand.assignment() for one, hand in zip(ranked, hands, strict=True)}


def assign_uniform(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]
) -> dict[str, Assignment]:
    """As even as it can be, moving as little as it can.

    Where all subscribe to the same topics no two members differ by more than one partition, and no assignment as
    even moves fewer. Otherwise no partition could go to another subscriber and make the two of them more even.
    """
    ranked = sorted(subscribers, key=lambda one: one.rank)
    readers = _readers(ranked, partition_counts)
    hands, free = _keep_current(ranked, readers, partition_counts)
    if all(one.topics == ranked[0].topics for one in ranked):
        _even_out_equal(hands, free)
    else:
        _even_out_mixed(hands, free, readers)
    return {one.member_id: hand.assignment() for one, hand in zip(ranked, hands, strict=True)}


ASSIGNORS: dict[str, Assignor] = {
    "uniform": assign_uniform,
    "range": assign_range,
    "roundrobin": assign_roundrobin,
}
"""By the name that a member asks for; the first is the default."""

ASSIGNOR_DEFAULT = "uniform"


class _Hand:
    """What one member holds while an assignment is worked out."""

    __slots__ = ("load", "topics")

    def __init__(self) -> None:
        self.topics: dict[TopicId, list[int]] = {}
        self.load = 0

    def take(self, topic: TopicId, partition: int) -> None:
        self.topics.setdefault(topic, []).append(partition)
        self.load += 1

    def drop(self, topic: TopicId) -> int:
        """Give away the partition of this topic that was taken last."""
        partitions = self.topics[topic]
        self.load -= 1
        partition = partitions.pop()
        if not partitions:
            del self.topics[topic]
        return partition

    def assignment(self) -> Assignment:
        return {topic: frozenset(partitions) for topic, partitions in self.topics.items()}


def _readers(
    ranked: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]
) -> dict[TopicId, list[int]]:
    """The places of each topic's subscribers, ascending. Topics in order, and only those that exist."""
    found: dict[TopicId, list[int]] = {}
    for place, one in enumerate(ranked):
        for topic in one.topics:
            if topic in partition_counts:
                found.setdefault(topic, []).append(place)
    return {topic: found[topic] for topic in sorted(found)}


def _keep_current(
    ranked: Sequence[Subscriber], readers: Iterable[TopicId], partition_counts: Mapping[TopicId, int]
) -> tuple[list[_Hand], list[tuple[TopicId, int]]]:
    """Every member with what it holds and may keep, and the partitions that nobody holds."""
    hands = [_Hand() for _ in ranked]
    held: dict[TopicId, set[int]] = {topic: set() for topic in readers}
    for one, hand in zip(ranked, hands, strict=True):
        for topic in sorted(one.topics & one.current.keys() & held.keys()):
            taken = held[topic]
            for partition in sorted(one.current[topic]):
                if partition < partition_counts[topic] and partition not in taken:
                    taken.add(partition)
                    hand.take(topic, partition)
    free = [
        (topic, partition)
        for topic, taken in held.items()
        if len(taken) < partition_counts[topic]
        for partition in range(partition_counts[topic])
        if partition not in taken
    ]
    return hands, free


def _even_out_equal(hands: Sequence[_Hand], free: list[tuple[TopicId, int]]) -> None:
    """Everybody may hold everything: bring each hand to its quota; larger quotas go to those who hold more already."""
    if not hands:
        return
    share, extra = divmod(sum(hand.load for hand in hands) + len(free), len(hands))
    by_load = sorted(range(len(hands)), key=lambda place: (-hands[place].load, place))
    quotas = {place: share + (turn < extra) for turn, place in enumerate(by_load)}
    for place, hand in enumerate(hands):
        for topic in sorted(hand.topics, reverse=True):
            while hand.load > quotas[place] and topic in hand.topics:
                free.append((topic, hand.drop(topic)))
    free.sort(reverse=True)
    for place, hand in enumerate(hands):
        while hand.load < quotas[place]:
            hand.take(*free.pop())
    assert not free, "quotas do not add up"


def _even_out_mixed(
    hands: Sequence[_Hand], free: Sequence[tuple[TopicId, int]], readers: Mapping[TopicId, list[int]]
) -> None:
    """Give free partitions to whoever has least, rare topics first; then move from the fullest while that helps."""
    unheld: dict[TopicId, list[int]] = {}
    for topic, partition in free:
        unheld.setdefault(topic, []).append(partition)
    for topic in sorted(unheld, key=lambda topic: (len(readers[topic]), topic)):
        heap = [(hands[place].load, place) for place in readers[topic]]
        heapify(heap)
        for partition in unheld[topic]:
            _, place = heap[0]
            hands[place].take(topic, partition)
            heapreplace(heap, (hands[place].load, place))
    is_moving = True
    while is_moving:  # each move makes the sum of squared loads smaller, so this ends
        is_moving = False
        for topic, places in readers.items():
            is_moving = _move_within(topic, hands, places) or is_moving


def _move_within(topic: TopicId, hands: Sequence[_Hand], places: Sequence[int]) -> bool:
    """Move partitions of one topic from the fullest holder to the emptiest reader until they differ by one at most."""
    emptiest = [(hands[place].load, place) for place in places]
    fullest = [(-hands[place].load, place) for place in places if topic in hands[place].topics]
    heapify(emptiest)
    heapify(fullest)
    moved = False
    while fullest:
        load, source = -fullest[0][0], fullest[0][1]
        _settle_top(emptiest, hands, 1)
        target = emptiest[0][1]
        if load - hands[target].load < 2:
            return moved
        hands[target].take(topic, hands[source].drop(topic))
        moved = True
        if topic in hands[source].topics:
            heapreplace(fullest, (-hands[source].load, source))
        else:
            heappop(fullest)
        heapreplace(emptiest, (hands[target].load, target))
        _settle_top(fullest, hands, -1)
    return moved


def _settle_top(heap: list[tuple[int, int]], hands: Sequence[_Hand], sign: int) -> None:
    """Loads changed behind the heap's back: bring the top entry up to date until it is."""
    while heap and heap[0][0] != sign * hands[heap[0][1]].load:
        place = heap[0][1]
        heapreplace(heap, (sign * hands[place].load, place))
