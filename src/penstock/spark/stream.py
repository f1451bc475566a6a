"""Plans streaming batches: the end offset of each batch, within the configured limits. Never reads records itself.

The end offset of a batch also holds the start offsets of partitions that are new in it, and Spark persists it before
the batch runs. So a replayed batch reads the same records, even the first batch of a query that started at "latest":
its start is part of its end. The end also holds topic ids, because an offset is valid only for the topic it was taken
from, not for a later topic of the same name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.client.errors import BadArgument, ClientError, RecordsLost
from penstock.client.raw.cluster import Cluster, TopicPartition
from penstock.client.raw.offsets import EARLIEST, LATEST, commit_offsets, list_offsets
from penstock.spark.bounds import Offsets, Selection, cut, resolve_bound, select, spans_between
from penstock.spark.checkpoint import StreamOffset
from penstock.spark.options import ReadOptions
from penstock.spark.record_size import bytes_per_offset
from penstock.spark.tail import TopicTail
from penstock.spark.task_reader import read_span

_POLL_S = 0.1
"""Poll interval while `minOffsetsPerTrigger` is not reached: a broker cannot wait for a number of offsets."""

_LOG = logging.getLogger("penstock.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans on the driver for the lifetime of the query; tasks get a pickled copy that only reads."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._planner: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_planner": None}

    @property
    def _plan(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return self._plan.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.trigger_offsets_max is not None:
            return ReadMaxRows(self._options.trigger_offsets_max)
        if self._options.trigger_bytes_max is not None:
            return ReadMaxBytes(self._options.trigger_bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._plan.fix_target()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._plan.latest(start, is_limited=not isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._plan.reported()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        spans = self._plan.spans(start, end)
        return [InputPartition(span) for span in cut(spans, self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_span(self._options.access, partition.value, self._options.terms)

    def commit(self, end: dict[str, Any]) -> None:
        self._plan.publish(end)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()


class StreamEnd(NamedTuple):
    """Where a query with Trigger.AvailableNow ends."""

    ends: Offsets
    topic_ids: dict[str, str]


class Planner:
    """State of a running query on the driver: connection, target end, offsets committed to the group."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.access)
        self._tail = TopicTail(options.access)
        self._target: StreamEnd | None = None
        self._ends: Offsets = {}
        self._published: Offsets = {}
        self._warned: set[tuple[str, str]] = set()
        self._batch_s = time.monotonic()

    def close(self) -> None:
        self._cluster.close()
        self._tail.close()

    # -- offsets

    def initial(self) -> dict[str, Any]:
        selected = select(self._cluster, self._options)
        starts = resolve_bound(
            self._cluster, self._options.starting, selected.places, self._options, is_start=True
        )
        return StreamOffset(starts, topic_ids=selected.topic_ids, is_initial=True).encode()

    def fix_target(self) -> None:
        selected = select(self._cluster, self._options)
        self._target = StreamEnd(self._listed(selected.places, LATEST), selected.topic_ids)

    def reported(self) -> dict[str, Any] | None:
        return StreamOffset(self._ends).encode() if self._ends else None

    def latest(self, start: Mapping[str, Any], *, is_limited: bool) -> dict[str, Any]:
        """The end of the next batch, or `start` if there is nothing to run yet."""
        before = StreamOffset.decode(start)
        selected = self._select()
        known = self._same_topics(before, selected)
        if not before.is_initial:
            self._publish(known)
        known = self._still_there(known, selected)
        starts = {**known, **self._new_places(known, selected)}
        # Ends are listed after the topic ids were compared: an offset is used only with the topic it was taken from.
        ends = self._ends_after(starts)
        starts, ends = self._begun_anew(starts, ends)
        # Offsets that Spark does not have in its checkpoint yet: they become part of this end, and with it durable.
        begins = {place: at for place, at in starts.items() if before.is_initial or known.get(place) != at}
        if not begins and self._target is None:
            ends = self._await_enough(starts, ends)
        if is_limited:
            ends = self._limited(starts, ends)
        if ends == known and not begins:
            return dict(start)
        self._batch_s = time.monotonic()
        return StreamOffset(ends, begins, selected.topic_ids).encode()

    def spans(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Any]:
        """The spans between two offsets. Raises RecordsLost when records in between are gone."""
        planned = StreamOffset.decode(end)
        starts = {**StreamOffset.decode(start).offsets, **planned.begins}
        missing = sorted(set(planned.offsets) - set(starts))
        if missing:
            raise BadArgument(
                f"the checkpoint has no start offset for {missing[0].topic} partition {missing[0].partition}: it "
                "was not written by this source. Give the query its own checkpointLocation."
            )
        there = {place: end for place, end in planned.offsets.items() if end > starts[place]}
        there, topic_ids = self._not_replaced(there, planned.topic_ids)
        for place, first in self._listed(list(there), EARLIEST).items():
            if first > starts[place]:
                self._lose(
                    f"{_name(place)}: offset {starts[place]} was deleted by retention, the log starts at {first}"
                )
                starts[place] = min(first, there[place])
        return spans_between(starts, there, topic_ids)

    def publish(self, end: Mapping[str, Any]) -> None:
        done = StreamOffset.decode(end)
        if not done.is_initial:
            self._publish(done.offsets)

    def _publish(self, done: Offsets) -> None:
        """Commit the progress of the query to its group, if any. A failure is logged and does not stop the query."""
        if self._options.group is None or not done or done == self._published:
            return
        try:
            commit_offsets(self._cluster, self._options.group, done)
        except ClientError as error:
            _LOG.warning(
                "cannot commit offsets of group %s, retrying with the next batch: %s",
                self._options.group,
                error,
            )
        else:
            self._published = done

    # -- topic identity

    def _same_topics(self, before: StreamOffset, selected: Selection) -> Offsets:
        """Known offsets without those of topics that were recreated: they mean nothing in the new log."""
        replaced = self._replaced(before.topic_ids, selected.topic_ids)
        return {place: offset for place, offset in before.offsets.items() if place.topic not in replaced}

    def _not_replaced(self, ends: Offsets, topic_ids: Mapping[str, str]) -> tuple[Offsets, dict[str, str]]:
        """The planned ends without topics that were recreated after planning, and the ids of the remaining topics."""
        found = self._cluster.topics({place.topic for place in ends})
        ids_now = {name: one.topic_id for name, one in found.items()}
        replaced = self._replaced(topic_ids, ids_now)
        return {place: end for place, end in ends.items() if place.topic not in replaced}, ids_now

    def _replaced(self, before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
        """Topics whose id has changed. Raises RecordsLost, or warns once per topic."""
        replaced = {name for name, one in before.items() if now.get(name) and now[name] != one}
        for name in sorted(replaced):
            if (name, now[name]) not in self._warned:
                self._lose(
                    f"topic {name} was deleted and recreated: the checkpoint was written for topic id "
                    f"{before[name]}, the current topic has id {now[name]}",
                    "read the new topic from its beginning",
                )
                self._warned.add((name, now[name]))
        return replaced

    def _still_there(self, known: Offsets, selected: Selection) -> Offsets:
        """Known offsets without partitions that no longer exist. Raises RecordsLost unless data loss is allowed."""
        gone = sorted(set(known) - set(selected.places))
        if not gone:
            return known
        if not self._options.topics.means(gone[0]):
            self._lose(
                f"the checkpoint belongs to a query that reads {_name(gone[0])}, this query does not. Give it its own "
                "checkpointLocation"
            )
        else:
            self._lose(f"{_name(gone[0])} no longer exists: the topic was deleted")
        return {place: offset for place, offset in known.items() if place not in gone}

    # -- end offsets

    def _select(self) -> Selection:
        if self._target is not None:
            return Selection(sorted(self._target.ends), self._target.topic_ids)
        return select(self._cluster, self._options)

    def _new_places(self, known: Offsets, selected: Selection) -> Offsets:
        """Start offsets of new partitions: their first record, so that nothing is skipped."""
        return self._listed([place for place in selected.places if place not in known], EARLIEST)

    def _ends_after(self, starts: Offsets) -> Offsets:
        """The end offset of each partition, limited by the target of a Trigger.AvailableNow query."""
        if self._target is None:
            self._ends = self._listed(list(starts), LATEST)
        else:
            self._ends = self._target.ends
        return {place: self._ends.get(place, start) for place, start in starts.items()}

    def _begun_anew(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """Restart at the beginning of logs that end before our offset, unless failOnDataLoss: they were replaced."""
        shorter = [place for place, start in starts.items() if ends[place] < start]
        if not shorter:
            return starts, ends
        place = min(shorter)
        self._lose(f"{_name(place)}: offset {starts[place]} does not exist, the log ends at {ends[place]}")
        return {**starts, **self._listed(shorter, EARLIEST)}, ends

    def _await_enough(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Wait for new records with one long-poll fetch; briefly, so that Spark can stop the query."""
        wait_ms = self._options.wait_ms
        if ends == starts and wait_ms:
            self._tail.wait(starts, self._options.terms.isolation, wait_ms)
            ends = {place: max(end, starts[place]) for place, end in self._ends_after(starts).items()}
        least = self._options.trigger_offsets_min
        if least is None or ends == starts or _sum(starts, ends) >= least:
            return ends
        left_s = self._options.trigger_delay_ms_max / 1000 - (time.monotonic() - self._batch_s)
        if left_s <= 0:
            return ends
        time.sleep(min(wait_ms / 1000, _POLL_S, left_s))
        return starts

    def _limited(self, starts: Offsets, ends: Offsets) -> Offsets:
        most = self._options.trigger_offsets_max
        bytes_max = self._options.trigger_bytes_max
        if bytes_max is not None and ends != starts:
            heavy = {place: end for place, end in ends.items() if end > starts[place]}
            size = bytes_per_offset(
                self._cluster, {place: starts[place] for place in heavy}, self._options.terms
            )
            fitting = max(1, int(bytes_max / max(size, 1.0)))
            most = fitting if most is None else min(most, fitting)
        return ends if most is None else share_of(starts, ends, most)

    def _listed(self, places: list[TopicPartition], time_ms: int) -> Offsets:
        return list_offsets(self._cluster, dict.fromkeys(places, time_ms), self._options.terms.isolation)

    def _lose(self, what: str, otherwise: str = "continue with the records that remain") -> None:
        if self._options.terms.fails_on_loss:
            raise RecordsLost(
                f"{what}. Set failOnDataLoss to false to {otherwise}, or start with a new checkpoint."
            )
        _LOG.warning("%s; failOnDataLoss is false, so the query will %s", what, otherwise)


def share_of(starts: Offsets, ends: Offsets, most: int) -> Offsets:
    """Limit a batch to `most` offsets, shared among the partitions in proportion to their backlog."""
    total = _sum(starts, ends)
    if total <= most:
        return ends
    limited = {place: start + (ends[place] - start) * most // total for place, start in starts.items()}
    spare = most - _sum(starts, limited)
    for place in sorted(starts, key=lambda one: (limited[one] - ends[one], one)):
        if spare > 0 and limited[place] < ends[place]:
            limited[place] += 1
            spare -= 1
    return limited


def _sum(starts: Offsets, ends: Offsets) -> int:
    return sum(ends[place] - start for place, start in starts.items())


def _name(place: TopicPartition) -> str:
    return f"{place.topic} partition {place.partition}"
