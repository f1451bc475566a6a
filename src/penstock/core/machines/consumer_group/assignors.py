"""Partition assignors: `uniform` (sticky), `range` and `roundrobin`. Pure functions.

Every assignor gives each partition of a subscribed topic to exactly one of its subscribers. The cost grows with the
number of subscriptions plus partitions, never with their product; equal inputs give equal outputs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

TopicId = bytes
Assignment = Mapping[TopicId, frozenset[int]]
"""Partitions by topic; topics without partitions are omitted."""

NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One member as an assignor sees it. `current` is its previous target."""

    member_id: str
    topics: frozenset[TopicId]
    current: Assignment = field(default_factory=dict)
    instance_id: str | None = None

    @property
    def rank(self) -> tuple[bool, str, str]:
        """Static members sort first, by instance id, so that their rank survives restarts."""
        return (self.instance_id is None, self.instance_id or "", self.member_id)


Assignor = Callable[[Sequence[Subscriber], Mapping[TopicId, int]], dict[str, Assignment]]
"""Maps subscribers and the partition count of each existing topic to an assignment per subscriber."""


def assign_range(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[TopicId, int]
) -> dict[str, Assignment]:
    """A contiguous range of each topic per subscriber, so that equal keys of two topics go to the same member."""
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
    """All partitions of all topics in turn, skipping members that do not subscribe to the topic."""
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
    """Balanced and sticky: as even as possible, then with as few moves as possible.

    If all members subscribe to the same topics, no two differ by more than one partition, and no equally even
    assignment moves fewer. Otherwise no single move between two subscribers would make them more even.
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
"""Assignors by name; the first is the default."""

ASSIGNOR_DEFAULT = "uniform"


class _Hand:
    """The partitions of one member while an assignment is computed."""

    __slots__ = ("load", "topics")

    def __init__(self) -> None:
        self.topics: dict[TopicId, list[int]] = {}
        self.load = 0

    def take(self, topic: TopicId, partition: int) -> None:
        self.topics.setdefault(topic, []).append(partition)
        self.load += 1

    def drop(self, topic: TopicId) -> int:
        """Remove the partition of this topic that was added last."""
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
    """The ranks of each topic's subscribers, ascending, for existing topics in order."""
    found: dict[TopicId, list[int]] = {}
    for place, one in enumerate(ranked):
        for topic in one.topics:
            if topic in partition_counts:
                found.setdefault(topic, []).append(place)
    return {topic: found[topic] for topic in sorted(found)}


def _keep_current(
    ranked: Sequence[Subscriber], readers: Iterable[TopicId], partition_counts: Mapping[TopicId, int]
) -> tuple[list[_Hand], list[tuple[TopicId, int]]]:
    """The partitions that each member may keep, and the free ones."""
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
    """Equal subscriptions: bring each member to its quota; larger quotas go to members that own more already."""
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
    """Mixed subscriptions: give free partitions to the least loaded, topics with few subscribers first; then move
    partitions from the most loaded while that helps."""
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
    while is_moving:  # each move reduces the sum of squared loads, so this terminates
        is_moving = False
        for topic, places in readers.items():
            is_moving = _move_within(topic, hands, places) or is_moving


def _move_within(topic: TopicId, hands: Sequence[_Hand], places: Sequence[int]) -> bool:
    """Move partitions of one topic from the most to the least loaded subscriber until they differ by at most one."""
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
    """Loads changed since they were pushed: refresh the top entry until it is current."""
    while heap and heap[0][0] != sign * hands[heap[0][1]].load:
        place = heap[0][1]
        heapreplace(heap, (sign * hands[place].load, place))
