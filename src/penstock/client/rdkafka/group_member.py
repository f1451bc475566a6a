"""A group member that pushes batches of rows from a thread of its own: for gateways that serve many members.

    member = GroupMember(["orders"], options, rows_max=1_000, post=print)
    member.start()
    ...
    member.close()

`post` is called in the member's thread with each event, in order. Everything that is asked of librdkafka's consumer
runs in that thread: a call from another one, while it polls, would block the interpreter. A member without room keeps
its place in the group: it polls, and its partitions are paused.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from penstock.client.errors import ClientError, IllegalState, NotFound
from penstock.client.messages import Position
from penstock.client.options import ConsumerOptions, resolve_options
from penstock.client.rdkafka.consumer_progress import ConsumerProgress
from penstock.client.rdkafka.library import LibraryErrors, configure, create, wait_reachable
from penstock.client.rdkafka.rdkafka_consumer import TRANSIENT, PartitionKey, consumer_settings
from penstock.client.rdkafka.translation import cause, translate

logger = logging.getLogger("penstock.client.group_member")

POLL_S = 0.1
BUSY_POLL_S = 0.01
BUSY_S = 1.0
"""Poll interval of an idle member, and for how long it is shorter after a request: requests wait for a poll to end."""
STALL_S = 1.0
"""How long a member waits for room before it pauses its partitions, which drops what was prefetched."""

PROPAGATION_S_MAX = 2.0
"""How long a topic may be unknown after it was created: it reaches each broker of a cluster by itself."""
PROPAGATION_STEP_S = 0.05

PREFETCH = {"fetch.queue.backoff.ms": 50}
"""librdkafka pauses its fetches this long when its queue is full. Its default, 1 s, limits a fast reader to one queue
of 100,000 messages per second."""

Row = tuple[int, int | None, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]] | None]
"""Offset, timestamp in milliseconds, key, value, headers."""


class RowsRead(NamedTuple):
    """Rows of one partition, in order."""

    topic: str
    partition: int
    rows: list[Row]


class PartitionsAssigned(NamedTuple):
    """The partitions of the member from now on."""

    places: list[PartitionKey]
    member_id: str


class PartitionsRevoked(NamedTuple):
    """Partitions that the member no longer has."""

    places: list[PartitionKey]


class CommandDone(NamedTuple):
    """A command has run, at this point of the sequence of events."""

    tag: Any
    error: ClientError | None


class MemberEnded(NamedTuple):
    """The member has left its group: closed, or because of an error."""

    error: ClientError | None


MemberEvent = RowsRead | PartitionsAssigned | PartitionsRevoked | CommandDone | MemberEnded
Command = Callable[[Consumer], None]


class GroupMember:
    """One librdkafka consumer in a group, and the thread that polls it."""

    def __init__(
        self,
        topics: Sequence[str],
        options: ConsumerOptions,
        *,
        rows_max: int,
        post: Callable[[MemberEvent], None],
    ) -> None:
        self._topics = list(topics)
        self._options = resolve_options(ConsumerOptions, options, "Consumer")
        self._settings = consumer_settings(self._options)
        self._library_errors = LibraryErrors()
        self._rows_max = rows_max
        self._post = post
        self._commands: deque[tuple[Any, Command]] = deque()
        self._paused: set[PartitionKey] = set()
        self._to_store: dict[PartitionKey, int] = {}
        self._is_closing = False
        self._busy_until = 0.0
        self._room = threading.Event()
        self._room.set()
        self._thread = threading.Thread(target=self._run, name="penstock-member", daemon=True)

    def start(self) -> None:
        """Join the group in the member's thread; errors are posted as MemberEnded."""
        self._thread.start()

    def close(self) -> None:
        """Leave the group soon: stored offsets are committed, and MemberEnded is posted. Does not wait."""
        self._is_closing = True
        self._room.set()

    def set_room(self, has_room: bool) -> None:
        """Whether more rows may be posted."""
        if has_room or self._is_closing:
            self._room.set()
        else:
            self._room.clear()

    def store(self, positions: Iterable[Position]) -> None:
        """Offsets for the next commit in the background."""
        for one in positions:
            self._to_store[one.topic, one.partition] = one.offset

    # -- commands: run in the member's thread, answered with CommandDone

    def commit(self, positions: Sequence[Position], tag: Any) -> None:
        """Commit offsets; answered once they are durable, or with Fenced, Refused, TimedOut."""
        self._commands.append((tag, functools.partial(_commit, positions)))

    def progress(self, positions: Sequence[Position], tag: Any) -> ConsumerProgress:
        """These offsets, to be committed by a producer's transaction; to be used after CommandDone."""
        found = _MemberProgress([TopicPartition(one.topic, one.partition, one.offset) for one in positions])
        self._commands.append((tag, found.read_group))
        return found

    def seek(self, position: Position, tag: Any) -> None:
        """Continue at another offset of an assigned partition."""
        place = TopicPartition(position.topic, position.partition, position.offset)

        def run(consumer: Consumer) -> None:
            _check_assigned(consumer, [(position.topic, position.partition)])
            consumer.seek(place)

        self._commands.append((tag, run))

    def pause(self, places: Sequence[PartitionKey], tag: Any) -> None:
        """Read no more of these partitions."""

        def run(consumer: Consumer) -> None:
            _check_assigned(consumer, places)
            self._paused.update(places)
            consumer.pause([TopicPartition(*place) for place in places])

        self._commands.append((tag, run))

    def resume(self, places: Sequence[PartitionKey], tag: Any) -> None:
        """Read on."""

        def run(consumer: Consumer) -> None:
            _check_assigned(consumer, places)
            self._paused.difference_update(places)
            consumer.resume([TopicPartition(*place) for place in places])

        self._commands.append((tag, run))

    def rewind(self, tag: Any) -> None:
        """Continue after the committed offsets of all assigned partitions."""
        self._commands.append((tag, self._rewind))

    def _rewind(self, consumer: Consumer) -> None:
        for place in consumer.committed(consumer.assignment(), timeout=self._options["request_s_max"]):
            if place.offset < 0:
                place.offset = self._reset_offset()
            consumer.seek(place)

    def _reset_offset(self) -> int:
        reset = self._options["reset"]
        if isinstance(reset, int):
            return reset
        return OFFSET_BEGINNING if reset == "earliest" else OFFSET_END

    # -- the member's thread

    def _run(self) -> None:
        deadline_s = time.monotonic() + PROPAGATION_S_MAX
        failure: ClientError | None = None
        try:
            failure = self._join()
            while isinstance(failure, NotFound) and time.monotonic() < deadline_s and not self._is_closing:
                time.sleep(PROPAGATION_STEP_S)
                failure = self._join()
        finally:
            self._post(MemberEnded(failure))

    def _join(self) -> ClientError | None:
        """Join the group and read until the member is closed; returns the error that ended it."""
        consumer: Consumer | None = None
        try:
            wait_reachable(self._options)
            consumer = create(
                Consumer, configure(self._options, {**self._settings, **PREFETCH}, self._library_errors)
            )
            consumer.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._revoked)
            while not self._is_closing:
                self._step(consumer)
            self._store_handled(consumer)
        except KafkaException as error:
            return translate(cause(error), ", ".join(self._topics))
        except ClientError as error:
            return error
        finally:
            self._leave(consumer)
        return None

    def _leave(self, consumer: Consumer | None) -> None:
        if consumer is not None:
            try:
                consumer.close()
            except (KafkaException, RuntimeError) as error:
                logger.warning("cannot leave the group, its session times out: %s", error)

    def _step(self, consumer: Consumer) -> None:
        while self._commands:
            tag, run = self._commands.popleft()
            self._post(CommandDone(tag, _attempt(run, consumer)))
            self._busy_until = time.monotonic() + BUSY_S
        self._store_handled(consumer)
        if not self._room.is_set() and not self._room.wait(STALL_S):
            self._wait_paused(consumer)
        found = consumer.consume(1, BUSY_POLL_S if time.monotonic() < self._busy_until else POLL_S)
        if found:
            found += consumer.consume(self._rows_max - 1, 0)
        else:
            self._library_errors.raise_cause()
        self._deliver(consumer, found)

    def _deliver(self, consumer: Consumer, found: Sequence[Any]) -> None:
        rows = self._rows_of(found)
        if rows and self._options["delivery"] == "at_most_once":
            rows = self._commit_first(consumer, rows)
        for (topic, partition), part in rows.items():
            self._post(RowsRead(topic, partition, part))

    def _store_handled(self, consumer: Consumer) -> None:
        """Pass offsets to librdkafka, which commits them in the background."""
        while self._to_store:
            place, offset = self._to_store.popitem()
            try:
                consumer.store_offsets(offsets=[TopicPartition(*place, offset)])
            except KafkaException as error:
                if cause(error).code() != KafkaError._STATE:  # _STATE: the partition was revoked
                    raise

    def _wait_paused(self, consumer: Consumer) -> None:
        """Stay in the group without reading until there is room."""
        paused: set[PartitionKey] = set()
        while not self._room.is_set() and not self._commands:
            assigned = consumer.assignment()
            if paused != _keys(assigned):  # a rebalance may have brought others
                consumer.pause(assigned)
                paused = _keys(assigned)
            self._store_handled(consumer)
            self._deliver(consumer, consumer.consume(1, POLL_S))
        own = [one for one in consumer.assignment() if (one.topic, one.partition) not in self._paused]
        consumer.resume(own)

    def _rows_of(self, found: Sequence[Any]) -> dict[PartitionKey, list[Row]]:
        """Group messages by partition. Raises for errors that librdkafka does not recover from."""
        rows: dict[PartitionKey, list[Row]] = {}
        for message in found:
            error = message.error()
            if error is not None:
                self._check(error)
                continue
            kind, timestamp_ms = message.timestamp()
            row = (
                message.offset(),
                timestamp_ms if kind else None,
                message.key(),
                message.value(),
                message.headers(),
            )
            place = (message.topic(), message.partition())
            part = rows.get(place)
            if part is None:
                rows[place] = [row]
            else:
                part.append(row)
        return rows

    def _check(self, error: KafkaError) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            return
        if error.code() not in TRANSIENT and not error.retriable():
            raise translate(error, ", ".join(self._topics))
        logger.warning("%s", error.str(), extra={"code": error.name()})

    def _commit_first(
        self, consumer: Consumer, rows: dict[PartitionKey, list[Row]]
    ) -> dict[PartitionKey, list[Row]]:
        """For at_most_once: commit rows before they are posted; if that fails, read them again."""
        try:
            _commit([Position(*place, part[-1][0] + 1) for place, part in rows.items()], consumer)
        except ClientError as error:
            logger.warning("commit failed, reading the messages again: %s", error, extra={"code": error.code})
            assigned = _keys(consumer.assignment())
            for place, part in rows.items():
                if place in assigned:
                    consumer.seek(TopicPartition(*place, part[0][0]))
            time.sleep(POLL_S)
            return {}
        return rows

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        reset = self._options["reset"]
        if isinstance(reset, int):
            places = consumer.committed(places, timeout=self._options["request_s_max"])
            for place in places:
                place.offset = reset if place.offset < 0 else place.offset
        consumer.assign(places)
        consumer.resume(
            places
        )  # librdkafka remembers that a partition was paused when it was assigned before
        self._paused.clear()
        self._post(PartitionsAssigned(sorted(_keys(places)), consumer.memberid() or ""))

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._store_handled(consumer)  # librdkafka commits them before it gives the partitions up
        if places:
            self._post(PartitionsRevoked(sorted(_keys(places))))


class _MemberProgress:
    """Offsets of a member in a producer's transaction."""

    def __init__(self, places: list[TopicPartition]) -> None:
        self._places = places
        self._group: Any = None

    def read_group(self, consumer: Consumer) -> None:
        self._group = consumer.consumer_group_metadata()

    def offsets_for_transaction(self) -> tuple[list[TopicPartition], Any]:
        return self._places, self._group

    def transaction_ended(self, *, committed: bool) -> None:
        """Nothing: the caller rewinds the member after an abort."""


def _commit(positions: Sequence[Position], consumer: Consumer) -> None:
    places = [TopicPartition(one.topic, one.partition, one.offset) for one in positions]
    try:
        committed = consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as error:
        raise translate(cause(error), "commit") from error
    for place in committed or ():
        if place.error is not None:
            raise translate(place.error, f"commit of {place.topic} partition {place.partition}")


def _attempt(run: Command, consumer: Consumer) -> ClientError | None:
    try:
        run(consumer)
    except KafkaException as error:
        return translate(cause(error), "request")
    except ClientError as error:
        return error
    return None


def _keys(places: Iterable[TopicPartition]) -> set[PartitionKey]:
    return {(place.topic, place.partition) for place in places}


def _check_assigned(consumer: Consumer, wanted: Sequence[PartitionKey]) -> None:
    missing = sorted(set(wanted) - _keys(consumer.assignment()))
    if missing:
        topic, partition = missing[0]
        raise IllegalState(f"{topic} partition {partition} is not assigned to this member.")
