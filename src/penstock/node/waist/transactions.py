"""Transaction and producer id verbs for producers and tools. The coordinator decides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation, topic_resource, transactional_id_resource
from penstock.core.errors import BrokerError, InvalidGroup, InvalidRequest, Loading, UnknownTopic
from penstock.core.log.marker_guards import MarkerGuard
from penstock.core.machines.consumer_group.topic_regex import matching_topics
from penstock.core.machines.transactions.transactions import Claim as Claim
from penstock.core.machines.transactions.values import Transaction as Transaction
from penstock.core.machines.transactions.values import TransactionState
from penstock.core.model import NO_EPOCH, NO_PRODUCER, TopicPartition
from penstock.core.records.control import Marker
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.coordinators import groups
from penstock.node.coordinators.committed import NewOffset
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.slices import Sliced, chunks
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.committed import (
    AnsweredEach,
    Batch,
    CommittedVerbs,
    Committer,
    OffsetEntry,
    OutcomeCollector,
    Outcomes,
)
from penstock.node.waist.produce import Hold
from penstock.node.waist.routes import Routes

GROUPS_TOPIC = groups.TOPIC
"""Markers for this topic settle the pending offsets of a transaction."""

STATES = frozenset(state.value for state in TransactionState)
"""The states of transactional ids, by Kafka's names."""

_NO_OFFSET = -1
_NO_SEQUENCE = -1


class ProducerState(NamedTuple):
    """The state of a producer in a partition; -1 for missing values."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


class NewMarker(NamedTuple):
    """A marker that ends a producer's open transaction in a partition."""

    producer_id: int
    producer_epoch: int
    marker: Marker
    is_bumped: bool
    """Its epoch is above that of the transaction that it ends."""


class TransactionFilter(NamedTuple):
    """A filter of transactional ids; all given conditions must hold."""

    states: Collection[str] = ()
    producer_ids: Collection[int] = ()
    duration_ms: int = -1
    pattern: str = ""


class OffsetCommit(NamedTuple):
    """Offsets of a group that are committed with a transaction."""

    transactional_id: str
    group_id: str
    producer: Claim
    by: Committer
    entries: Sequence[OffsetEntry]
    may_add: bool
    """Whether the group may be added to the transaction, as in protocol V2."""


class TransactionVerbs:
    """Serves producers, and tools that inspect transactions."""

    def __init__(
        self, broker: Broker, authorization: Authorization, routes: Routes, committed: CommittedVerbs
    ) -> None:
        self._broker = broker
        self._authorization = authorization
        self._authorize = authorization.authorize_transactional_id
        self._routes = routes
        self._committed = committed
        self._slices = broker.runtime.slices

    # -- producers

    def reserved_producer_id(self, session: Session) -> int | None:
        """An unused producer id; None when a new block must be reserved first."""
        self._authorization.authorize(session, Operation.IDEMPOTENT_WRITE, CLUSTER)
        return self._broker.reserved_producer_id()

    async def init_producer(
        self, session: Session, transactional_id: str | None, timeout_ms: int, expected: Claim
    ) -> tuple[int, int]:
        """Producer id and epoch. With a transactional id, earlier producers are fenced; `expected` is the current id
        and epoch of the producer, or (-1, -1)."""
        if transactional_id is None:
            self._authorization.authorize(session, Operation.IDEMPOTENT_WRITE, CLUSTER)
        else:
            self._authorize(session, Operation.WRITE, transactional_id)
        is_new = expected.producer_id == NO_PRODUCER
        if is_new != (expected.producer_epoch == NO_EPOCH):
            raise InvalidRequest("the producer id and its epoch must be sent together, or neither")
        if transactional_id is None:
            return await self._broker.new_producer_id(), 0
        coordinator = self._routes.transactions(transactional_id)
        return await coordinator.init(transactional_id, timeout_ms, None if is_new else expected)

    # -- partitions

    def authorize_broker(self, session: Session) -> None:
        """Raise unless the caller may act for other producers, as brokers do."""
        self._authorization.authorize(session, Operation.CLUSTER_ACTION, CLUSTER)

    async def add_partitions(
        self,
        session: Session,
        transactional_id: str,
        by: Claim,
        places: Sequence[TopicPartition],
        *,
        is_v2: bool,
        is_from_broker: bool = False,
        verify_only: bool = False,
    ) -> Mapping[TopicPartition, BrokerError]:
        """Add partitions to a transaction, or only verify that they are in it; all or nothing.

        Returns the rejected partitions, in which case none is added; raises errors that concern all of them.
        """
        if is_from_broker:
            self.authorize_broker(session)
        else:
            self._authorize(session, Operation.WRITE, transactional_id)
        refused = await self._slices.run(self._refused(session, places, is_authorized=is_from_broker))
        if refused:
            return refused
        coordinator = self._routes.transactions(transactional_id)
        if verify_only:
            coordinator.check(transactional_id, by, places)
        else:
            await coordinator.add(transactional_id, by, places, is_v2=is_v2)
        return {}

    def _refused(
        self, session: Session, places: Sequence[TopicPartition], *, is_authorized: bool
    ) -> Sliced[dict[TopicPartition, BrokerError]]:
        refused: dict[TopicPartition, BrokerError] = {}
        for some in chunks(places):
            for place in some:
                try:
                    if not is_authorized:
                        self._authorization.authorize_topic(session, Operation.WRITE, place.topic)
                    self._check_place(session, place)
                except BrokerError as error:
                    refused[place] = error
            yield 1 + len(some) // 2
        return refused

    def _check_place(self, session: Session, place: TopicPartition) -> None:
        """Clients add groups by name; the broker of a group adds its partition."""
        if place.topic == GROUPS_TOPIC and session.is_broker:
            return
        if self._broker.catalog.topic_with(*place).internal:
            raise UnknownTopic(f"{place.topic!r} is an internal topic and cannot be part of a transaction")

    async def end(
        self, session: Session, transactional_id: str, by: Claim, *, commit: bool, is_v2: bool
    ) -> tuple[int, int]:
        """Commit or abort. Returns the producer id and epoch for the next transaction."""
        self._authorize(session, Operation.WRITE, transactional_id)
        coordinator = self._routes.transactions(transactional_id)
        return await coordinator.end(transactional_id, by, commit=commit, is_v2=is_v2)

    # -- offsets

    async def add_group(self, session: Session, transactional_id: str, by: Claim, group_id: str) -> None:
        """Add a group's offsets to a transaction, as the partition that stores the group."""
        self._authorize(session, Operation.WRITE, transactional_id)
        self._authorization.authorize_group(session, Operation.READ, group_id)
        if not group_id:
            raise InvalidGroup("a group id cannot be empty")
        groups = self._routes.groups(group_id).groups
        await groups.open()
        place = TopicPartition(GROUPS_TOPIC, groups.host.index_of(group_id))
        await self._routes.transactions(transactional_id).add(transactional_id, by, [place], is_v2=False)

    def commit_offsets(
        self,
        session: Session,
        commit: OffsetCommit,
        hold: Hold,
        answered: AnsweredEach,
        crashed: Callable[[Exception], None],
    ) -> Sliced[None]:
        """Persist offsets that are committed with the transaction, once its coordinator vouches for the producer.

        The connection is held until then, so that a later commit of the same group cannot overtake. `crashed` is
        called instead of `answered` in case of a defect.
        """
        group_id, transactional_id = commit.group_id, commit.transactional_id
        try:
            self._authorize(session, Operation.WRITE, transactional_id)
            self._authorization.authorize_group(session, Operation.READ, group_id)
        except BrokerError as error:
            answered(Outcomes([error] * len(commit.entries), error))
            return
        collector = OutcomeCollector(len(commit.entries), answered)
        batches = yield from self._committed.located(session, commit.entries, collector, with_internal=False)

        release_hold = hold()
        guard = MarkerGuard(NO_EPOCH)

        def vouched(error: BrokerError | None) -> None:
            self._slices.go(self._pend(commit, batches, guard, error), pended)

        def pended(outcome: Exception | None) -> None:
            if shard is not None:
                shard.partition.guards.end(commit.producer.producer_id, guard)
            if outcome is not None:
                crashed(outcome)
            release_hold()

        shard = None
        try:
            if not group_id:
                raise InvalidGroup("a group id cannot be empty")
            shard = self._routes.groups(group_id).groups.shard_of(group_id)
            place = TopicPartition(GROUPS_TOPIC, shard.partition.index)
        except BrokerError as error:
            vouched(error)
            return
        guard = shard.partition.guards.begin(*commit.producer)
        self._routes.admission(transactional_id).admit(
            transactional_id, commit.producer, [place], vouched, may_add=commit.may_add
        )

    def _pend(
        self,
        commit: OffsetCommit,
        batches: Sequence[Batch[NewOffset]],
        guard: MarkerGuard,
        error: BrokerError | None,
    ) -> Sliced[None]:
        """Persist the batches, or fail all of them with the error."""
        for offsets, settled in batches:
            if guard.is_void:
                # The marker that has settled the offsets of this transaction does not come again.
                error = error or Loading(
                    f"the transaction of {commit.transactional_id!r} was ended meanwhile"
                )
            if error is not None:
                settled(error)
            else:
                committed = self._routes.groups(commit.group_id).committed
                committed.pend(commit.group_id, commit.by, commit.producer, offsets, settled)
            yield len(offsets)

    # -- tools

    async def write_marker(self, session: Session, place: TopicPartition, new: NewMarker) -> None:
        """End a producer's open transaction in a partition, or settle its offsets if it is a partition of the groups'
        topic."""
        if not self._authorization.allows(session, Operation.ALTER, CLUSTER):
            self.authorize_broker(session)
        await self._broker.markers.end(
            place, new.producer_id, new.producer_epoch, new.marker, is_bumped=new.is_bumped
        )

    def producers(self, session: Session, topic: str, index: int) -> list[ProducerState]:
        """The active producers of a partition, with their open transactions."""
        self._authorization.authorize(session, Operation.READ, topic_resource(topic))
        partition = self._routes.partition(topic, index)
        partition.check_online()
        return _producers(partition)

    def describe(self, session: Session, transactional_id: str) -> Transaction:
        """The state of a transactional id."""
        self._authorize(session, Operation.DESCRIBE, transactional_id)
        if not transactional_id:
            raise InvalidRequest("a transactional id cannot be empty")
        return self._routes.transactions(transactional_id).get(transactional_id)

    def all(self, session: Session, wanted: TransactionFilter) -> Sequence[Transaction]:
        """The transactional ids that match a filter and that the caller may describe, sorted."""
        found = self._broker.transactions.all()
        if self._authorization.authorizer is not None:
            found = [one for one in found if self._may_know(session, one.transactional_id)]
        if wanted.states:
            found = [one for one in found if one.state.value in wanted.states]
        if wanted.producer_ids:
            found = [one for one in found if one.producer_id in wanted.producer_ids]
        if wanted.duration_ms >= 0:
            since_ms = self._broker.runtime.clock.now_ms() - wanted.duration_ms
            found = [one for one in found if one.started_ms < since_ms]
        if wanted.pattern:
            names = set(matching_topics(wanted.pattern, [one.transactional_id for one in found]))
            found = [one for one in found if one.transactional_id in names]
        return found

    def _may_know(self, session: Session, transactional_id: str) -> bool:
        resource = transactional_id_resource(transactional_id)
        return self._authorization.allows(session, Operation.DESCRIBE, resource)


def _producers(partition: Partition) -> list[ProducerState]:
    found = []
    for producer_id, one in partition.log.producers.items():
        first_offset = partition.log.transactions.first_offset(producer_id)
        found.append(
            ProducerState(
                producer_id,
                one.epoch,
                one.batches[-1].last_sequence if one.batches else _NO_SEQUENCE,
                one.seen_ms,
                one.coordinator_epoch,
                _NO_OFFSET if first_offset is None else first_offset,
            )
        )
    return found
