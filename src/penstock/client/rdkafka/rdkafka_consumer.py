"""The librdkafka consumer under Consumer and AsyncConsumer: assignment, prefetch, positions and commits.

All calls may block; AsyncConsumer runs them in one thread. Never commits a message that was not returned.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Message as LibraryMessage

from penstock.client.errors import BadArgument, ClientError, IllegalState, NotFound, SerializationFailed
from penstock.client.messages import Message, Position
from penstock.client.options import ConsumerOptions, resolve_options
from penstock.client.rdkafka.library import LibraryErrors, configure, create, ms, wait_reachable
from penstock.client.rdkafka.translation import cause, translate
from penstock.client.serializers import decode, serializer

logger = logging.getLogger("penstock.client.consumer")

ALONE = "penstock-alone"
"""librdkafka requires a group id even without a group; nothing is committed for this one."""

STEP_S = 0.5
"""Longest single wait in librdkafka, so that `stop_waiting` takes effect."""

SLOW_FETCH_MS = 500
QUICK_FETCH_MS = 10
"""Fetch long-poll time. Only an empty response signals the end of a partition, so `until_end` polls briefly."""

PartitionKey = tuple[str, int]
"""Topic and partition."""

TRANSIENT = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._MAX_POLL_EXCEEDED,
)
"""Errors from which librdkafka recovers by itself."""

_REBALANCING = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "_ASSIGNMENT_LOST")
"""Commit errors during a rebalance: the partitions may belong to another member."""


def consumer_settings(options: ConsumerOptions) -> dict[str, Any]:
    """Map options to librdkafka settings. Raises BadArgument for conflicting options."""
    group, delivery, reset = options["group"], options["delivery"], options["reset"]
    if group is None and delivery != "at_least_once":
        raise BadArgument(
            f"Consumer: delivery={delivery!r} needs group: without a group nothing is committed."
        )
    if group is None and options["instance_id"] is not None:
        raise BadArgument("Consumer: instance_id needs group: it identifies a group member.")
    if group == "":
        raise BadArgument("Consumer: group cannot be empty; omit it to read without a group.")
    if group is not None and options["partitions"] is not None:
        raise BadArgument(
            "Consumer: group and partitions exclude each other: the group assigns the partitions."
        )
    if delivery == "at_most_once" and options["commit"] == "manual":
        raise BadArgument(
            "Consumer: delivery='at_most_once' commits automatically; commit='manual' contradicts it."
        )
    commits_automatically = group is not None and delivery == "at_least_once" and options["commit"] == "auto"
    settings = {
        "group.id": group or ALONE,
        "enable.auto.commit": commits_automatically,
        "auto.commit.interval.ms": options["commit_interval_ms"],
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": reset if isinstance(reset, str) else "error",
        "allow.auto.create.topics": False,
        "check.crcs": True,
        "fetch.wait.max.ms": QUICK_FETCH_MS if options["until_end"] else SLOW_FETCH_MS,
        "isolation.level": "read_committed",
        "queued.max.messages.kbytes": max(1, options["read_ahead_bytes_max"] // 1024),
        "session.timeout.ms": options["session_ms"],
        "heartbeat.interval.ms": min(3_000, options["session_ms"] // 3),
        "max.poll.interval.ms": max(ms(options["handling_s_max"]), options["session_ms"]),
        "on_commit": _on_commit,
    }
    if options["instance_id"] is not None:
        settings["group.instance.id"] = options["instance_id"]
    return settings


def _on_commit(error: KafkaError | None, places: list[TopicPartition]) -> None:
    if error is not None and error.code() != KafkaError._NO_OFFSET:
        translated = translate(error, "commit")
        logger.warning(
            "offset commit failed, the next commit includes these offsets: %s",
            translated,
            extra={"code": translated.code},
        )


class IdleTimer:
    """Poll interval of an iteration, and when it ends: `idle_s_max` or `until_end`."""

    def __init__(self, consumer: RdkafkaConsumer) -> None:
        self._consumer = consumer
        self._idle_s_max = consumer.options["idle_s_max"]
        self._since = time.monotonic()

    @property
    def wait_s(self) -> float:
        return STEP_S if self._idle_s_max is None else min(STEP_S, self._idle_s_max)

    @property
    def is_over(self) -> bool:
        is_idle = self._idle_s_max is not None and time.monotonic() - self._since >= self._idle_s_max
        return is_idle or self._consumer.is_finished


class RdkafkaConsumer:
    """One librdkafka consumer, its prefetched messages and the offsets returned to the program."""

    def __init__(self, topics: str | Sequence[str], given: Mapping[str, Any]) -> None:
        self.options = resolve_options(ConsumerOptions, given, "Consumer")
        self.topics = [topics] if isinstance(topics, str) else list(topics)
        if not self.topics or not all(isinstance(name, str) and name for name in self.topics):
            raise BadArgument(f"Consumer: topics must be a name or a list of names, not {topics!r}.")
        self._settings = consumer_settings(self.options)
        self._key = serializer(self.options["key_serializer"])
        self._value = serializer(self.options["value_serializer"])
        self._library_errors = LibraryErrors()
        self._consumer: Consumer | None = None
        self._is_closing = False
        self._ahead: deque[LibraryMessage] = deque()
        self._first: dict[PartitionKey, int] = {}
        self._next: dict[PartitionKey, int] = {}
        self._unstored: dict[PartitionKey, int] = {}
        self._at_end: set[PartitionKey] = set()

    def open(self) -> None:
        """Connect, then join the group or assign the partitions."""
        wait_reachable(self.options)
        consumer = create(Consumer, configure(self.options, self._settings, self._library_errors))
        try:
            if self.options["group"] is None:
                consumer.assign(self._starts(consumer))
            else:
                consumer.subscribe(self.topics, on_assign=self._assigned, on_revoke=self._revoked)
        except BaseException:
            consumer.close()
            raise
        self._consumer = consumer
        logger.info("consumer opened", extra={"topics": self.topics, "group": self.options["group"]})

    def _opened(self) -> Consumer:
        if self._consumer is None:
            raise IllegalState("The consumer is not open: it was closed or never started.")
        return self._consumer

    def _request(self, about: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments, timeout=self.options["request_s_max"])
        except KafkaException as error:
            raise self._library_errors.explain(translate(cause(error), about)) from error

    def _starts(self, consumer: Consumer) -> list[TopicPartition]:
        """Start positions of a consumer without a group."""
        found = []
        topics = self._request("topics", consumer.list_topics).topics
        for name in self.topics:
            if name not in topics:
                raise NotFound(f"There is no topic {name}.")
            known = sorted(topics[name].partitions)
            wanted = self.options["partitions"]
            absent = [number for number in wanted or () if number not in known]
            if absent:
                raise NotFound(f"Topic {name} has no partition {absent[0]}: it has 0 to {len(known) - 1}.")
            found += [self._start(consumer, name, number) for number in (known if wanted is None else wanted)]
        return found

    def _start(self, consumer: Consumer, topic: str, number: int) -> TopicPartition:
        """Start position of one partition. `latest` is resolved now, so that later records are not missed."""
        reset = self.options["reset"]
        place = TopicPartition(topic, number, OFFSET_BEGINNING)
        if reset == "latest":
            _, place.offset = self._request(topic, consumer.get_watermark_offsets, place)
        elif isinstance(reset, int):
            place.offset = reset
        return place

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Handle an assignment. With an offset as `reset`, partitions without a commit start there."""
        self._at_end -= {_where(place) for place in places}
        logger.info("partitions assigned", extra=_named(places))
        reset = self.options["reset"]
        if isinstance(reset, int):
            starts = self._request("committed offsets", consumer.committed, places)
            for place in starts:
                place.offset = reset if place.offset < 0 else place.offset
            consumer.assign(starts)

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        logger.info("partitions revoked", extra=_named(places))
        for where in map(_where, places):
            self._next.pop(where, None)
            self._first.pop(where, None)
            self._unstored.pop(where, None)
            self._at_end.discard(where)

    @property
    def has_ended(self) -> bool:
        """Whether all records of all assigned partitions have been returned."""
        assigned = {_where(place) for place in self._opened().assignment()}
        return not self._ahead and bool(assigned) and assigned <= self._at_end

    def assignment(self) -> list[tuple[str, int]]:
        """The assigned topics and partitions."""
        return sorted(_where(place) for place in self._opened().assignment())

    def positions(self) -> list[Position]:
        """The offset after the last message returned, per partition."""
        return sorted(Position(*where, offset) for where, offset in self._next.items())

    @property
    def is_finished(self) -> bool:
        """Whether `until_end` is set and the end has been reached."""
        return self.options["until_end"] and self.has_ended

    @property
    def has_ahead(self) -> bool:
        """Whether `take` can return messages without waiting."""
        return bool(self._ahead)

    def fill(self, records_max: int, wait_s: float) -> None:
        """Wait for messages to return. Messages returned earlier now count as handled."""
        self._store_handled()
        deadline = time.monotonic() + wait_s
        while not self._ahead and not self._is_closing:
            left_s = max(0.0, deadline - time.monotonic())
            self._fetch(max(records_max, self.options["read_ahead_records_max"]), min(STEP_S, left_s))
            if not left_s or self.is_finished:
                return

    def stop_waiting(self) -> None:
        """Make `fill` return at once, now and in later calls. Called from another thread."""
        self._is_closing = True

    def take(self, records_max: int) -> list[Message]:
        """Return up to `records_max` prefetched messages. Never waits. Earlier messages now count as handled.

        Raises SerializationFailed for a message that cannot be decoded; the next call continues after it.
        """
        self._store_handled()
        taken: list[Message] = []
        while self._ahead and len(taken) < records_max:
            try:
                taken.append(self._decoded(self._ahead[0]))
            except SerializationFailed:
                if taken:
                    break
                self._record_returned(self._ahead.popleft())
                raise
            self._record_returned(self._ahead.popleft())
        return taken

    def _fetch(self, records_max: int, wait_s: float) -> None:
        """Wait for one message, then take all that are already fetched."""
        consumer = self._opened()
        try:
            found = consumer.consume(1, wait_s)
            if found:
                found += consumer.consume(records_max - 1, 0)
        except KafkaException as raised:
            raise translate(cause(raised), ", ".join(self.topics)) from raised
        failure: KafkaError | None = None
        for message in found:
            error = message.error()
            if error is None:
                self._ahead.append(message)
                self._at_end.discard(_place_of(message)[:2])
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(_place_of(message)[:2])
            elif error.code() in TRANSIENT:
                logger.warning("%s", error.str(), extra={"code": error.name()})
            else:
                failure = failure or error
        if self._ahead and self.options["delivery"] == "at_most_once":
            self._commit_ahead()
        if failure is not None:
            raise translate(failure, ", ".join(self.topics))
        if not found:
            self._library_errors.raise_cause()

    def _commit_ahead(self) -> None:
        """For at_most_once: commit messages before they are returned; if that fails, fetch them again."""
        first: dict[PartitionKey, int] = {}
        after: dict[PartitionKey, int] = {}
        for topic, number, offset in map(_place_of, self._ahead):
            first.setdefault((topic, number), offset)
            after[topic, number] = offset + 1
        try:
            self._commit(after)
        except ClientError as error:
            self._rewind(first)
            if error.code not in _REBALANCING:
                raise
            logger.warning(
                "commit rejected during a rebalance, fetching the messages again: %s",
                error,
                extra={"code": error.code},
            )

    def _rewind(self, first: Mapping[PartitionKey, int]) -> None:
        """Return these messages again, for partitions that are still assigned."""
        assigned = set(self.assignment())
        for (topic, number), offset in first.items():
            if (topic, number) in assigned:
                self.seek(topic, number, offset)
            else:
                self._drop_ahead({(topic, number)})

    def _decoded(self, message: LibraryMessage) -> Message:
        topic, number, offset = _place_of(message)
        kind, timestamp_ms = message.timestamp()
        about = f"{topic} partition {number} offset {offset}"
        return Message(
            topic=topic,
            partition=number,
            offset=offset,
            key=decode(self._key, _as_bytes(message.key()), topic, f"{about}: the key"),
            value=decode(self._value, _as_bytes(message.value()), topic, f"{about}: the value"),
            headers=tuple((name, _as_bytes(value)) for name, value in _headers(message)),
            timestamp_ms=timestamp_ms if kind != TIMESTAMP_NOT_AVAILABLE else None,
        )

    def _record_returned(self, message: LibraryMessage) -> None:
        topic, number, offset = _place_of(message)
        self._first.setdefault((topic, number), offset)
        self._next[topic, number] = offset + 1
        self._unstored[topic, number] = offset + 1

    def _store_handled(self) -> None:
        """Pass handled offsets to librdkafka's background commit."""
        unstored, self._unstored = self._unstored, {}
        if not unstored or not self._settings["enable.auto.commit"]:
            return
        try:
            self._opened().store_offsets(
                offsets=[TopicPartition(*where, offset) for where, offset in unstored.items()]
            )
        except KafkaException as error:
            if cause(error).code() != KafkaError._STATE:  # _STATE: the partition was revoked
                raise translate(cause(error), "commit") from error

    def commit(self, messages: Iterable[Message] | None) -> None:
        """Commit up to these messages, or up to all returned messages. Raises Fenced, Refused, TimedOut."""
        if self.options["group"] is None:
            raise IllegalState("Without a group offsets cannot be committed: set the group option.")
        if self.options["delivery"] == "exactly_once":
            raise IllegalState(
                "With exactly_once the producer commits: use `with producer.transaction(consumer):`."
            )
        if messages is None:
            self._commit(self._next)
        else:
            offsets: dict[PartitionKey, int] = {}
            for one in messages:
                where = (one.topic, one.partition)
                offsets[where] = max(offsets.get(where, 0), one.offset + 1)
            self._commit(offsets)

    def _commit(self, offsets: Mapping[PartitionKey, int]) -> None:
        places = [TopicPartition(*where, offset) for where, offset in sorted(offsets.items())]
        if not places:
            return
        try:
            committed = self._opened().commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            raise translate(cause(error), "commit") from error
        for place in committed or ():
            if place.error is not None:
                raise translate(place.error, f"commit of {place.topic} partition {place.partition}")

    def committed(self) -> list[Position]:
        """The group's committed offsets of the assigned partitions."""
        places = self._request("committed offsets", self._opened().committed, self._opened().assignment())
        return sorted(Position(one.topic, one.partition, one.offset) for one in places if one.offset >= 0)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at another offset of an assigned partition."""
        self._drop_ahead({(topic, partition)})
        try:
            self._opened().seek(TopicPartition(topic, partition, offset))
        except KafkaException as error:
            raise translate(cause(error), f"{topic} partition {partition}") from error
        self._next[topic, partition] = offset
        self._at_end.discard((topic, partition))

    def _drop_ahead(self, wheres: set[PartitionKey]) -> None:
        self._ahead = deque(one for one in self._ahead if _place_of(one)[:2] not in wheres)
        for where in wheres:
            self._unstored.pop(where, None)

    def offsets_for_transaction(self) -> tuple[list[TopicPartition], Any]:
        """Offsets and group metadata for a producer's transaction. Raises IllegalState without exactly_once."""
        if self.options["delivery"] != "exactly_once":
            raise IllegalState("A consumer in a transaction needs delivery='exactly_once'.")
        places = [
            TopicPartition(*where, self._next[where]) for where in sorted(self._first) if where in self._next
        ]
        return places, self._opened().consumer_group_metadata()

    def transaction_ended(self, *, committed: bool) -> None:
        """Continue after a commit; return the messages of the transaction again after an abort."""
        first, self._first = self._first, {}
        if not committed:
            self._rewind(first)

    def close(self, *, handled: bool) -> None:
        """Leave the group. `handled`: whether the messages returned last count as handled."""
        consumer = self._consumer
        if consumer is None:
            return
        if handled:
            self._store_handled()
        consumer.close()
        self._consumer = None
        logger.info("consumer closed")


def _where(place: TopicPartition) -> PartitionKey:
    return place.topic, place.partition


def _named(places: Iterable[TopicPartition]) -> dict[str, list[str]]:
    """Partitions as a log field."""
    return {"partitions": sorted(f"{place.topic}-{place.partition}" for place in places)}


def _place_of(message: LibraryMessage) -> tuple[str, int, int]:
    topic, number, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and number is not None and offset is not None
    return topic, number, offset


def _headers(message: LibraryMessage) -> list[tuple[str, Any]]:
    headers = message.headers() or []
    assert isinstance(headers, list)
    return headers


def _as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
