"""Topic verbs: create, delete, add partitions, alter, delete records, list, describe. The catalog decides.

Every topic of a request has its own outcome; the successful ones are committed together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.access import Operation, topic_resource
from penstock.core.config_entry import ConfigEntry
from penstock.core.errors import (
    AgainstPolicy,
    BrokerError,
    InvalidTopic,
    LeaderNotAvailable,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.core.limits import PARTITIONS_PER_CALL_MAX
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.config_changes import ConfigChange as ConfigChange
from penstock.core.machines.catalog.config_changes import ConfigOp as ConfigOp
from penstock.core.machines.catalog.events import Event, TopicSaved
from penstock.core.machines.catalog.events import Topic as Topic
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.model import PartitionId, TopicPartition, TopicRef
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.slices import Pace
from penstock.node.topic_creation import NewTopic as NewTopic
from penstock.node.topic_creation import ReplicaAssignment as ReplicaAssignment
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.changes import Changes, Deadline, Step, check_named_once, repeated
from penstock.node.waist.routes import Routes

if TYPE_CHECKING:
    from penstock.node.remote.remote_offsets import RemoteDetail
    from penstock.node.waist.elsewhere import Elsewhere

NO_ID = bytes(16)
"""Placeholder for a topic id that is unknown or hidden from the caller."""


class CreatedTopic(NamedTuple):
    """A topic that was created, or would be (validate only)."""

    topic: Topic
    replication_factor: int
    entries: list[ConfigEntry] | None
    """Its settings; topics with equal settings share one list. None if the caller may not see them."""


class DeletedTopic(NamedTuple):
    """The outcome of a deletion. Name and id as far as the caller may know them."""

    name: str | None
    id: bytes
    error: BrokerError | None


class Growth(NamedTuple):
    """The wanted number of partitions of a topic, and the replicas of the new ones; None lets the broker choose."""

    name: str
    partition_count: int
    assignments: Sequence[Sequence[int]] | None = None


class PartitionState(NamedTuple):
    """Leader and replicas of a partition. An offline partition has no leader (-1)."""

    partition: int
    leader_id: int
    leader_epoch: int
    replica_ids: list[int]
    isr_ids: list[int]
    offline_ids: list[int]


class PartitionDetail(NamedTuple):
    """Offsets and size of one partition; all -1 if its leader, another broker, did not tell."""

    partition: int
    start_offset: int
    high_watermark: int
    last_stable_offset: int
    size_bytes: int
    is_online: bool
    error: BrokerError | None = None
    """Why nothing is known about it."""


Details = Mapping[TopicPartition, "RemoteDetail | BrokerError"]
"""What other brokers told about partitions that they lead."""


class _Quota:
    """The number of partitions that one request may create."""

    def __init__(self) -> None:
        self._left = PARTITIONS_PER_CALL_MAX

    def take(self, catalog: Catalog, events: Sequence[Event]) -> None:
        """Count the partitions that the events add; raises AgainstPolicy over the limit, as Kafka does."""
        for event in events:
            if isinstance(event, TopicSaved):
                earlier = catalog.find(event.topic.name)
                added = event.topic.partition_count - (earlier.partition_count if earlier else 0)
                if added > self._left:
                    raise AgainstPolicy(
                        f"one request can create at most {PARTITIONS_PER_CALL_MAX} partitions; send several requests"
                    )
                self._left -= added


class TopicVerbs:
    """Serves topics to clients."""

    def __init__(
        self, broker: Broker, authorization: Authorization, routes: Routes, elsewhere: Elsewhere | None
    ) -> None:
        self._broker = broker
        self._catalog = broker.catalog
        self._authorization = authorization
        self._routes = routes
        self._elsewhere = elsewhere
        self._changes = Changes(broker)

    # -- create

    async def create_all(
        self,
        session: Session,
        wanted: Sequence[NewTopic | BrokerError],
        *,
        timeout_ms: int | None = None,
        validate_only: bool = False,
    ) -> list[CreatedTopic | BrokerError]:
        """Create topics, or only validate the request. An error in place of a topic is its outcome."""
        quota = _Quota()
        steps = [self._creation(session, quota, one) for one in wanted]
        changed = await self._changes.commit(steps, timeout_ms=timeout_ms, validate_only=validate_only)
        outcomes: list[CreatedTopic | BrokerError] = []
        described: dict[Hashable, list[ConfigEntry]] = {}
        pace = Pace()
        for one, error in zip(wanted, changed.errors, strict=True):
            if error is not None:
                outcomes.append(error)
            else:
                assert isinstance(one, NewTopic)
                outcomes.append(self._created(session, changed.after, one.name, described))
            await pace.spend(1)
        return outcomes

    async def create(self, session: Session, new: NewTopic) -> Topic:
        """Create one topic; returns once it is durable."""
        (outcome,) = await self.create_all(session, [new])
        if isinstance(outcome, BrokerError):
            raise outcome
        return outcome.topic

    async def ensure(self, session: Session, new: NewTopic) -> bool:
        """Create a topic unless it exists; returns whether it was created. Raises TopicExists if it exists with
        another number of partitions than requested."""
        self._authorization.authorize_creation(session, new.name)
        is_new, topic_id = True, self._broker.new_topic_id()

        def decide(catalog: Catalog) -> Sequence[Event]:
            nonlocal is_new
            known = catalog.find(new.name)
            is_new = known is None or known.internal
            if known is None or known.internal:
                return self._broker.creation.decide(catalog, new, topic_id)
            if new.partition_count not in (None, known.partition_count):
                raise TopicExists(
                    f"topic {new.name!r} exists with {known.partition_count} partitions,"
                    f" not {new.partition_count}"
                )
            return ()

        await self._broker.change(decide)
        return is_new

    @property
    def are_created_on_demand(self) -> bool:
        """Whether missing topics are created when a client names them."""
        return self._broker.settings.auto_create_topics

    async def create_on_demand(self, session: Session, name: str) -> None:
        """Create a missing topic that a client named."""
        self._authorization.authorize_creation(session, name)
        await self._broker.auto_create_topic(name)

    def _creation(self, session: Session, quota: _Quota, new: NewTopic | BrokerError) -> Step | BrokerError:
        if isinstance(new, BrokerError):
            return new
        try:
            self._authorization.authorize_creation(session, new.name)
        except BrokerError as error:
            return error
        topic_id = self._broker.new_topic_id()

        def decide(catalog: Catalog) -> Sequence[Event]:
            events = self._broker.creation.decide(catalog, new, topic_id)
            quota.take(catalog, events)
            return events

        return decide

    def _created(
        self, session: Session, after: Catalog, name: str, described: dict[Hashable, list[ConfigEntry]]
    ) -> CreatedTopic:
        topic = after.topic(name)
        entries = None
        if self._authorization.allows(session, Operation.DESCRIBE_CONFIGS, topic_resource(name)):
            key = tuple(sorted(topic.overrides.items()))
            if key not in described:
                described[key] = after.describe(name)
            entries = described[key]
        placed = after.cluster.find_partition(PartitionId(topic.id, 0))
        return CreatedTopic(topic, 1 if placed is None else len(placed.target), entries)

    # -- delete

    async def delete_all(
        self, session: Session, wanted: Sequence[TopicRef | BrokerError], *, timeout_ms: int | None = None
    ) -> list[DeletedTopic]:
        """Delete topics with all their records."""
        found: list[DeletedTopic] = []
        pace = Pace()
        for one in wanted:
            found.append(self._deletion(session, one))
            await pace.spend(1)
        twice = repeated(one.name for one in found if one.name is not None)
        steps: list[Step | BrokerError] = []
        for ref, topic in zip(wanted, found, strict=True):
            if isinstance(ref, BrokerError):
                steps.append(ref)
            elif topic.error is not None:
                steps.append(topic.error)
            else:
                steps.append(partial(_delete, twice, ref, topic.name))
        changed = await self._changes.commit(steps, timeout_ms=timeout_ms)
        return [topic._replace(error=error) for topic, error in zip(found, changed.errors, strict=True)]

    async def delete(self, session: Session, name: str) -> None:
        """Delete one topic with all its records."""
        self._authorization.authorize_topic(session, Operation.DELETE, name)
        await self._broker.change(lambda catalog: catalog.decide_delete_topic(name))

    def _deletion(self, session: Session, ref: TopicRef | BrokerError) -> DeletedTopic:
        """A topic to delete, with the name or id that the client did not send."""
        if isinstance(ref, BrokerError):
            return DeletedTopic(None, NO_ID, ref)
        deletion = DeletedTopic(ref, NO_ID, None) if isinstance(ref, str) else DeletedTopic(None, ref, None)
        try:
            topic = self._catalog.topic(ref) if isinstance(ref, str) else self._catalog.topic_by_id(ref)
        except BrokerError:
            topic = None  # the deletion step rejects it, on the state at that time
        name = ref if isinstance(ref, str) else topic.name if topic is not None else None
        if name is not None:
            try:
                self._authorization.authorize(session, Operation.DELETE, topic_resource(name))
            except BrokerError as error:
                if not self._authorization.allows(session, Operation.DESCRIBE, topic_resource(name)):
                    topic = None
                deletion = deletion._replace(error=error)
        return deletion if topic is None else deletion._replace(name=topic.name, id=topic.id)

    # -- grow and alter

    async def grow_all(
        self,
        session: Session,
        wanted: Sequence[Growth | BrokerError],
        *,
        timeout_ms: int | None = None,
        validate_only: bool = False,
    ) -> list[BrokerError | None]:
        """Add partitions to topics."""
        quota = _Quota()
        steps = [self._growth(session, quota, one) for one in wanted]
        changed = await self._changes.commit(steps, timeout_ms=timeout_ms, validate_only=validate_only)
        return changed.errors

    def _growth(self, session: Session, quota: _Quota, one: Growth | BrokerError) -> Step | BrokerError:
        if isinstance(one, BrokerError):
            return one
        try:
            self._authorization.authorize_topic(session, Operation.ALTER, one.name)
        except BrokerError as error:
            return error
        return partial(self._grow, quota, one)

    def _grow(self, quota: _Quota, wanted: Growth, catalog: Catalog) -> Sequence[Event]:
        events = self._broker.creation.decide_growth(
            catalog, wanted.name, wanted.partition_count, wanted.assignments
        )
        quota.take(catalog, events)
        return events

    async def alter(
        self, session: Session, name: str, partition_count: int | None, changes: Sequence[ConfigChange]
    ) -> None:
        """Add partitions to a topic and change its settings, atomically."""
        if partition_count is not None:
            self._authorization.authorize_topic(session, Operation.ALTER, name)
        if changes or partition_count is None:
            self._authorization.authorize_topic(session, Operation.ALTER_CONFIGS, name)

        def decide(catalog: Catalog) -> Sequence[Event]:
            draft = catalog.draft()
            events: list[Event] = []
            if partition_count is not None and partition_count != catalog.topic(name).partition_count:
                events += draft.decide_add_partitions(name, partition_count)
            for event in events:
                draft.apply(event)
            return [*events, *draft.decide_alter_configs(name, changes)]

        await self._broker.change(decide)

    # -- delete records

    async def delete_records(
        self, session: Session, topic: str, index: int, before_offset: int, deadline: Deadline
    ) -> int:
        """Delete the records before an offset (-1: all that are readable); returns the new start offset."""
        deadline.check()
        self._authorization.authorize_topic(session, Operation.DELETE, topic)
        partition = self._routes.partition(topic, index)
        if partition.is_internal:
            raise InvalidTopic(f"{topic!r} is an internal topic; clients cannot delete its records")
        outcome = await self._changes.within(deadline, partition.delete_records(before_offset))
        if isinstance(outcome, BrokerError):
            raise outcome
        return outcome

    # -- list and describe

    def all(self, session: Session) -> list[Topic]:
        """The topics that the caller may describe, sorted by name."""
        return self._authorization.allowed_topics(session, Operation.DESCRIBE, self._catalog.topics)

    def is_missing(self, session: Session, name: str) -> bool:
        """Whether the topic does not exist and the caller may know that."""
        return self._catalog.find(name) is None and self._authorization.allows(
            session, Operation.DESCRIBE, topic_resource(name)
        )

    def get(self, session: Session, topic: TopicRef) -> Topic:
        """One topic. Raises UnknownTopic, UnknownTopicId or TopicForbidden."""
        self._authorization.authorize_topic(session, Operation.DESCRIBE, topic)
        if isinstance(topic, str):
            return self._catalog.topic(topic)
        return self._catalog.topic_by_id(topic)

    def check_partition(self, session: Session, topic: TopicRef, index: int) -> None:
        """Raise UnknownTopic unless the partition exists."""
        found = self.get(session, topic)
        if not 0 <= index < found.partition_count:
            raise UnknownTopic(f"topic {found.name!r} has no partition {index}")

    def name_of(self, session: Session, topic_id: bytes) -> str | None:
        """The name of a topic; None if the id is unknown. No permission required, as in Kafka."""
        try:
            return self._catalog.topic_by_id(topic_id).name
        except UnknownTopicId:
            return None

    def id_of(self, session: Session, name: str) -> bytes | None:
        """The id of a topic; None if it does not exist or the caller may not describe it."""
        topic = self._catalog.find(name)
        if topic is None or not self._authorization.allows(session, Operation.DESCRIBE, topic_resource(name)):
            return None
        return topic.id

    def states(
        self, session: Session, topic: str, start: int = 0, count: int | None = None
    ) -> Iterator[PartitionState]:
        """Leaders and replicas of a topic's partitions from index `start` on. Incomplete while the topic is being
        opened."""
        self._authorization.authorize_topic(session, Operation.DESCRIBE, topic)
        stop = None if count is None else start + count
        if self._catalog.cluster.has_brokers:
            return self._placed_states(topic, start, stop)
        here, nowhere = [self._broker.identity.node_id], list[int]()
        return (
            PartitionState(one.index, here[0], one.leader_epoch, here, here, nowhere)
            if one.failure is None
            else PartitionState(one.index, -1, one.leader_epoch, here, nowhere, here)
            for one in self._routes.partitions_of(topic)[start:stop]
        )

    def _placed_states(self, topic: str, start: int, stop: int | None) -> Iterator[PartitionState]:
        """The same in a cluster. A broker that is fenced, or whose disk failed as far as this one knows, is offline."""
        cluster = self._catalog.cluster
        failed = {one.index for one in self._routes.partitions_of(topic) if one.failure is not None}
        own_id = self._broker.identity.node_id
        for one in cluster.partitions_of(self._catalog.topic(topic).id)[start:stop]:
            offline = [
                broker_id
                for broker_id in one.replicas
                if cluster.is_fenced(broker_id) or (broker_id == own_id and one.partition in failed)
            ]
            leader_id = NO_LEADER if one.leader in offline else one.leader
            isr = [broker_id for broker_id in one.isr if broker_id not in offline]
            yield PartitionState(one.partition, leader_id, one.leader_epoch, list(one.replicas), isr, offline)

    @property
    def are_here(self) -> bool:
        """Whether this broker leads all partitions: it is alone, and `details` needs nobody else."""
        return self._elsewhere is None

    async def details_elsewhere(self, session: Session, topics: Iterable[str]) -> Details:
        """Ask the leaders of those partitions that are led elsewhere; an error in place of an answer."""
        if self._elsewhere is None:
            return {}
        places: list[TopicPartition] = []
        for name in topics:
            self._authorization.authorize_topic(session, Operation.DESCRIBE, name)
            topic = self._catalog.find(name)
            count = 0 if topic is None else topic.partition_count
            places += self._elsewhere.among(TopicPartition(name, index) for index in range(count))
        return await self._elsewhere.offsets.details(places)

    def details(
        self, session: Session, topic: str, elsewhere: Details = MappingProxyType({})
    ) -> Iterator[PartitionDetail]:
        """Offsets and sizes of a topic's partitions. In a cluster `elsewhere` comes from `details_elsewhere`."""
        self._authorization.authorize_topic(session, Operation.DESCRIBE, topic)
        here = (_detail(one) for one in self._routes.partitions_of(topic))
        return here if self._elsewhere is None else self._all_details(topic, elsewhere)

    def _all_details(self, topic: str, elsewhere: Details) -> Iterator[PartitionDetail]:
        found = self._catalog.find(topic)
        for index in range(0 if found is None else found.partition_count):
            try:
                partition = self._routes.find_led(topic, index)
            except UnknownTopic:
                return  # deleted meanwhile
            if partition is not None:
                yield _detail(partition)
                continue
            told = elsewhere.get(TopicPartition(topic, index), _UNTOLD)
            if isinstance(told, BrokerError):
                yield PartitionDetail(index, -1, -1, -1, -1, is_online=False, error=told)
            else:
                yield PartitionDetail(index, *told, is_online=True)

    def configs(self, session: Session, topic: str) -> list[ConfigEntry]:
        """Every setting of a topic with its value and source."""
        self._authorization.authorize_topic(session, Operation.DESCRIBE_CONFIGS, topic)
        return self._catalog.describe(topic)


_UNTOLD = LeaderNotAvailable("the partition was moved while its leader was asked; ask again")


def _detail(partition: Partition) -> PartitionDetail:
    return PartitionDetail(
        partition.index,
        partition.start_offset,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.size(),
        partition.failure is None,
    )


def _delete(twice: set[Hashable], ref: TopicRef, name: str | None, catalog: Catalog) -> Sequence[Event]:
    check_named_once(name, twice)
    return catalog.decide_delete_topic(ref if isinstance(ref, str) else catalog.topic_by_id(ref).name)
