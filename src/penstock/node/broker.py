"""Assembles one node (catalog, partitions, coordinators, producer ids), starts it and stops it. Doors never see it.

Doors call the waist (`node/waist`). Every change of topics, settings and producer ids is an event of the metadata log
and is durable before it is acknowledged. The log is a file of this node, or shared by the brokers of a cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core.errors import BrokerError, UnknownTopic
from penstock.core.limits import PRODUCER_IDS_BLOCK
from penstock.core.log.recovery import open_log
from penstock.core.machines.catalog.catalog import Catalog, make_topic_id
from penstock.core.machines.catalog.events import (
    BrokerConfigSaved,
    Event,
    ProducerIdsReserved,
    ResourceConfigSaved,
    Topic,
    TopicDefaultsSaved,
    TopicRemoved,
    TopicSaved,
)
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.core.machines.cluster.values import GOSSIP_LISTENER
from penstock.core.machines.consumer_group.targets import Topics
from penstock.core.model import Address
from penstock.core.resource_config import ResourceKind
from penstock.node import checkpoint
from penstock.node.checkpoint import Identity
from penstock.node.cluster import metadata_file
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.metadata_file import MetadataFile
from penstock.node.cluster.metadata_log import MetadataLog, OpenSharedLog, SharedMetadataLog
from penstock.node.coordinators.group_coordinator import GroupCoordinator
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.coordinators.markers import Markers
from penstock.node.coordinators.shard_host import ShardHost
from penstock.node.coordinators.subscriptions import TOPIC as SUBSCRIPTIONS_TOPIC
from penstock.node.coordinators.subscriptions import Subscriptions
from penstock.node.coordinators.transactions import TOPIC as TRANSACTIONS_TOPIC
from penstock.node.coordinators.transactions import TransactionCoordinator
from penstock.node.janitor import Janitor
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.partition_table import TOPICS_DIRECTORY, PartitionTable
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced, run_unsliced
from penstock.node.settings import Settings
from penstock.node.topic_creation import NewTopic, TopicCreation
from penstock.node.topic_defaults import inherited_group_settings, inherited_settings, initial_features

if TYPE_CHECKING:
    from penstock.node.cluster.controller import Controller
    from penstock.node.cluster.membership import ClusterMembership
    from penstock.node.cluster_parts import LastRun, MemberEvents
    from penstock.node.coordinators.remote_sources import RemoteSources
    from penstock.node.coordinators.transaction_links import TransactionLinks
    from penstock.node.peers.gossip import GossipHost
    from penstock.node.peers.gossip_member import GossipMember
    from penstock.node.peers.links import PeerLinks
    from penstock.node.remote.other_brokers import OtherBrokers
    from penstock.node.replicas.replication import Replication

logger = logging.getLogger("penstock.broker")

OWN_NAMES = (TOPICS_DIRECTORY, metadata_file.DIRECTORY, *checkpoint.FILE_NAMES, "gossip.json")
"""Files and directories that a node creates in its data directory."""
ADOPTED_NAMES = (TOPICS_DIRECTORY, metadata_file.DIRECTORY)
"""Those that are data: they must not exist without an identity."""


class Broker:
    """One node. Created by `start_broker`."""

    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        identity: Identity,
        recovery_points: dict[str, int],
        shared: SharedMetadataLog | None = None,
        last_run: LastRun | None = None,
    ) -> None:
        self.settings = settings
        self.runtime = runtime
        self.identity = identity
        self.started_ms = runtime.clock.now_ms()
        self.catalog = Catalog(inherited_group_settings(settings), initial_features(settings))
        self.creation = TopicCreation(settings, identity.node_id, runtime.clock)
        self.catalog_version = 0
        """Incremented whenever topics or their leaders change, so that doors can cache what they derive from them."""
        self._recovery_points = recovery_points
        self._producer_ids: Iterator[int] = iter(())
        self._shared = shared
        self._file = None if shared is not None else self._open_file()
        self._metadata = CatalogHost(self._log, self.catalog, runtime, self._follow)
        self._table = PartitionTable(
            self.catalog, runtime, identity.node_id, identity.run_epoch, recovery_points, self._role_changed
        )
        self.partition = self._table.get
        self.partitions = self._table.all
        self.partitions_of = self._table.of_topic
        self.find_held = self._table.find_held
        self.find_led = self._table.find_led
        self.leader_of = self._table.leader_of
        self._janitor = Janitor(runtime, settings, self.partitions, self, recovery_points)
        self.links: PeerLinks | None = None
        """Connections to the other brokers of the cluster."""
        self.transaction_links: TransactionLinks | None = None
        self.others: OtherBrokers | None = None
        """What this broker reads from them."""
        self._remote_sources: RemoteSources | None = None
        self.listeners: Mapping[str, Address] = {}
        """The advertised addresses of the doors, once they are bound."""
        self._gossip: GossipMember | None = None
        self.membership: ClusterMembership | None = None
        self.controller: Controller | None = None
        self.replication: Replication | None = None
        """What this broker copies from others and they from it."""
        self._member_events: MemberEvents | None = None
        if shared is not None and last_run is not None:
            self._prepare_membership(shared, last_run)
        self._make_coordinators()

    def _prepare_membership(self, shared: SharedMetadataLog, last_run: LastRun) -> None:
        from penstock.node import cluster_parts as parts

        runtime, identity, catalog = self.runtime, self.identity, self.catalog
        links, self.transaction_links = parts.make_links(runtime, identity, catalog)
        self.links = links
        membership, controller = parts.make_member(
            shared, self._metadata, catalog, runtime, identity, self.settings, last_run, self._set_active
        )
        self.membership, self.controller = membership, controller
        self.replication = parts.make_replication(self, self._table, self._janitor.write_points)
        self._member_events = parts.MemberEvents(membership, controller, links, self.replication)
        self.others, self._remote_sources = parts.make_others(
            runtime, links, identity.node_id, catalog, self._table, self.new_producer_id
        )

    def _make_coordinators(self) -> None:
        settings, runtime = self.settings, self.runtime
        self.group_coordinator = GroupCoordinator(
            settings,
            runtime,
            self.internal_topic,
            lambda: Topics(self.catalog, self.catalog_version),
            partial(self.catalog.resource_overrides, ResourceKind.GROUP),
        )
        self.markers = Markers(
            self.catalog, self.partition, self.group_coordinator.committed, self.transaction_links
        )
        self.transactions = TransactionCoordinator(
            settings, runtime, self.internal_topic, self.new_producer_id, self.markers
        )
        self.subscriptions = Subscriptions(
            settings, runtime, self.own_topic, self.catalog, self.partition, self._remote_sources
        )
        self._shard_hosts: dict[str, ShardHost[Any]] = {
            GROUPS_TOPIC: self.group_coordinator.groups.host,
            TRANSACTIONS_TOPIC: self.transactions.host,
            SUBSCRIPTIONS_TOPIC: self.subscriptions.host,
        }

    @property
    def _log(self) -> MetadataLog:
        log = self._shared or self._file
        assert log is not None
        return log

    # -- lifecycle

    async def recover(self) -> None:
        """Replay the catalog, open every log, and sync recovered records before they become readable.

        Coordinators replay their partitions afterwards, in slices; until a partition is replayed, its calls fail with
        Loading. The member of a cluster leads nothing before `join`.
        """
        if self._file is not None:
            await self._file.open()
        removed = await self._metadata.recover(self._recovery_points.get(metadata_file.DIRECTORY, 0))
        await self.change(self._adopt_topic_defaults)
        # Coordinators read partitions of other topics as soon as they lead: those must be readable by then.
        for is_internal in (False, True):
            for topic in self.catalog.topics:
                if topic.internal is is_internal:
                    run_unsliced(self._open_topic(topic))
            await self._table.sync_recovered()
        self._table.remove_leftovers(removed)
        self._metadata.start()
        self._janitor.start()

    def _adopt_topic_defaults(self, catalog: Catalog) -> Sequence[Event]:
        configured = inherited_settings(self.settings)
        return catalog.decide_adopt_topic_defaults(configured, is_shared=self._shared is not None)

    async def join(self, listeners: Mapping[str, Address]) -> None:
        """Take part in the cluster under these addresses; returns once this broker is active. A single broker only
        remembers them. An address of gossip asks for it."""
        self.listeners = {name: one for name, one in listeners.items() if name != GOSSIP_LISTENER}
        if self._member_events is not None:
            from penstock.node.cluster_parts import open_gossip

            self._gossip = self._member_events.gossip = await open_gossip(self, listeners)
            own = {} if self._gossip is None else {GOSSIP_LISTENER: self._gossip.address}
            await self._member_events.join({**self.listeners, **own})
            if self._gossip is not None:
                await self._gossip.start()

    @property
    def gossip(self) -> GossipHost | None:
        """What this broker hears of the others: hints. None without a cluster, and if gossip is off."""
        return None if self._gossip is None else self._gossip.host

    def _set_active(self, is_active: bool) -> None:
        self._table.set_active(is_active=is_active)
        if self.replication is not None:
            self.replication.set_active(is_active=is_active)
        self.catalog_version += 1

    async def announce_stop(self) -> None:
        """Before the doors close: others take over what they can, and clients hear of it from this broker."""
        if self.membership is not None and self.controller is not None:
            await self.controller.stop()
            await self.membership.begin_leaving()

    async def stop(self) -> bool:
        """Flush everything, save the recovery points and the clean-shutdown marker; False if the shutdown is not
        clean."""
        if self._gossip is not None:
            await self._gossip.stop()
        await self.subscriptions.stop()
        await self.transactions.stop()
        await self.group_coordinator.stop()
        await self._janitor.stop()
        if self.links is not None and self.transaction_links is not None and self.replication is not None:
            await self.replication.stop()
            self.transaction_links.close()
            await self.links.close()
        are_settled = await self._table.stop()
        if self.membership is not None:
            await self.membership.leave()
        await self._metadata.stop()
        is_healthy = are_settled and self._metadata.is_online
        try:
            await self._close_log()
            self._recovery_points[metadata_file.DIRECTORY] = self.metadata_end
            checkpoint.save_recovery_points(self.runtime.files, self._recovery_points)
            if is_healthy:
                checkpoint.write_clean_marker(self.runtime.files, self.runtime.clock.now_ms())
        except BrokerError as error:
            logger.error(
                "cannot save the clean-shutdown state; the next start will verify all logs: %s", error
            )
            return False
        return is_healthy

    # -- the metadata log

    def _open_file(self) -> MetadataFile:
        log = open_log(
            self.runtime.files,
            metadata_file.DIRECTORY,
            metadata_file.LIMITS,
            recovery_offset=self._recovery_points.get(metadata_file.DIRECTORY, 0),
            now_ms=self.runtime.clock.now_ms(),
            report=partial(logger.warning, "metadata: %s"),
            refuses_damage=True,
        )
        return MetadataFile(log, self.runtime, self.identity.run_epoch)

    async def _close_log(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._shared is not None:
            await self._shared.close()

    async def compact(self) -> None:
        """Compact the metadata log. Of several brokers, the controller does that."""
        if self._file is not None:
            await self._file.compact()
        elif self._shared is not None and self.is_controller:
            await self._shared.compact()

    @property
    def is_controller(self) -> bool:
        return self.controller_id == self.identity.node_id

    @property
    def controller_id(self) -> int:
        """The broker that acts as controller; -1 while there is none."""
        return self.identity.node_id if self.controller is None else self.controller.holder_id

    @property
    def is_online(self) -> bool:
        """Whether topics can be created and changed: the metadata log accepts writes."""
        return self._metadata.is_online and (self.membership is None or self.membership.is_active)

    @property
    def unready_reason(self) -> str:
        """Why this broker is not ready for clients, as a sentence; empty if it is."""
        failure = self._metadata.failure
        if failure is not None:
            return f"the metadata log is offline: {failure}"
        return "" if self.membership is None else self.membership.inactive_reason

    @property
    def metadata_end(self) -> int:
        """Index after the last metadata event that was applied here; every change increases it."""
        return self._metadata.index

    @property
    def metadata_lag(self) -> int | None:
        """Events that this broker knows to be in the shared metadata log and has not applied yet; None without one."""
        return None if self._shared is None else max(0, self._shared.seen_index - self._metadata.index)

    @property
    def metadata_epoch(self) -> int:
        """The epoch in which the metadata log is written."""
        return self.identity.run_epoch if self.controller is None else self.controller.epoch

    @property
    def data_directory(self) -> str:
        return str(Path(self.settings.data_dir).absolute())

    # -- the catalog

    async def change(self, decide: Callable[[Catalog], Sequence[Event] | Sliced[Sequence[Event]]]) -> None:
        """Change the catalog: `decide` gets its current state and returns events, which are durable before they apply.

        `decide` runs again on a later state if another broker appended first.
        """
        await self._metadata.change(decide)

    def _follow(self, events: Sequence[Event]) -> Sliced[None]:
        """Apply events to the catalog, then to what depends on it."""
        removed: dict[str, None] = {}
        are_leaders_new = False
        for event in events:
            if isinstance(event, TopicRemoved):
                removed[self.catalog.topic_by_id(event.id).name] = None
            ids_upto = self.catalog.producer_ids_upto
            self.catalog.apply(event)
            self.catalog_version += 1
            match event:
                case TopicSaved(topic):
                    if topic.name in removed:
                        yield from self._forget_topics(removed)
                        removed = {}
                    yield from self._open_topic(topic)
                    self.subscriptions.follow_topic(topic)
                case PartitionSaved(placed):
                    yield from self._table.place(placed)
                    are_leaders_new = True
                case BrokerConfigSaved() | TopicDefaultsSaved():
                    for topic in self.catalog.topics:
                        yield from self._table.open_topic(topic)
                case ProducerIdsReserved(upto, owner):
                    # A snapshot names the last block again, of which ids were given out.
                    if owner == self.identity.node_id and upto > ids_upto:
                        self._producer_ids = iter(range(upto - PRODUCER_IDS_BLOCK, upto))
                case ResourceConfigSaved(ResourceKind.GROUP, name):
                    self.group_coordinator.groups.configure(name)
                case TopicRemoved():
                    yield from self._table.drop_topic(next(reversed(removed)))
                case _:
                    pass  # read from the catalog on demand
            if self._member_events is not None:
                self._member_events.follow(event)
            yield 1
        if removed:
            yield from self._forget_topics(removed)
        if are_leaders_new:
            self.transactions.retry_markers()

    def _open_topic(self, topic: Topic) -> Sliced[None]:
        if topic.name in self._shard_hosts:
            self._shard_hosts[topic.name].expect(topic.partition_count)
        return self._table.open_topic(topic)

    def _role_changed(self, partition: Partition) -> None:
        """Coordinators lead and resign with the partitions of their topics."""
        self.catalog_version += 1
        if self.replication is not None:
            self.replication.role_changed(partition)
        host = self._shard_hosts.get(partition.topic) if partition.is_internal else None
        if host is not None:
            host.follow_role(partition)
        elif self.links is not None:
            self.subscriptions.follow_role(partition)

    def _forget_topics(self, removed: Mapping[str, None]) -> Sliced[None]:
        """Remove what coordinators hold about deleted topics. Runs before a topic of the same name is created."""
        yield from self.group_coordinator.committed.forget_topics(removed)
        self.subscriptions.forget_topics(removed)

    async def create_topic(self, new: NewTopic) -> None:
        """Create a topic; returns once it is durable."""
        topic_id = self.new_topic_id()
        await self.change(lambda catalog: self.creation.decide(catalog, new, topic_id))

    async def auto_create_topic(self, name: str) -> None:
        """Create a topic on demand, with default settings."""
        await self.create_topic(NewTopic(name))

    async def internal_topic(self, name: str, partition_count: int, overrides: Mapping[str, str]) -> None:
        """Create an internal topic if it is missing."""
        await self.own_topic(name, partition_count, overrides, True)

    async def own_topic(
        self, name: str, partition_count: int, overrides: Mapping[str, str], is_internal: bool
    ) -> None:
        """Create a topic that the broker itself writes to, if it is missing."""
        new = NewTopic(name, partition_count, overrides, is_internal=is_internal)
        topic_id = self.new_topic_id()

        def decide(catalog: Catalog) -> Sequence[Event]:
            return () if catalog.find(name) is not None else self.creation.decide(catalog, new, topic_id)

        await self.change(decide)
        if not self._table.is_open(name):
            raise UnknownTopic(f"topic {name!r} was deleted as soon as it was created")

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


async def start_broker(
    settings: Settings, runtime: Runtime, open_shared: OpenSharedLog | None = None
) -> Broker:
    """Recover a node from its data directory, or initialize a new one. `open_shared` opens the metadata log of a
    cluster; without it the node is a cluster of its own."""
    files = runtime.files
    checkpoint.require_identity(files, ADOPTED_NAMES)
    stored_cluster_id = checkpoint.stored_cluster_id(files)
    recovery_points = checkpoint.load_recovery_points(files)
    shared = None
    if open_shared is not None:
        seen_index = recovery_points.get(metadata_file.DIRECTORY, 0)
        shared = await open_shared(stored_cluster_id, seen_index)
    try:
        return await _start(settings, runtime, recovery_points, shared)
    except BaseException:
        if shared is not None:
            await shared.close()
        raise


async def _start(
    settings: Settings,
    runtime: Runtime,
    recovery_points: dict[str, int],
    shared: SharedMetadataLog | None,
) -> Broker:
    files = runtime.files
    last_run = None
    if shared is not None:
        from penstock.node.cluster_parts import begin_run

        last_run = begin_run(runtime, settings)
    was_clean = checkpoint.take_clean_marker(files)
    identity = checkpoint.load_identity(
        files,
        runtime.rng,
        settings.node_id,
        was_clean=was_clean,
        shared_cluster_id=None if shared is None else shared.cluster_id,
    )
    if identity.run_epoch and not was_clean:
        logger.warning(
            "the last run did not shut down cleanly; verifying logs past their recovery points",
            extra={"run_epoch": identity.run_epoch},
        )
    if shared is not None and last_run is not None:
        from penstock.node.cluster_parts import end_last_run

        await end_last_run(shared, identity.node_id, last_run.session)
    broker = Broker(settings, runtime, identity, recovery_points, shared, last_run)
    await broker.recover()
    return broker
