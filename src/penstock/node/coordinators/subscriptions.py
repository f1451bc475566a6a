"""The subscription coordinator of a node: creates, finds, activates and deletes subscriptions. Speaks no protocol.

Subscriptions live on the partitions of the internal topic `__subscriptions`, by a hash of their names; the topic is
created with the first one. When this node begins to lead such a partition it replays it, and every subscription is
active again before members can join it. The partitions of the subscribed topics may be led by other brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.errors import (
    BrokerError,
    CoordinatorUnavailable,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    NotCoordinator,
    NotLeader,
    OffsetOutOfRange,
    UnknownGroup,
    UnknownTopic,
)
from penstock.core.limits import SUBSCRIPTION_NAME_CHARS_MAX
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Topic
from penstock.core.machines.subscriptions.definitions import SubscriptionDefinition, dead_letter_topic
from penstock.core.model import TopicPartition, check_topic_name
from penstock.node.coordinators.dead_letters import DeadLetters, redrive
from penstock.node.coordinators.live_subscription import LiveSubscription
from penstock.node.coordinators.own_log import LocalLog, OwnLog
from penstock.node.coordinators.shard import Stage
from penstock.node.coordinators.shard_host import ShardHost
from penstock.node.coordinators.subscription_feed import FeedSource, local_source
from penstock.node.coordinators.subscription_settings import SubscriptionSettings
from penstock.node.coordinators.subscription_shard import SubscriptionShard
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks

if TYPE_CHECKING:
    from penstock.node.coordinators.remote_sources import RemoteSources

logger = logging.getLogger("penstock.subscriptions")

TOPIC = "__subscriptions"
TOPIC_PARTITIONS = 4
TOPIC_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "compression.type": "producer",
    "penstock.durability": "fsync",
}

STOPPING = "the broker is stopping"
EARLIEST, LATEST = -2, -1
"""Special start offsets: the first available message, or only new messages."""
REMOTE_LETTERS_CONFIG: Mapping[str, str] = {"penstock.durability": "fsync"}
"""Another broker cannot be asked to sync, so the topic must promise it: a letter is durable before its message is
settled."""
REDRIVE_S_MAX = 20.0
"""How long a redrive tries to write to a partition whose leader does not answer."""

OpenTopic = Callable[[str, int, Mapping[str, str], bool], Awaitable[None]]
"""Creates a topic if it is missing; the flag makes it internal."""


class SubscriptionRequest(NamedTuple):
    """A subscription to create; None means the default of the settings."""

    name: str
    topic: str
    start_offset: int = 0
    hold_ms: int | None = None
    deliveries_max: int | None = None


class PartitionProgress(NamedTuple):
    """Progress of a subscription in one partition."""

    partition: int
    settled_offset: int
    """Everything before it is settled."""
    end_offset: int
    unsettled_count: int
    held_count: int
    dying_count: int


class Subscriptions:
    """Every subscription of this node. Call `open` before use."""

    def __init__(
        self,
        settings: SubscriptionSettings,
        runtime: Runtime,
        open_topic: OpenTopic,
        catalog: Catalog,
        find_partition: Callable[[str, int], Partition],
        remote: RemoteSources | None = None,
    ) -> None:
        """`remote`: partitions of other brokers, in a cluster."""
        self._settings = settings
        self._runtime = runtime
        self._open_topic = open_topic
        self._catalog = catalog
        self._find_partition = find_partition
        self._remote = remote
        self.host: ShardHost[SubscriptionShard] = ShardHost(
            lambda: open_topic(TOPIC, TOPIC_PARTITIONS, TOPIC_CONFIG, True),
            lambda partition: SubscriptionShard(partition, runtime, self._revive, self._close_all),
        )
        self._live: dict[str, LiveSubscription] = {}
        self._redriving: dict[str, asyncio.Lock] = {}
        self._tasks = Tasks()

    # -- lifecycle

    async def open(self) -> None:
        """Create the topic if it is missing, replay it and activate its subscriptions. Does nothing if it is open."""
        await self.host.open()

    async def loaded(self) -> None:
        """Wait until every running replay has ended."""
        await self.host.loaded()

    def _revive(self, shard: SubscriptionShard, definition: SubscriptionDefinition) -> None:
        """Activate a replayed subscription, or remove it if its topic no longer exists."""
        topic = self._catalog.find(definition.topic)
        if topic is None or topic.id != definition.topic_id:
            _persist_or_leave(shard, shard.book.decide_remove(definition.name))
            return
        _persist_or_leave(shard, shard.book.decide_extend(definition.name, topic.partition_count))
        self._start(shard, definition, is_recovering=True)

    def _start(
        self, shard: SubscriptionShard, definition: SubscriptionDefinition, *, is_recovering: bool
    ) -> None:
        letters = DeadLetters(self._tasks, self._open_dead_letters)
        find_source = partial(self._source, self._catalog.topic(definition.topic))
        live = LiveSubscription(
            definition, shard, find_source, lambda feed, found: letters.take(live, feed, found)
        )
        self._live[definition.name] = live
        letters.is_recovering = is_recovering
        live.recover()
        letters.is_recovering = False

    def _source(self, topic: Topic, index: int) -> FeedSource:
        """The records of a partition, from wherever it is led now."""
        try:
            return local_source(self._find_partition(topic.name, index))
        except (NotLeader, LeaderNotAvailable):
            if self._remote is None:
                raise
            return self._remote.source(topic, index)

    def _log(self, topic: Topic, index: int) -> OwnLog:
        """A partition to write to, wherever it is led."""
        if self._remote is None:
            return LocalLog(self._runtime, self._find_partition(topic.name, index))
        return self._remote.log(topic, index)

    async def _open_dead_letters(self, name: str, overrides: Mapping[str, str]) -> OwnLog:
        if self._remote is not None:
            overrides = {**overrides, **REMOTE_LETTERS_CONFIG}
        await self._open_topic(name, 1, overrides, False)
        return self._log(self._catalog.topic(name), 0)

    async def stop(self) -> None:
        self.release_members()
        self.host.resign_all(STOPPING)
        await self._tasks.stop()

    def release_members(self) -> None:
        """End all members: the broker is stopping."""
        for live in self._live.values():
            if not live.is_closed:
                live.retire(NotCoordinator(STOPPING))

    def _close_all(self, shard: SubscriptionShard, error: NotCoordinator) -> None:
        """Close the subscriptions of a shard that has resigned."""
        for name in [name for name, live in self._live.items() if live.shard is shard]:
            self._close(name, error)

    def _shard_of(self, name: str) -> SubscriptionShard:
        if not self.host.is_open:
            raise UnknownGroup(f"there is no subscription {name!r}; create it first")
        return self.host.of(name)

    # -- create and delete

    async def create(self, request: SubscriptionRequest) -> bool:
        """Create a durable subscription; False if an identical one exists, which is left unchanged."""
        check_subscription_name(request.name)
        topic = self._subscribable(request.topic)
        definition = self._defined(request, topic)
        await self.open()
        shard = self._shard_of(request.name)
        topic = self._subscribable(request.topic)
        known = shard.book.find(request.name)
        starts: list[int] = []
        if not known:
            starts = await self._starts(topic, request.start_offset)
            shard = self._shard_of(request.name)
            if self._subscribable(request.topic) != topic:
                raise CoordinatorUnavailable(f"topic {topic.name!r} has just changed; try again")
        events = shard.book.decide_create(definition, starts)
        if events:
            shard.persist(events)
            self._start(shard, definition, is_recovering=False)
        await shard.persisted(shard.end_offset)
        return bool(events)

    async def _starts(self, topic: Topic, offset: int) -> list[int]:
        """The start offsets of a new subscription by partition. Other brokers are asked for those of theirs."""
        here: dict[int, int] = {}
        elsewhere: list[TopicPartition] = []
        for index in range(topic.partition_count):
            try:
                partition = self._find_partition(topic.name, index)
            except NotLeader:
                elsewhere.append(TopicPartition(topic.name, index))
            else:
                partition.check_online()
                bounds = partition.start_offset, partition.high_watermark
                here[index] = _start(partition, offset, *bounds)
        if elsewhere and self._remote is not None:
            for place, found in (await self._remote.bounds(elsewhere)).items():
                if isinstance(found, BrokerError):
                    raise found
                here[place.partition] = _start(f"{topic.name}-{place.partition}", offset, *found)
        return [here[index] for index in range(topic.partition_count)]

    def _subscribable(self, name: str) -> Topic:
        topic = self._catalog.topic(name)
        if topic.internal:
            raise InvalidTopic(f"{name!r} is an internal topic; it cannot be subscribed to")
        check_topic_name(dead_letter_topic(name))
        return topic

    def _defined(self, request: SubscriptionRequest, topic: Topic) -> SubscriptionDefinition:
        settings = self._settings
        hold_ms = settings.subscription_hold_ms if request.hold_ms is None else request.hold_ms
        deliveries_max = (
            settings.subscription_deliveries_max if request.deliveries_max is None else request.deliveries_max
        )
        for number, what in ((hold_ms, "time to hold a message"), (deliveries_max, "number of deliveries")):
            if not 0 < number < 2**31:
                raise InvalidRequest(f"the {what} must be from 1 to {2**31 - 1}, not {number}")
        now_ms = self._runtime.clock.now_ms()
        return SubscriptionDefinition(request.name, topic.name, topic.id, hold_ms, deliveries_max, now_ms)

    async def remove(self, name: str) -> None:
        """Delete a subscription and end its members; its dead letters remain."""
        shard = self._shard_of(name)
        end_offset = shard.persist(shard.book.decide_remove(name))
        self._close(name, UnknownGroup(f"the subscription {name!r} was deleted"))
        await shard.persisted(end_offset)

    def _close(self, name: str, error: BrokerError) -> None:
        live = self._live.pop(name, None)
        if live is not None and not live.is_closed:
            live.close(error)

    def forget_topics(self, names: Container[str]) -> None:
        """Delete the subscriptions of deleted topics."""
        if self._remote is not None:
            self._remote.forget_topics(names)
        for shard in self.host.shards:
            if shard.stage < Stage.RESUMING:
                continue  # it checks the topics itself after the replay
            for definition in shard.book.definitions:
                if definition.topic in names:
                    self._close(definition.name, UnknownTopic(f"topic {definition.topic!r} was deleted"))
                    _persist_or_leave(shard, shard.book.decide_remove(definition.name))

    def follow_topic(self, topic: Topic) -> None:
        """Extend subscriptions to new partitions of a topic."""
        for live in self._live.values():
            if live.definition.topic_id == topic.id and len(live.feeds) < topic.partition_count:
                _persist_or_leave(live.shard, live.shard.book.decide_extend(live.name, topic.partition_count))
                live.extend()

    def follow_role(self, partition: Partition) -> None:
        """This node began or ceased to lead a partition: the subscriptions that read it use another source now."""
        topic = self._catalog.find(partition.topic)
        if topic is None or topic.id != partition.topic_id:
            return  # `forget_topics` follows
        for live in self._live.values():
            if live.definition.topic_id == topic.id and not live.is_closed:
                live.follow_leader(partition.index)

    # -- lookup and redrive

    def find(self, name: str) -> LiveSubscription:
        """The active subscription of that name; raises UnknownGroup."""
        self._shard_of(name).book.get(name)
        live = self._live.get(name)
        if live is None:
            raise UnknownGroup(
                f"the topic of subscription {name!r} was deleted; the subscription is being removed"
            )
        return live

    def list(self) -> list[SubscriptionDefinition]:
        """Every subscription that this node coordinates, sorted by name."""
        for shard in self.host.led:
            shard.check_ready()
        found = [definition for shard in self.host.led for definition in shard.book.definitions]
        return sorted(found, key=lambda one: one.name)

    async def refresh(self, name: str) -> Sequence[int]:
        """Ask other brokers for the ends of their partitions; returns the partitions whose end is not known."""
        live = self.find(name)
        return [] if self._remote is None else await self._remote.refresh(live.feeds)

    def progress(self, name: str) -> Sequence[PartitionProgress]:
        """Progress of a subscription by partition. Dying messages count as unsettled until they are dead letters."""
        found = []
        for feed in self.find(name).feeds:
            machine, end_offset = feed.machine, feed.partition.high_watermark
            start, dying = machine.start_offset or 0, len(machine.dying)
            unsettled = max(0, end_offset - start - machine.settled_count + dying)
            found.append(
                PartitionProgress(
                    feed.partition.index, start, end_offset, unsettled, len(machine.held), dying
                )
            )
        return found

    async def redrive(self, name: str, count_max: int | None = None) -> int:
        """Write dead letters back to their topic, for this subscription only; returns how many."""
        live = self.find(name)
        async with self._redriving.setdefault(name, asyncio.Lock()):
            letters = self._catalog.find(live.definition.dead_letter_topic)
            if letters is None:
                return 0
            topic = self._catalog.topic(live.definition.topic)
            deadline_s = asyncio.get_running_loop().time() + REDRIVE_S_MAX
            return await redrive(
                live,
                self._log(letters, 0),
                partial(self._log, topic),
                lambda: asyncio.get_running_loop().time() < deadline_s,
                count_max,
            )


def check_subscription_name(name: str) -> str:
    """Check a subscription name: printable text of limited length."""
    if not name:
        raise InvalidRequest("a subscription needs a name")
    if len(name) > SUBSCRIPTION_NAME_CHARS_MAX:
        raise InvalidRequest(
            f"a subscription name has at most {SUBSCRIPTION_NAME_CHARS_MAX} characters, not {len(name)}"
        )
    if not name.isprintable():
        raise InvalidRequest(f"a subscription name must be printable text, {name!r} is not")
    return name


def _persist_or_leave(shard: SubscriptionShard, events: Sequence[object]) -> None:
    """Persist the consequences of a topic change. If that fails, the next replay decides them again."""
    try:
        shard.persist(events)
    except BrokerError as error:
        logger.warning(
            "cannot persist a subscription change that follows its topic; the next start retries: %s",
            error,
            extra={"partition": str(shard.partition)},
        )


def _start(partition: object, offset: int, first_offset: int, end_offset: int) -> int:
    """The start offset of a new subscription in a partition with these bounds."""
    if offset == LATEST:
        return end_offset
    if offset == EARLIEST:
        return first_offset
    if not 0 <= offset <= end_offset:
        raise OffsetOutOfRange(
            f"{partition}: start offset {offset} is outside of {first_offset} to {end_offset};"
            f" {EARLIEST} starts at the first message, {LATEST} at the end"
        )
    return max(offset, first_offset)
