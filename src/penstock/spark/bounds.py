"""Resolves the bounds of a read to offsets and splits the spans between them into tasks. Never reads records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.client.errors import BadArgument, RecordsLost
from penstock.client.raw.cluster import Cluster, TopicPartition
from penstock.client.raw.fetch import Span
from penstock.client.raw.offsets import EARLIEST, LATEST, NO_OFFSET, list_offsets
from penstock.spark.options import Bound, ReadOptions

Offsets = dict[TopicPartition, int]


class Selection(NamedTuple):
    """The partitions a read selects now, and the ids of their topics."""

    places: list[TopicPartition]
    topic_ids: dict[str, str]


def select(cluster: Cluster, options: ReadOptions) -> Selection:
    """The partitions that the options select now. Raises NotFound with the closest name."""
    topics = options.topics
    wanted = {*topics.names, *(place.topic for place in topics.places)}
    found = cluster.topics(wanted or None)
    if not wanted <= found.keys():
        found = cluster.topics()
    places = topics.choose(found)
    return Selection(places, {place.topic: found[place.topic].topic_id for place in places})


def resolve_bound(
    cluster: Cluster, bound: Bound, places: Sequence[TopicPartition], options: ReadOptions, *, is_start: bool
) -> Offsets:
    """One offset per partition. Raises BadArgument if the bound does not cover all of them."""
    isolation = options.terms.isolation
    if bound.everywhere is not None:
        return list_offsets(cluster, dict.fromkeys(places, bound.everywhere), isolation)
    if bound.offsets is not None:
        given = _only(bound.offsets, places, "Offsets", is_start)
        by_word = {place: offset for place, offset in given.items() if offset in (EARLIEST, LATEST)}
        exact = {place: offset for place, offset in given.items() if place not in by_word}
        return {**_held(cluster, exact, options), **list_offsets(cluster, by_word, isolation)}
    if bound.times_ms is not None:
        times = _only(bound.times_ms, places, "OffsetsByTimestamp", is_start)
    else:
        assert bound.time_ms is not None
        times = dict.fromkeys(places, bound.time_ms)
    found = list_offsets(cluster, times, isolation)
    late = {place: LATEST for place, offset in found.items() if offset == NO_OFFSET}
    if late and is_start and not options.late_time_is_latest:
        place = min(late)
        raise BadArgument(
            f"{place.topic} partition {place.partition} has no record at or after {times[place]} ms. Choose an earlier "
            "time, or set startingOffsetsByTimestampStrategy to latest to start with the next record."
        )
    return {**found, **list_offsets(cluster, late, isolation)}


def _held(cluster: Cluster, offsets: Mapping[TopicPartition, int], options: ReadOptions) -> Offsets:
    """The offsets, clamped to what the logs hold if data loss is allowed. Raises RecordsLost otherwise."""
    first = list_offsets(cluster, dict.fromkeys(offsets, EARLIEST), options.terms.isolation)
    last = list_offsets(cluster, dict.fromkeys(offsets, LATEST), options.terms.isolation)
    for place, offset in offsets.items():
        if not first[place] <= offset <= last[place] and options.terms.fails_on_loss:
            raise RecordsLost(
                f"{place.topic} partition {place.partition} holds offsets {first[place]} to {last[place]}, but "
                f"{offset} was requested. Use an existing offset, or set failOnDataLoss to false to use the nearest."
            )
    return {place: min(max(offset, first[place]), last[place]) for place, offset in offsets.items()}


def _only(
    given: Mapping[TopicPartition, int], places: Sequence[TopicPartition], what: str, is_start: bool
) -> Offsets:
    name = ("starting" if is_start else "ending") + what
    missing = sorted(set(places) - set(given))
    if missing:
        raise BadArgument(
            f"{name} must contain every partition of the read; {missing[0].topic} partition "
            f"{missing[0].partition} is missing"
        )
    surplus = sorted(set(given) - set(places))
    if surplus:
        raise BadArgument(
            f"{name} names {surplus[0].topic} partition {surplus[0].partition}, which is not read or does not exist"
        )
    return {place: given[place] for place in places}


def spans_between(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
) -> list[Span]:
    """One span per non-empty partition. It carries the topic id, so that a task never reads a recreated topic."""
    return [
        Span(place.topic, place.partition, starts[place], end, topic_ids.get(place.topic, ""))
        for place, end in sorted(ends.items())
        if end > starts[place]
    ]


def cut(spans: Sequence[Span], options: ReadOptions) -> list[Span]:
    """Split spans: none longer than `maxRecordsPerPartition`, and at least `minPartitions` of them if possible."""
    pieces = list(spans)
    if options.partition_records_max is not None:
        most = options.partition_records_max
        pieces = [part for span in pieces for part in _split(span, -(-_length(span) // most))]
    wanted = options.partitions_min
    if wanted is not None and len(pieces) < wanted:
        total = sum(map(_length, pieces))
        pieces = [
            part
            for span in pieces
            for part in _split(span, min(_length(span), max(1, round(_length(span) * wanted / total))))
        ]
        while len(pieces) < min(wanted, total):
            longest = max(pieces, key=_length)
            at = pieces.index(longest)
            pieces[at : at + 1] = _split(longest, 2)
    return pieces


def _length(span: Span) -> int:
    return span.end_offset - span.start_offset


def _split(span: Span, count: int) -> Iterable[Span]:
    length = _length(span)
    edges = [span.start_offset + length * number // count for number in range(count + 1)]
    return [span._replace(start_offset=left, end_offset=right) for left, right in pairwise(edges)]
