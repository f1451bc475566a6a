"""Verbs for committed offsets: commit, fetch, delete. A call with many offsets is written as several batches.

A verb with a callback calls it exactly once, when its effect is durable, and does not raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from penstock.core.access import Operation, topic_resource
from penstock.core.errors import BrokerError, TopicForbidden, UnknownTopic
from penstock.core.limits import OFFSETS_PER_BATCH_MAX
from penstock.core.machines.offsets.offsets import NO_OFFSET as NO_OFFSET
from penstock.core.machines.offsets.offsets import Committed as Committed
from penstock.core.model import TopicPartition, TopicRef
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.coordinators.committed import NO_RETENTION as NO_RETENTION
from penstock.node.coordinators.committed import Committer as Committer
from penstock.node.coordinators.committed import NewOffset
from penstock.node.runtime.slices import Sliced, chunks
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.routes import Routes

LOOKUP_UNITS = 1


class OffsetEntry(NamedTuple):
    """An offset to commit."""

    topic: TopicRef
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class Outcomes(NamedTuple):
    """The outcome of a call with several entries."""

    errors: list[BrokerError | None]
    """One for each entry."""
    failure: BrokerError | None
    """The error if the call failed as a whole."""


T = TypeVar("T")
Settled = Callable[["list[BrokerError | None] | BrokerError"], None]
Batch = tuple[Sequence[T], Settled]
"""Entries that are written together, and the callback for their outcomes."""
AnsweredEach = Callable[[Outcomes], None]
AnsweredFound = Callable[["dict[TopicPartition, Committed | BrokerError | None] | BrokerError"], None]


class OutcomeCollector:
    """Collects the outcomes of a call that is written as several batches; the last one answers it."""

    __slots__ = ("_answered", "_errors", "_failure", "_has_succeeded", "_left")

    def __init__(self, count: int, answered: AnsweredEach) -> None:
        self._errors: list[BrokerError | None] = [None] * count
        self._answered = answered
        self._failure: BrokerError | None = None
        self._has_succeeded = False
        self._left = 0

    def refuse(self, at: int, error: BrokerError) -> None:
        """Reject an entry that is in no batch."""
        self._errors[at] = error

    def batches(self, indexes: Sequence[int], entries: Sequence[T]) -> list[Batch[T]]:
        """Split the entries with these indexes into batches, each with its callback."""
        parts = zip(
            chunks(indexes, OFFSETS_PER_BATCH_MAX), chunks(entries, OFFSETS_PER_BATCH_MAX), strict=True
        )
        batches: list[Batch[T]] = [(some, partial(self._settle, places)) for places, some in parts]
        self._left = len(batches)
        return batches

    def _settle(self, indexes: Sequence[int], outcome: list[BrokerError | None] | BrokerError) -> None:
        if isinstance(outcome, BrokerError):
            self._failure = self._failure or outcome
            outcome = [outcome] * len(indexes)
        else:
            self._has_succeeded = True
        for at, error in zip(indexes, outcome, strict=True):
            self._errors[at] = error
        self._left -= 1
        if not self._left:
            failure = None if self._has_succeeded else self._failure
            self._answered(Outcomes(self._errors, failure))


class CommittedVerbs:
    """Commits, fetches and deletes the offsets of groups."""

    def __init__(self, broker: Broker, authorization: Authorization, routes: Routes) -> None:
        self._catalog = broker.catalog
        self._authorization = authorization
        self._routes = routes

    # -- commit

    def commit(
        self,
        session: Session,
        group_id: str,
        by: Committer,
        entries: Sequence[OffsetEntry],
        retention_ms: int,
        answered: AnsweredEach,
    ) -> Sliced[None]:
        """Each entry has its own outcome."""
        try:
            self._authorization.authorize_group(session, Operation.READ, group_id)
            committed = self._routes.groups(group_id).committed
        except BrokerError as error:
            answered(Outcomes([error] * len(entries), error))
            return
        collector = OutcomeCollector(len(entries), answered)
        batches = yield from self.located(session, entries, collector)
        for offsets, settled in batches:
            committed.commit(group_id, by, offsets, retention_ms, settled)
            yield len(offsets)

    def located(
        self,
        session: Session,
        entries: Sequence[OffsetEntry],
        collector: OutcomeCollector,
        *,
        with_internal: bool = True,
    ) -> Sliced[list[Batch[NewOffset]]]:
        """The entries whose partitions exist, in batches; others are rejected."""
        indexes: list[int] = []
        offsets: list[NewOffset] = []
        for at, entry in enumerate(entries):
            try:
                place = self._locate(session, entry.topic, entry.partition, with_internal=with_internal)
                offsets.append(NewOffset(place, entry.offset, entry.leader_epoch, entry.metadata))
                indexes.append(at)
            except BrokerError as error:
                collector.refuse(at, error)
            yield LOOKUP_UNITS
        return collector.batches(indexes, offsets)

    def _locate(
        self, session: Session, topic: TopicRef, partition: int, *, with_internal: bool = True
    ) -> TopicPartition:
        if self._authorization.authorizer is not None:
            self._authorization.authorize_topic(session, Operation.READ, topic)
        found = self._catalog.topic(topic) if isinstance(topic, str) else self._catalog.topic_by_id(topic)
        if not 0 <= partition < found.partition_count:
            raise UnknownTopic(f"topic {found.name!r} has no partition {partition}")
        if found.internal and not with_internal:
            raise UnknownTopic(f"{found.name!r} is an internal topic and cannot be part of a transaction")
        return TopicPartition(found.name, partition)

    # -- fetch

    def fetch(
        self,
        session: Session,
        group_id: str,
        by: Committer,
        wanted: Sequence[TopicPartition] | None,
        answered: AnsweredFound,
        *,
        require_stable: bool,
    ) -> Sliced[None]:
        """Answered with {partition: Committed, None or an error}, or with one error; `wanted` None fetches all."""
        try:
            self._authorization.authorize_group(session, Operation.DESCRIBE, group_id)
            committed = self._routes.groups(group_id).committed
        except BrokerError as error:
            answered(error)
            return
        if self._authorization.authorizer is not None:
            answered, wanted = self._describable(session, wanted, answered)
        yield from committed.fetch(group_id, by, wanted, answered, require_stable=require_stable)

    def _describable(
        self, session: Session, wanted: Sequence[TopicPartition] | None, answered: AnsweredFound
    ) -> tuple[AnsweredFound, Sequence[TopicPartition] | None]:
        """Leave out topics that the caller may not describe; those that it named get the error."""

        def allows(place: TopicPartition) -> bool:
            return self._authorization.allows(session, Operation.DESCRIBE, topic_resource(place.topic))

        refused: dict[TopicPartition, Committed | BrokerError | None] = {
            place: TopicForbidden(f"{session.principal} is not authorized to DESCRIBE {place.topic!r}")
            for place in wanted or ()
            if not allows(place)
        }

        def answered_allowed(
            outcome: dict[TopicPartition, Committed | BrokerError | None] | BrokerError,
        ) -> None:
            if isinstance(outcome, BrokerError):
                answered(outcome)
            else:
                answered({place: one for place, one in outcome.items() if allows(place)} | refused)

        return answered_allowed, None if wanted is None else [
            place for place in wanted if place not in refused
        ]

    # -- delete

    def delete(
        self,
        session: Session,
        group_id: str,
        wanted: Sequence[tuple[TopicRef, int]],
        answered: AnsweredEach,
    ) -> Sliced[None]:
        """Delete offsets; each entry has its own outcome."""
        try:
            self._authorization.authorize_group(session, Operation.DELETE, group_id)
            committed = self._routes.groups(group_id).committed
        except BrokerError as error:
            answered(Outcomes([error] * len(wanted), error))
            return
        collector = OutcomeCollector(len(wanted), answered)
        indexes: list[int] = []
        places: list[TopicPartition] = []
        for at, (topic, partition) in enumerate(wanted):
            try:
                places.append(self._locate(session, topic, partition))
                indexes.append(at)
            except BrokerError as error:
                collector.refuse(at, error)
            yield LOOKUP_UNITS
        for some, settled in collector.batches(indexes, places):
            committed.remove(group_id, some, settled)
            yield len(some)
