"""Options of a read: the option names of Spark's Kafka connector as one validated value. Never talks to a broker."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.client.access import Access, nearest, whole_number
from penstock.client.errors import BadArgument, NotFound
from penstock.client.raw.cluster import TopicFound, TopicPartition
from penstock.client.raw.fetch import FetchTerms
from penstock.client.raw.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from penstock.spark.raw_options import KAFKA, RawOptions

OPTIONS = (
    "assign",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "latestOffsetWaitMs",
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
)
KAFKA_OPTIONS = (
    "check.crcs",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "group.id",
    "isolation.level",
    "max.partition.fetch.bytes",
)
REFUSED = {
    KAFKA + "auto.offset.reset": "a stream stores its position in its checkpoint; use startingOffsets",
    KAFKA + "enable.auto.commit": "offsets are committed after each batch, if kafka.group.id is set",
    KAFKA
    + "fetch.min.bytes": "available records are read immediately; use minOffsetsPerTrigger to wait for more",
    KAFKA + "interceptor.classes": "there is no Java client here; use a DataFrame function",
    KAFKA + "key.deserializer": "keys are bytes; use cast or from_json in the query",
    "pushFilters": (
        "it was removed because Spark also applied a pushed filter to later queries over the same DataFrame, which "
        "then missed rows. Remove it, and narrow the read with startingOffsets and endingOffsets, with "
        "startingTimestamp and endingTimestamp, or with assign for individual partitions"
    ),
    KAFKA + "value.deserializer": "values are bytes; use cast or from_json in the query",
}

_LOG = logging.getLogger("penstock.spark")
_OFFSETS_EXAMPLE = '{"orders":{"0":23,"1":-2}} (-2 is earliest, -1 latest)'
_TIMES_EXAMPLE = '{"orders":{"0":1700000000000}} (milliseconds)'
_ASSIGN_EXAMPLE = '{"orders":[0,1]}'
_TRIGGER_DELAY_MS = 15 * 60_000
_WORDS = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The topics to read: by name, by pattern, or as explicit partitions."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    places: tuple[TopicPartition, ...] = ()

    def choose(self, found: Mapping[str, TopicFound]) -> list[TopicPartition]:
        """The selected partitions among the existing ones. Raises NotFound with the closest name."""
        if self.pattern is not None:
            matching = [one for name, one in found.items() if re.fullmatch(self.pattern, name)]
            return sorted(
                TopicPartition(one.name, number)
                for one in matching
                if not one.is_internal
                for number in one.partitions
            )
        wanted = self.names or tuple(sorted({place.topic for place in self.places}))
        for name in wanted:
            if name not in found:
                raise NotFound(f"there is no topic {name!r}.{nearest(name, found)}")
        if self.names:
            return sorted(
                TopicPartition(name, number) for name in self.names for number in found[name].partitions
            )
        for place in self.places:
            if place.partition not in found[place.topic].leaders:
                count = len(found[place.topic].leaders)
                raise NotFound(
                    f"topic {place.topic} has no partition {place.partition}: it has 0 to {count - 1}"
                )
        return list(self.places)

    def means(self, place: TopicPartition) -> bool:
        """Whether the selection covers this partition, existing or not."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, place.topic) is not None
        return place.topic in self.names or place in self.places


@dataclass(frozen=True, slots=True)
class Bound:
    """Start or end of a read: EARLIEST or LATEST for all partitions, one time, or an offset or time per partition."""

    everywhere: int | None = None
    time_ms: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    times_ms: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of a read. Picklable, because tasks get a copy."""

    access: Access
    terms: FetchTerms
    topics: TopicSelection
    starting: Bound
    ending: Bound
    late_time_is_latest: bool
    group: str | None
    partitions_min: int | None
    partition_records_max: int | None
    trigger_offsets_max: int | None
    trigger_offsets_min: int | None
    trigger_bytes_max: int | None
    trigger_delay_ms_max: int
    wait_ms: int


def read_options(options: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Validate all options as far as possible without a broker. Raises BadArgument."""
    given = RawOptions(options, OPTIONS, KAFKA_OPTIONS, REFUSED)
    if is_stream:
        _refuse_ends(given)
    if given.has("groupIdPrefix"):
        _LOG.warning("option groupIdPrefix is ignored: reads do not create consumer groups")
    topics = _read_topics(given)
    retries = given.number("fetchOffset.numRetries", 0)
    pause_ms = given.number("fetchOffset.retryIntervalMs", 0)
    access = given.access()
    if retries is not None or pause_ms is not None:
        patience_ms = (retries if retries is not None else 3) * (pause_ms if pause_ms is not None else 10)
        access = _with_patience(access, patience_ms)
    minimum, maximum = given.number("minOffsetsPerTrigger"), given.number("maxOffsetsPerTrigger")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise BadArgument(
            f"minOffsetsPerTrigger {minimum} is greater than maxOffsetsPerTrigger {maximum}: no batch can satisfy both"
        )
    return ReadOptions(
        access=access,
        terms=_read_terms(given),
        topics=topics,
        starting=_read_bound(given, "starting", LATEST if is_stream else EARLIEST, topics),
        ending=_read_bound(given, "ending", LATEST, topics),
        late_time_is_latest=given.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        == "latest",
        group=given.kafka().get("group.id"),
        partitions_min=given.number("minPartitions"),
        partition_records_max=given.number("maxRecordsPerPartition"),
        trigger_offsets_max=maximum,
        trigger_offsets_min=minimum,
        trigger_bytes_max=given.number("maxBytesPerTrigger"),
        trigger_delay_ms_max=given.duration_ms("maxTriggerDelay", _TRIGGER_DELAY_MS),
        wait_ms=given.duration_ms("latestOffsetWaitMs", 500),
    )


def _refuse_ends(given: RawOptions) -> None:
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if given.has(name):
            raise BadArgument(f"{name} is for batch reads; a stream has no end (see Trigger.AvailableNow)")


def _with_patience(access: Access, patience_ms: int) -> Access:
    return replace(access, call_ms_max=max(access.call_ms_max, patience_ms))


def _read_terms(given: RawOptions) -> FetchTerms:
    kafka = given.kafka()
    level = kafka.get("isolation.level", "read_committed").strip().lower()
    if level not in ("read_committed", "read_uncommitted"):
        raise BadArgument(
            f"kafka.isolation.level is {level!r}; it must be read_committed or read_uncommitted"
        )
    if kafka.get("check.crcs", "true").strip().lower() != "true":
        raise BadArgument("kafka.check.crcs cannot be false: checksums are always verified")
    return FetchTerms(
        isolation=READ_COMMITTED if level == "read_committed" else READ_UNCOMMITTED,
        fetch_bytes_max=whole_number(kafka, "fetch.max.bytes", FetchTerms().fetch_bytes_max, 1),
        partition_bytes_max=whole_number(
            kafka, "max.partition.fetch.bytes", FetchTerms().partition_bytes_max, 1
        ),
        wait_ms=whole_number(kafka, "fetch.max.wait.ms", FetchTerms().wait_ms, 0),
        progress_ms_max=given.number("kafkaConsumer.pollTimeoutMs") or FetchTerms().progress_ms_max,
        with_headers=given.flag("includeHeaders", False),
        fails_on_loss=given.flag("failOnDataLoss", True),
    )


def _read_topics(given: RawOptions) -> TopicSelection:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if given.has(name)]
    if len(ways) != 1:
        found = " and ".join(ways) if ways else "none"
        raise BadArgument(f"set exactly one of subscribe, subscribePattern and assign; found {found}")
    if ways == ["subscribePattern"]:
        pattern = given.text("subscribePattern") or ""
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadArgument(
                f"subscribePattern {pattern!r} is not a valid regular expression: {error}"
            ) from None
        return TopicSelection(pattern=pattern)
    if ways == ["subscribe"]:
        names = tuple(name.strip() for name in (given.text("subscribe") or "").split(",") if name.strip())
        if not names:
            raise BadArgument("subscribe names no topic: write orders or orders,payments")
        return TopicSelection(names=tuple(dict.fromkeys(names)))
    return TopicSelection(places=tuple(sorted(_read_assign(given.json("assign", _ASSIGN_EXAMPLE)))))


def _read_assign(raw: Any) -> list[TopicPartition]:
    if not isinstance(raw, dict) or not raw or not all(_is_numbers(one) for one in raw.values()):
        raise BadArgument(f"assign names no partitions: write {_ASSIGN_EXAMPLE}")
    return [TopicPartition(topic, number) for topic, numbers in raw.items() for number in numbers]


def _is_numbers(raw: Any) -> bool:
    return isinstance(raw, list) and bool(raw) and all(type(one) is int and one >= 0 for one in raw)


def _read_bound(given: RawOptions, end: str, default: int, topics: TopicSelection) -> Bound:
    """In the connector's order of precedence: one time, times per partition, offsets."""
    if given.has(f"{end}Timestamp"):
        return Bound(time_ms=given.number(f"{end}Timestamp", 0))
    by_time = f"{end}OffsetsByTimestamp"
    if given.has(by_time):
        return Bound(
            times_ms=_read_places(given.json(by_time, _TIMES_EXAMPLE), by_time, 0, _TIMES_EXAMPLE, topics)
        )
    name = f"{end}Offsets"
    text = (given.text(name) or "").strip()
    opposite = "latest" if end == "starting" else "earliest"
    if text.lower() in _WORDS:
        if text.lower() == opposite and (end == "ending" or default == EARLIEST):
            raise BadArgument(f"{name} cannot be {opposite} in a batch read: there would be nothing to read")
        return Bound(everywhere=_WORDS[text.lower()])
    if not text:
        return Bound(everywhere=default)
    if not text.startswith("{"):
        raise BadArgument(
            f"{name} is {text!r}.{nearest(text, _WORDS)} It must be earliest, latest or {_OFFSETS_EXAMPLE}"
        )
    offsets = _read_places(given.json(name, _OFFSETS_EXAMPLE), name, EARLIEST, _OFFSETS_EXAMPLE, topics)
    return Bound(offsets=offsets)


def _read_places(
    raw: Any, name: str, least: int, example: str, topics: TopicSelection
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    if not isinstance(raw, dict) or not all(isinstance(one, dict) for one in raw.values()):
        raise BadArgument(f"{name} has the wrong form: write {example}")
    for topic, partitions in raw.items():
        if topics.names and topic not in topics.names:
            raise BadArgument(
                f"{name} names topic {topic!r}, which is not read.{nearest(topic, topics.names)}"
            )
        for number, value in partitions.items():
            if not str(number).isdecimal() or type(value) is not int or value < least:
                raise BadArgument(
                    f"{name} has an invalid value {value!r} for partition {number!r} of {topic}: write {example}"
                )
            found[TopicPartition(topic, int(number))] = value
    return found
