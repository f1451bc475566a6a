"""A stream: how far each batch goes, within the limits that were asked for. Never reads records itself.

An offset is the connector's own form, `{"orders": {"0": 23}}`, and beside it `#from`: where the partitions that are new
in this batch begin. Spark writes it down before the batch runs. So a batch that is run again reads what it read the
first time, even the first batch of a query that began at "latest": the start is part of the first end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.client.cluster import Cluster, Place
from penstock.client.errors import BadArgument, ClientError, RecordsLost
from penstock.client.offsets import EARLIEST, LATEST, commit_offsets, list_offsets
from penstock.spark.bounds import Offsets, cut, places_to_read, resolve, spans_between
from penstock.spark.options import ReadOptions
from penstock.spark.reading import read_span
from penstock.spark.sampling import bytes_per_offset
from penstock.spark.tail import Tail

FROM = "#from"
INITIAL = "#initial"

_POLL_S = 0.1
"""How often one looks whether `minOffsetsPerTrigger` is reached: there is no waiting for that at the broker."""

_LOG = logging.getLogger("penstock.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives on the driver as long as the query; a copy of it reads in the tasks."""

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


class Planner:
    """What a running query knows: the cluster, how far it may go, and what it has published."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._cluster = Cluster(options.access)
        self._tail = Tail(options.access)
        self._target: Offsets | None = None
        self._ends: Offsets = {}
        self._published: Offsets = {}
        self._batch_s = time.monotonic()

    def close(self) -> None:
        self._cluster.close()
        self._tail.close()

    # -- offsets

    def initial(self) -> dict[str, Any]:
        places = places_to_read(self._cluster, self._options)
        starts = resolve(self._cluster, self._options.starting, places, self._options, is_start=True)
        return {INITIAL: True, **_written(starts)}

    def fix_target(self) -> None:
        self._target = self._listed(self._places(), LATEST)

    def reported(self) -> dict[str, Any] | None:
        return _written(self._ends) if self._ends else None

    def latest(self, start: Mapping[str, Any], *, is_limited: bool) -> dict[str, Any]:
        """The end of the next batch, or the start again if there is to be none yet."""
        is_initial = INITIAL in start
        if not is_initial:
            self.publish(start)
        known = self._still_there(_read(start))
        begins = known if is_initial else {}
        starts = {**known, **self._new_places(known)}
        ends = self._ends_after(starts)
        starts, ends = self._begun_anew(starts, ends)
        begins = {place: at for place, at in starts.items() if place in begins or known.get(place) != at}
        if not begins and self._target is None:
            ends = self._await_enough(starts, ends)
        if is_limited:
            ends = self._limited(starts, ends)
        if ends == known and not begins:
            return dict(start)
        self._batch_s = time.monotonic()
        return {**({FROM: _written(begins)} if begins else {}), **_written(ends)}

    def spans(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Any]:
        """What lies between two offsets. Raises RecordsLost when it is no longer all there."""
        ends = _read(end)
        starts = {**_read(start), **_read(end.get(FROM, {}))}
        missing = sorted(set(ends) - set(starts))
        if missing:
            raise BadArgument(
                f"the checkpoint does not say where {missing[0].topic} partition {missing[0].partition} begins: it "
                "was not written by this source. Give the query a checkpointLocation of its own."
            )
        there = {place: end for place, end in ends.items() if end > starts[place]}
        for place, first in self._listed(list(there), EARLIEST).items():
            if first > starts[place]:
                self._lose(
                    f"{_name(place)}: offset {starts[place]} is gone, the log begins at {first}: retention took it"
                )
                starts[place] = min(first, ends[place])
        return spans_between(starts, there)

    def publish(self, end: Mapping[str, Any]) -> None:
        """Tell the group, if there is one, how far this is done. A failure is said, and is not the query's."""
        done = _read(end)
        if self._options.group is None or done == self._published or INITIAL in end:
            return
        try:
            commit_offsets(self._cluster, self._options.group, done)
        except ClientError as error:
            _LOG.warning("offsets of group %s were not committed: %s", self._options.group, error)
        else:
            self._published = done

    # -- how far

    def _places(self) -> list[Place]:
        if self._target is not None:
            return sorted(self._target)
        return places_to_read(self._cluster, self._options)

    def _still_there(self, known: Offsets) -> Offsets:
        """Without partitions that are gone. Raises RecordsLost, or BadArgument for a checkpoint of another query."""
        gone = sorted(set(known) - set(self._places()))
        if not gone:
            return known
        if not self._options.topics.means(gone[0]):
            self._lose(
                f"the checkpoint is of a query that reads {_name(gone[0])}, this one does not. Give it a "
                "checkpointLocation of its own"
            )
        else:
            self._lose(f"{_name(gone[0])} is not there any more: the topic was deleted")
        return {place: offset for place, offset in known.items() if place not in gone}

    def _new_places(self, known: Offsets) -> Offsets:
        """Where partitions begin that were not there before: at their first record."""
        return self._listed([place for place in self._places() if place not in known], EARLIEST)

    def _ends_after(self, starts: Offsets) -> Offsets:
        """How far there is something now."""
        if self._target is None:
            self._ends = self._listed(list(starts), LATEST)
        else:
            self._ends = self._target
        return {place: self._ends.get(place, start) for place, start in starts.items()}

    def _begun_anew(self, starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        """A log that ends before the start is another one: if records may be lost it is read from its beginning."""
        shorter = [place for place, start in starts.items() if ends[place] < start]
        if not shorter:
            return starts, ends
        place = min(shorter)
        self._lose(f"{_name(place)}: offset {starts[place]} is not there, the log ends at {ends[place]}")
        return {**starts, **self._listed(shorter, EARLIEST)}, ends

    def _await_enough(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Wait at the broker, not by asking again and again; after a while Spark may look after other things."""
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
        return ends if most is None else share(starts, ends, most)

    def _listed(self, places: list[Place], time_ms: int) -> Offsets:
        return list_offsets(self._cluster, dict.fromkeys(places, time_ms), self._options.terms.isolation)

    def _lose(self, what: str) -> None:
        if self._options.terms.fails_on_loss:
            raise RecordsLost(
                f"{what}. Set failOnDataLoss to false to go on with what is there, or start with a new checkpoint."
            )
        _LOG.warning("%s; going on with what is there, because failOnDataLoss is false", what)


def share(starts: Offsets, ends: Offsets, most: int) -> Offsets:
    """Ends that are at most so many offsets away in all, each partition by its part of what is left to read."""
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


def _name(place: Place) -> str:
    return f"{place.topic} partition {place.partition}"


def _written(offsets: Mapping[Place, int]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for place, offset in sorted(offsets.items()):
        written.setdefault(place.topic, {})[str(place.partition)] = offset
    return written


def _read(said: Mapping[str, Any]) -> Offsets:
    try:
        return {
            Place(topic, int(number)): int(offset)
            for topic, partitions in said.items()
            if not topic.startswith("#")
            for number, offset in partitions.items()
        }
    except (AttributeError, ValueError, TypeError):
        raise BadArgument(
            f"the checkpoint holds {said!r}, which this source did not write. "
            "Give the query a checkpointLocation of its own."
        ) from None
