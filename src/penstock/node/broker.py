"""Assembles one node (catalog, partitions, coordinators, producer ids), starts it and stops it. Doors never see it.

Doors call the waist (`node/waist`). Every change of topics, settings and producer ids is an event of the metadata log
and is durable before it is acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from penstock.core.errors import BrokerError, NotLeader, UnknownTopic
from penstock.core.limits import PRODUCER_IDS_BLOCK
from penstock.core.log.log import Log, LogLimits
from penstock.core.log.recovery import open_log
from penstock.core.machines.catalog.catalog import Catalog, make_topic_id
from penstock.core.machines.catalog.events import (
    BrokerConfigSaved,
    Event,
    FeaturesSaved,
    ProducerIdsReserved,
    ResourceConfigSaved,
    Topic,
    TopicDefaultsSaved,
    TopicRemoved,
    TopicSaved,
)
from penstock.core.machines.consumer_group.targets import Topics
from penstock.core.model import TopicRef
from penstock.core.resource_config import ResourceKind
from penstock.core.topic_config import TopicConfig
from penstock.node import checkpoint
from penstock.node.checkpoint import Identity
from penstock.node.cluster import metadata_file
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.metadata_file import MetadataFile
from penstock.node.coordinators.group_coordinator import GroupCoordinator
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.coordinators.markers import Markers
from penstock.node.coordinators.subscriptions import TOPIC as SUBSCRIPTIONS_TOPIC
from penstock.node.coordinators.subscriptions import Subscriptions
from penstock.node.coordinators.transactions import TOPIC as TRANSACTIONS_TOPIC
from penstock.node.coordinators.transactions import TransactionCoordinator
from penstock.node.janitor import Janitor
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced, run_unsliced
from penstock.node.settings import Settings
from penstock.node.topic_creation import NewTopic, TopicCreation
from penstock.node.topic_defaults import inherited_group_settings, inherited_settings, initial_features

logger = logging.getLogger("penstock.broker")

TOPICS_DIRECTORY = "topics"
OWN_NAMES = (TOPICS_DIRECTORY, metadata_file.DIRECTORY, *checkpoint.FILE_NAMES)
"""Files and directories that a node creates in its data directory."""
REOPEN_S = 1.0
"""Delay before the node retries to open a partition that failed to open."""

OPENING_UNITS, CLOSING_UNITS = 24, 4
"""Cost of opening a partition with its directory and files, and of closing it; see SLICE_UNITS."""


class Broker:
    """One node. Created by `start_broker`."""

    def __init__(
        self, settings: Settings, runtime: Runtime, identity: Identity, recovery_points: dict[str, int]
    ) -> None:
        self.settings = settings
        self.runtime = runtime
        self.identity = identity
        self.started_ms = runtime.clock.now_ms()
        self.catalog = Catalog(inherited_group_settings(settings), initial_features(settings))
        self.creation = TopicCreation(
            settings.default_partitions, identity.node_id, runtime.clock, runtime.rng
        )
        self.catalog_version = 0
        """Incremented whenever topics change, so that doors can cache what they derive from them."""
        self._recovery_points = recovery_points
        self._by_topic: dict[str, list[Partition]] = {}
        self._producer_ids: Iterator[int] = iter(())
        self._metadata_file = MetadataFile(self._open_metadata_log(), runtime, identity.run_epoch)
        self._metadata = CatalogHost(self._metadata_file, self.catalog, runtime, self._follow)
        self._janitor = Janitor(runtime, settings, self.partitions, self._metadata_file, recovery_points)
        self.group_coordinator = GroupCoordinator(
            settings,
            runtime,
            self.internal_topic,
            lambda: Topics(self.catalog, self.catalog_version),
            partial(self.catalog.resource_overrides, ResourceKind.GROUP),
        )
        self.markers = Markers(self.partition, self.group_coordinator.committed)
        self.transactions = TransactionCoordinator(
            settings, runtime, self.internal_topic, self.new_producer_id, self.markers
        )
        self.subscriptions = Subscriptions(settings, runtime, self.own_topic, self.catalog, self.partition)

    # -- lifecycle

    async def recover(self) -> None:
        """Replay the catalog, open every log, and sync recovered records before they become readable.

        Coordinators replay their partitions afterwards, in slices; until a partition is replayed, its calls fail with
        Loading.
        """
        await self._metadata_file.open()
        removed = await self._metadata.recover(self._recovery_points.get(metadata_file.DIRECTORY, 0))
        await self.change(self._adopt_topic_defaults)
        for topic in self.catalog.topics:
            run_unsliced(self._open_topic(topic))
        await asyncio.gather(*(partition.sync_recovered() for partition in self.partitions()))
        self._remove_leftovers(removed)
        if self.catalog.find(GROUPS_TOPIC) is not None:
            await self.group_coordinator.open()
        if self.catalog.find(TRANSACTIONS_TOPIC) is not None:
            await self.transactions.open()
        if self.catalog.find(SUBSCRIPTIONS_TOPIC) is not None:
            await self.subscriptions.open()
        await self._metadata.start(self.identity.node_id)
        self._janitor.start()

    def _adopt_topic_defaults(self, catalog: Catalog) -> Sequence[Event]:
        configured = inherited_settings(self.settings)
        return catalog.decide_adopt_topic_defaults(configured, is_shared=self._metadata_file.is_shared)

    async def stop(self) -> bool:
        """Flush everything, save the recovery points and the clean-shutdown marker; False if the shutdown is not
        clean."""
        await self.subscriptions.stop()
        await self.transactions.stop()
        await self.group_coordinator.stop()
        await self._janitor.stop()
        await self._metadata.stop()
        partitions = self.partitions()
        settled = await asyncio.gather(*(partition.settle() for partition in partitions))
        for partition, is_settled in zip(partitions, settled, strict=True):
            directory = partition.log.directory
            # Without a recovery point, the next start would take a directory that was lost for an empty partition.
            if is_settled or not self.runtime.files.names(directory):
                self._recovery_points[directory] = partition.recovery_point
            partition.close(NotLeader("the broker is stopping"))
        is_healthy = all(settled) and self._metadata.is_online
        try:
            self._metadata_file.close()
            self._recovery_points[metadata_file.DIRECTORY] = self._metadata_file.end_index
            checkpoint.save_recovery_points(self.runtime.files, self._recovery_points)
            if is_healthy:
                checkpoint.write_clean_marker(self.runtime.files, self.runtime.clock.now_ms())
        except BrokerError as error:
            logger.error(
                "cannot save the clean-shutdown state; the next start will verify all logs: %s", error
            )
            return False
        return is_healthy

    def _open_metadata_log(self) -> Log:
        return self._open_log(
            metadata_file.DIRECTORY, metadata_file.LIMITS, "metadata", is_synced_by_batch=True
        )

    def _open_log(
        self, directory: str, limits: LogLimits, name: str, *, is_synced_by_batch: bool = False
    ) -> Log:
        return open_log(
            self.runtime.files,
            directory,
            limits,
            recovery_offset=self._recovery_points.get(directory, 0),
            now_ms=self.runtime.clock.now_ms(),
            report=partial(logger.warning, "%s: %s", name),
            is_synced_by_batch=is_synced_by_batch,
        )

    def _remove_leftovers(self, removed: set[bytes]) -> None:
        """Finish interrupted deletions. A directory that the catalog does not know is not deleted: it may be the only
        copy of a topic."""
        known = {topic.id.hex() for topic in self.catalog.topics}
        leftovers = {topic_id.hex() for topic_id in removed} - known
        for name in self.runtime.files.names(TOPICS_DIRECTORY):
            if name in leftovers:
                logger.info("removing the directory of a deleted topic", extra={"directory": name})
                self._remove_directory(f"{TOPICS_DIRECTORY}/{name}")
            elif name not in known:
                logger.error(
                    "directory belongs to no known topic; not deleting it", extra={"directory": name}
                )

    def _remove_directory(self, directory: str) -> None:
        def removed(outcome: BaseException | None) -> None:
            if outcome is not None:
                logger.error(
                    "cannot remove the directory of a deleted topic; the next start retries: %s",
                    outcome,
                    extra={"directory": directory},
                )

        self.runtime.workers.submit(partial(self.runtime.files.remove_dir, directory), removed)

    @property
    def is_online(self) -> bool:
        """Whether topics can be created and changed: the metadata log accepts writes."""
        return self._metadata.is_online

    @property
    def metadata_end(self) -> int:
        """Index after the last metadata event that was applied here; every change increases it."""
        return self._metadata.index

    @property
    def metadata_epoch(self) -> int:
        """The epoch in which this node writes the metadata log."""
        return self._metadata_file.epoch

    @property
    def data_directory(self) -> str:
        return str(Path(self.settings.data_dir).absolute())

    # -- partitions

    def partitions(self) -> list[Partition]:
        return [partition for partitions in self._by_topic.values() for partition in partitions]

    def partitions_of(self, topic: str) -> list[Partition]:
        """The partitions of one topic by index; empty if the topic does not exist. Callers must not modify the
        list."""
        return self._by_topic.get(topic, [])

    def partition(self, topic: TopicRef, index: int) -> Partition:
        """One partition, by the topic's name or id. Raises UnknownTopic."""
        if isinstance(topic, bytes):
            topic = self.catalog.topic_by_id(topic).name
        partitions = self._by_topic.get(topic)
        if partitions is None or not 0 <= index < len(partitions):
            raise UnknownTopic(f"there is no partition {index} of a topic {topic!r}")
        return partitions[index]

    def _open_topic(self, topic: Topic) -> Sliced[None]:
        """Reconcile the open partitions of a topic with the catalog. A new topic's partitions become visible
        together."""
        config = self.catalog.config(topic.name)
        partitions = self._by_topic.get(topic.name, [])
        for partition in partitions:
            partition.configure(config)
            yield 1
        for index in range(len(partitions), topic.partition_count):
            partitions.append(self._open_partition(topic, index, config))
            yield OPENING_UNITS
        self._by_topic[topic.name] = partitions

    def _open_partition(self, topic: Topic, index: int, config: TopicConfig) -> Partition:
        directory = f"{TOPICS_DIRECTORY}/{topic.id.hex()}/{index}"
        limits = LogLimits(config.segment_bytes, config.segment_ms, config.index_interval_bytes)
        failure: BrokerError | None = None
        try:
            log = self._open_log(directory, limits, f"{topic.name}-{index}")
        except BrokerError as error:
            failure, log = error, Log(self.runtime.files, directory, limits)
        partition = Partition(topic, index, log, config, self.runtime)
        partition.lead(self._leader_epoch(log))
        if failure is not None:
            partition.fail(failure)
            if failure.retriable:
                asyncio.get_running_loop().call_later(REOPEN_S, self._reopen, topic, partition)
        return partition

    def _leader_epoch(self, log: Log) -> int:
        """The leader epoch in which this single node leads a partition from now on.

        It is above every epoch of a run that ended without a clean shutdown, and durable before the first append,
        because the run epoch is. A log with a higher epoch was written under another identity file; its epochs must
        not go back.
        """
        run_epoch, latest = self.identity.run_epoch, log.epochs.latest
        return run_epoch if latest <= run_epoch else latest + 1

    def _reopen(self, topic: Topic, failed: Partition) -> None:
        """Retry to open a partition that failed for lack of descriptors or disk space."""
        partitions = self._by_topic.get(topic.name, [])
        if failed not in partitions or topic.id != self.catalog.topic(topic.name).id:
            return
        partitions[failed.index] = partition = self._open_partition(topic, failed.index, failed.config)
        self.catalog_version += 1
        if partition.failure is None:
            logger.info("partition is online again", extra={"topic": topic.name, "partition": failed.index})
            partition.start_sync()

    # -- the catalog

    async def change(self, decide: Callable[[Catalog], Sequence[Event] | Sliced[Sequence[Event]]]) -> None:
        """Change the catalog: `decide` gets its current state and returns events, which are durable before they apply.

        `decide` runs again on a later state if another broker appended first.
        """
        await self._metadata.change(decide)

    def _follow(self, events: Sequence[Event]) -> Sliced[None]:
        """Apply events to the catalog, then open, reconfigure or close the partitions they concern."""
        removed: dict[str, None] = {}
        for event in events:
            if isinstance(event, TopicRemoved):
                removed[self.catalog.topic_by_id(event.id).name] = None
            self.catalog.apply(event)
            self.catalog_version += 1
            match event:
                case TopicSaved(topic):
                    if topic.name in removed:
                        yield from self._forget_topics(removed)
                        removed = {}
                    yield from self._open_topic(topic)
                    self.subscriptions.follow_topic(topic)
                case BrokerConfigSaved() | TopicDefaultsSaved():
                    for topic in self.catalog.topics:
                        yield from self._open_topic(topic)
                case ProducerIdsReserved(upto, owner):
                    if owner == self.identity.node_id:
                        self._producer_ids = iter(range(upto - PRODUCER_IDS_BLOCK, upto))
                case ResourceConfigSaved(ResourceKind.GROUP, name):
                    self.group_coordinator.groups.configure(name)
                case TopicRemoved():
                    yield from self._drop_topic(next(reversed(removed)))
                case ResourceConfigSaved() | FeaturesSaved():
                    pass  # read from the catalog on demand
            yield 1
        if removed:
            yield from self._forget_topics(removed)

    def _forget_topics(self, removed: Mapping[str, None]) -> Sliced[None]:
        """Remove what coordinators hold about deleted topics. Runs before a topic of the same name is created."""
        yield from self.group_coordinator.committed.forget_topics(removed)
        self.subscriptions.forget_topics(removed)

    def _drop_topic(self, name: str) -> Sliced[None]:
        partitions = self._by_topic.pop(name)
        for partition in partitions:
            self._recovery_points.pop(partition.log.directory, None)
            partition.close(UnknownTopic(f"topic {name!r} was deleted"))
            yield CLOSING_UNITS
        self._remove_directory(partitions[0].log.directory.rpartition("/")[0])

    async def create_topic(self, new: NewTopic) -> None:
        """Create a topic; returns once it is durable."""
        await self.change(lambda catalog: self.creation.decide(catalog, new))

    async def auto_create_topic(self, name: str) -> None:
        """Create a topic on demand, with default settings."""
        await self.create_topic(NewTopic(name))

    async def internal_topic(
        self, name: str, partition_count: int, overrides: Mapping[str, str]
    ) -> list[Partition]:
        """The partitions of an internal topic; creates the topic if it is missing."""
        return await self.own_topic(name, partition_count, overrides, True)

    async def own_topic(
        self, name: str, partition_count: int, overrides: Mapping[str, str], is_internal: bool
    ) -> list[Partition]:
        """The partitions of a topic that the broker itself writes to; creates the topic if it is missing."""
        new = NewTopic(name, partition_count, overrides, is_internal=is_internal)

        def decide(catalog: Catalog) -> Sequence[Event]:
            return () if catalog.find(name) is not None else self.creation.decide(catalog, new)

        await self.change(decide)
        if name not in self._by_topic:
            raise UnknownTopic(f"topic {name!r} was deleted as soon as it was created")
        return list(self._by_topic[name])

    def new_topic_id(self) -> bytes:
        return make_topic_id(self.runtime.rng)

    def reserved_producer_id(self) -> int | None:
        """The next unused producer id of the reserved block; None when a new block must be reserved first."""
        return next(self._producer_ids, None)

    async def new_producer_id(self) -> int:
        """The next unused producer id; reserves a block if needed."""
        producer_id = self.reserved_producer_id()
        while producer_id is None:
            await self.change(lambda catalog: catalog.decide_reserve_producer_ids(self.identity.node_id))
            producer_id = self.reserved_producer_id()
        return producer_id


async def start_broker(settings: Settings, runtime: Runtime) -> Broker:
    """Recover a node from its data directory, or initialize a new one."""
    checkpoint.require_identity(runtime.files, (TOPICS_DIRECTORY, metadata_file.DIRECTORY))
    was_clean = checkpoint.take_clean_marker(runtime.files)
    identity = checkpoint.load_identity(runtime.files, runtime.rng, settings.node_id, was_clean=was_clean)
    if identity.run_epoch and not was_clean:
        logger.warning(
            "the last run did not shut down cleanly; verifying logs past their recovery points",
            extra={"run_epoch": identity.run_epoch},
        )
    broker = Broker(settings, runtime, identity, checkpoint.load_recovery_points(runtime.files))
    await broker.recover()
    return broker
