"""Reads topics for `sub`: assigned partitions, or those of a group member. `record_show` decides what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from penstock.apps.cli.formats import RecordView
from penstock.apps.cli.interrupts import stop_on_interrupt
from penstock.apps.cli.outage import Outage
from penstock.apps.cli.record_show import RecordShow
from penstock.apps.cli.terminal import say

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

RECORDS_PER_POLL = 500
POLL_SECONDS = 0.2

Place = tuple[str, int]
"""Topic and partition."""


class TopicReader:
    """Copies records until a count, an end position or an interrupt."""

    def __init__(
        self,
        consumer: Consumer,
        bootstrap: str,
        show: RecordShow,
        out: BinaryIO,
        outage: Outage,
        count: int | None = None,
    ) -> None:
        self.consumer = consumer
        self.bootstrap = bootstrap
        self.remaining = count
        self.ends: dict[Place, int] | None = None
        self._show = show
        self._out = out
        self._outage = outage
        self._commits = False
        self._is_uncommitted = False

    def assign(self, starts: dict[Place, int], ends: dict[Place, int] | None) -> None:
        """Read from these offsets; with ends, up to them."""
        from penstock.apps.cli.client import topic_partition

        if ends is not None:
            self.ends = {place: end for place, end in ends.items() if starts[place] < end}
        self.consumer.assign([topic_partition(*place, offset) for place, offset in starts.items()])

    def join(self, topics: list[str], *, until_end: bool) -> None:
        """Subscribe as a member of the group; with `until_end`, up to the end offsets at assignment."""
        from penstock.apps.cli.topic_offsets import TopicOffsets

        self._commits = True

        def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if until_end:
                self.ends = {}
                for one in partitions:
                    offsets = TopicOffsets(consumer, one.topic, self.bootstrap)
                    ((_, end),) = offsets.spans([one.partition]).values()
                    self.ends[one.topic, one.partition] = end

        self.consumer.subscribe(topics, on_assign=on_assign)

    def write(self, record: RecordView) -> None:
        """Write one record, unless it is filtered out."""
        shown = self._show.show(record)
        if shown is not None:
            self._out.write(shown)
            if self.remaining is not None:
                self.remaining -= 1

    def copy(self) -> None:
        """Write records until the count, the end or an interrupt."""
        stopping = stop_on_interrupt()
        while not self._is_over() and not stopping:
            messages = self.consumer.consume(self._wanted(), POLL_SECONDS)
            if messages:
                self._outage.ended()
            else:
                self._outage.check(self.consumer)
            for message in messages:
                if message.error() is not None:
                    self._reached_end_or_raise(message)
                elif self._is_before_end(message):
                    self.write(record_view(message))
                    if self._commits:
                        self.consumer.store_offsets(message)
                        self._is_uncommitted = True
            self._out.flush()
            if self._is_uncommitted:
                self._commit()
        if self._is_uncommitted:
            say("The last offsets of the group are not committed: the broker does not answer.", err=True)

    def _commit(self) -> None:
        """Commit what was written. What fails because the broker is gone is committed when it is back."""
        from confluent_kafka import KafkaError, KafkaException

        from penstock.apps.cli.client import failure_of

        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            problem: KafkaError = error.args[0]
            if _may_pass(problem):
                self._outage.suspect()
                return
            if problem.code() != KafkaError._NO_OFFSET:  # the partitions were lost meanwhile
                raise failure_of(problem, self.bootstrap) from error
        self._is_uncommitted = False

    def _wanted(self) -> int:
        return RECORDS_PER_POLL if self.remaining is None else min(RECORDS_PER_POLL, self.remaining)

    def _is_over(self) -> bool:
        return self.remaining == 0 or self.ends == {}

    def _is_before_end(self, message: Message) -> bool:
        """False if a record is past the end offset as of the start."""
        if self.ends is None:
            return True
        place, offset = place_of(message), message.offset()
        assert offset is not None
        end = self.ends.get(place)
        if end is None:
            return False
        if offset + 1 >= end:
            del self.ends[place]
        return offset < end

    def _reached_end_or_raise(self, message: Message) -> None:
        if is_end_of_partition(message, self.bootstrap) and self.ends is not None:
            self.ends.pop(place_of(message), None)


def is_end_of_partition(message: Message, bootstrap: str) -> bool:
    """Whether an error message only tells that there is nothing more at the moment. Raises other errors."""
    from confluent_kafka import KafkaError

    from penstock.apps.cli.client import failure_of

    error = message.error()
    assert error is not None
    if error.code() != KafkaError._PARTITION_EOF:
        raise failure_of(error, bootstrap, message.topic())
    return True


def _may_pass(error: KafkaError) -> bool:
    """Whether a commit may succeed later: the broker is gone, its coordinator moves, or the group rebalances."""
    from confluent_kafka import KafkaError

    return error.retriable() or error.code() in (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError._TIMED_OUT,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
    )


def place_of(message: Message) -> Place:
    """Topic and partition of a message."""
    topic, partition = message.topic(), message.partition()
    assert topic is not None and partition is not None
    return topic, partition


def record_view(message: Message) -> RecordView:
    """The fields of a message that are shown."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    headers = message.headers() or []
    assert isinstance(headers, list)
    return RecordView(
        topic=message.topic() or "",
        partition=partition,
        offset=offset,
        timestamp_ms=message.timestamp()[1],
        key=_as_bytes(message.key()),
        value=_as_bytes(message.value()),
        headers=tuple((name, _as_bytes(value)) for name, value in headers),
    )


def _as_bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
