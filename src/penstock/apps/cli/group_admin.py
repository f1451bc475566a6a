"""What `penstock group` asks a broker: groups, members, committed offsets, lag. Never prints."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.apps.cli.client import (
    REQUEST_SECONDS_MAX,
    connect_admin,
    connect_consumer,
    failure,
    partitions_of,
    place,
    topic_metadata,
)
from penstock.apps.cli.failures import NotFound
from penstock.apps.cli.places import Places
from penstock.apps.cli.positions import Start

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

POLL_SECONDS = 0.5
AGE_SECONDS_MAX = 5.0
"""How long to look for the oldest unread record of each partition."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group in a list."""

    group: str
    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class Member:
    """One member, and the partitions that it has."""

    member: str
    client: str
    host: str
    partitions: list[str]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind in one partition; `seconds` is the age of the oldest record it has not read."""

    topic: str
    partition: int
    committed: int
    end: int
    lag: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Described:
    """One group with its members."""

    group: str
    kind: str
    state: str
    assignor: str
    members: list[Member]

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Move:
    """Where a seek takes one partition."""

    topic: str
    partition: int
    before: int | None
    after: int


class GroupAdmin:
    """The groups of one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = connect_admin(bootstrap)

    def _wait(self, future: Future[Any], group: str | None = None) -> Any:
        from confluent_kafka import KafkaError, KafkaException

        try:
            return future.result(REQUEST_SECONDS_MAX)
        except KafkaException as error:
            if group is not None and error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                raise NotFound(f"There is no group {group}. See: penstock group list") from error
            raise failure(error.args[0], self._bootstrap, group) from error

    def all_groups(self) -> list[Group]:
        found = self._wait(self._admin.list_consumer_groups())
        return sorted(
            (Group(one.group_id, one.type.name.lower(), one.state.name.lower()) for one in found.valid),
            key=lambda one: one.group,
        )

    def describe(self, group: str) -> Described:
        (future,) = self._admin.describe_consumer_groups([group]).values()
        found = self._wait(future, group)
        if found.state.name == "DEAD":
            raise NotFound(f"There is no group {group}. See: penstock group list")
        members = [
            Member(one.member_id, one.client_id, one.host, [_named(part) for part in _assigned(one)])
            for one in found.members
        ]
        return Described(
            group, found.type.name.lower(), found.state.name.lower(), found.partition_assignor, members
        )

    def committed(self, group: str) -> list[TopicPartition]:
        """Every committed offset of a group. Raises NotFound for a group that has none and is not there."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = [ConsumerGroupTopicPartitions(group)]
        (future,) = self._admin.list_consumer_group_offsets(asked).values()
        found = [one for one in self._wait(future, group).topic_partitions if one.offset >= 0]
        if not found:
            self.describe(group)
        return sorted(found, key=lambda one: (one.topic, one.partition))

    def lag(self, group: str) -> list[Lag]:
        """How far behind, in records and in time."""
        committed = self.committed(group)
        consumer = connect_consumer(self._bootstrap)
        try:
            ends = [
                Places(consumer, one.topic, self._bootstrap).spans([one.partition])[one.partition][1]
                for one in committed
            ]
            behind = [one for one, end in zip(committed, ends, strict=True) if one.offset < end]
            ages = _ages(consumer, behind)
        finally:
            consumer.close()
        return [
            Lag(
                one.topic,
                one.partition,
                one.offset,
                end,
                max(0, end - one.offset),
                ages.get((one.topic, one.partition), None if one.offset < end else 0.0),
            )
            for one, end in zip(committed, ends, strict=True)
        ]

    def plan_seek(self, group: str, topics: tuple[str, ...], start: Start) -> list[Move]:
        """Where each partition would go. Without topics: those that the group has committed something for."""
        before = {(one.topic, one.partition): one.offset for one in self._committed_or_none(group)}
        names = topics or tuple(sorted({topic for topic, _ in before}))
        if not names:
            raise NotFound(f"Group {group} has committed nothing yet; say which topic: --topic NAME")
        consumer = connect_consumer(self._bootstrap)
        moves = []
        try:
            for name in names:
                places = Places(consumer, name, self._bootstrap)
                spans = places.spans(partitions_of(topic_metadata(consumer, name, self._bootstrap), None))
                for number, offset in places.offsets(spans, start).items():
                    moves.append(Move(name, number, before.get((name, number)), offset))
        finally:
            consumer.close()
        return moves

    def _committed_or_none(self, group: str) -> list[TopicPartition]:
        try:
            return self.committed(group)
        except NotFound:
            return []

    def seek(self, group: str, moves: list[Move]) -> None:
        """Commit the new offsets. The broker refuses while the group has members."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        wanted = [place(move.topic, move.partition, move.after) for move in moves]
        asked = [ConsumerGroupTopicPartitions(group, wanted)]
        (future,) = self._admin.alter_consumer_group_offsets(asked).values()
        for one in self._wait(future, group).topic_partitions:
            if one.error is not None:
                raise failure(one.error, self._bootstrap, group)

    def delete(self, group: str) -> None:
        (future,) = self._admin.delete_consumer_groups([group]).values()
        self._wait(future, group)


def _assigned(member: Any) -> list[TopicPartition]:
    return sorted(member.assignment.topic_partitions, key=lambda one: (one.topic, one.partition))


def _named(one: TopicPartition) -> str:
    return f"{one.topic}-{one.partition}"


def _ages(consumer: Consumer, behind: list[TopicPartition]) -> dict[tuple[str, int], float]:
    """Seconds since the record at each committed offset was written; what cannot be read in time is left out."""
    ages: dict[tuple[str, int], float] = {}
    waiting = {(one.topic, one.partition) for one in behind}
    if not waiting:
        return ages
    consumer.assign([place(one.topic, one.partition, one.offset) for one in behind])
    deadline = time.monotonic() + AGE_SECONDS_MAX
    while waiting and time.monotonic() < deadline:
        for message in consumer.consume(500, POLL_SECONDS):
            where = (message.topic() or "", message.partition() or 0)
            if where in waiting:
                waiting.discard(where)
                written_ms = message.timestamp()[1]
                if message.error() is None and written_ms >= 0:
                    ages[where] = max(0.0, round(time.time() - written_ms / 1000, 3))
    return ages
