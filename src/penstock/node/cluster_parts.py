"""Makes the parts of a node that only the broker of a cluster has. Imported by those alone: a single broker starts
without them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from penstock.core.errors import BrokerError
from penstock.core.gossip.peer import CONTROLLER
from penstock.core.limits import LINK_KEY_BYTES
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.events import BrokerRemoved, BrokerSaved, PartitionRemoved, PartitionSaved
from penstock.core.machines.cluster.values import GOSSIP_LISTENER, KAFKA_LISTENER, NO_BROKER_EPOCH
from penstock.core.model import Address, PartitionId, Storage
from penstock.core.replication.fetches import ReplicaIdentity
from penstock.core.version import __version__
from penstock.node.checkpoint import Identity, Registration, begin_attempt, save_registration
from penstock.node.cluster.catalog_host import CatalogHost, Decide
from penstock.node.cluster.cluster_settings import ClusterSettings
from penstock.node.cluster.controller import Controller
from penstock.node.cluster.membership import ClusterMembership, MemberProfile
from penstock.node.cluster.metadata_log import SharedMetadataLog, broker_session_name
from penstock.node.coordinators.remote_sources import RemoteSources
from penstock.node.coordinators.transaction_links import TransactionLinks
from penstock.node.peers.gossip_member import GossipMember
from penstock.node.peers.link_opening import LinkPeer
from penstock.node.peers.links import PeerLinks
from penstock.node.remote.other_brokers import OtherBrokers
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.partition_table import PartitionTable
from penstock.node.replicas.replication import Replication
from penstock.node.runtime.runtime import Runtime
from penstock.node.settings import Settings

INCARNATION_BYTES = 16


class LastRun(NamedTuple):
    """What the directory tells about the last run of a cluster's broker that was active."""

    attempts: Sequence[str]
    """The incarnations that have started since; the last one is this process."""
    complete_epoch: int = NO_BROKER_EPOCH
    """Its broker epoch, if none of its records can be missing."""
    flushed_epoch: int = NO_BROKER_EPOCH
    """The same, if none can be missing that was flushed to disk."""
    has_directory: bool = True
    """Whether there is a directory, or none is needed."""
    session: int = 0
    """The number of its session."""


def begin_run(runtime: Runtime, settings: Settings) -> LastRun:
    """Name this process. To be called before the marker of a clean shutdown is removed."""
    found = begin_attempt(runtime.files, runtime.rng.bytes(INCARNATION_BYTES).hex())
    # Not whether it has an identity: a start that was refused has left one.
    has_directory = found.broker_epoch >= 0 or settings.storage is Storage.MEMORY
    complete_epoch = found.complete_epoch(runtime.boot_id)
    return LastRun(found.attempts, complete_epoch, found.broker_epoch, has_directory, found.session)


async def end_last_run(shared: SharedMetadataLog, node_id: int, session: int) -> None:
    """End the sessions of the last process on this directory. It held the lock that this one holds, so it is dead:
    others need not wait for its time to run out, above all if it was the controller."""
    name = broker_session_name(node_id)
    with suppress(BrokerError):  # they end by themselves
        async for live in shared.follow_sessions():
            if any(one.name == name and one.number == session for one in live):
                for one in live:
                    if one.holder == node_id:
                        await shared.end_session(one)
            return


def make_links(runtime: Runtime, identity: Identity, catalog: Catalog) -> tuple[PeerLinks, TransactionLinks]:
    """Connections to the other brokers."""

    def find_peer(broker_id: int) -> LinkPeer | None:
        cluster = catalog.cluster
        found = cluster.find_broker(broker_id)
        if found is None or found.is_fenced or cluster.link_key is None:
            return None
        return LinkPeer(found.listeners[KAFKA_LISTENER], identity.cluster_id, cluster.link_key)

    links = PeerLinks(runtime, identity.node_id, find_peer)
    return links, TransactionLinks(links)


def make_others(
    runtime: Runtime,
    links: PeerLinks,
    node_id: int,
    catalog: Catalog,
    table: PartitionTable,
    new_producer_id: Callable[[], Awaitable[int]],
) -> tuple[OtherBrokers, RemoteSources]:
    """What this broker reads from others, and what its subscriptions use of that."""
    others = OtherBrokers(runtime, links, node_id, catalog, table.find_led)
    return others, RemoteSources(runtime, others, table.get, new_producer_id)


def make_member(
    shared: SharedMetadataLog,
    host: CatalogHost,
    catalog: Catalog,
    runtime: Runtime,
    identity: Identity,
    settings: ClusterSettings,
    last_run: LastRun,
    set_active: Callable[[bool], None],
) -> tuple[ClusterMembership, Controller]:
    """The membership of a broker in its cluster, and its readiness to be the controller."""
    profile = MemberProfile(
        identity.cluster_id,
        identity.node_id,
        last_run.attempts[-1],
        settings.rack,
        runtime.rng.bytes(LINK_KEY_BYTES),
        takes_share=settings.takes_share,
    )
    profile.attempts = last_run.attempts
    profile.previous_epoch = last_run.complete_epoch
    profile.flushed_epoch = last_run.flushed_epoch
    profile.has_directory = last_run.has_directory
    profile.previous_session = last_run.session

    def save(epoch: int, session: int) -> None:
        save_registration(runtime.files, Registration(epoch, session, runtime.boot_id))

    membership = ClusterMembership(shared, host, catalog, profile, set_active, save)
    controller = Controller(shared, host, catalog, identity.node_id, settings)
    membership.recent_brokers = controller.recent_brokers
    return membership, controller


class ReplicaHost(Protocol):
    """The broker whose partitions are replicated."""

    settings: Settings
    runtime: Runtime
    identity: Identity
    catalog: Catalog
    links: PeerLinks | None
    membership: ClusterMembership | None

    async def change(self, decide: Decide) -> None: ...


def make_replication(
    broker: ReplicaHost, table: PartitionTable, save_points: Callable[[], Awaitable[None]]
) -> Replication:
    """The replicas that a broker copies from others and they from it."""
    membership, links, node_id = broker.membership, broker.links, broker.identity.node_id
    assert membership is not None and links is not None
    membership.failed_replicas = table.failed
    return Replication(
        broker.catalog,
        table,
        broker.runtime,
        links,
        lambda: ReplicaIdentity(node_id, membership.epoch),
        broker.change,
        save_points,
        broker.settings.copies_max,
        broker.settings.replica_lag_ms / 1000,
        broker.settings.scrub_interval_ms / 1000,
        broker.settings.scrub_bytes_per_s,
    )


class MemberEvents:
    """What a member of a cluster does when it joins and when an event was applied, besides what every broker does."""

    def __init__(
        self,
        membership: ClusterMembership,
        controller: Controller,
        links: PeerLinks,
        replication: Replication,
    ) -> None:
        self._membership = membership
        self._controller = controller
        self._links = links
        self._replication = replication
        links.on_trouble = controller.probes.suspect
        self.gossip: GossipMember | None = None

    async def join(self, listeners: Mapping[str, Address]) -> None:
        """Take part in the cluster under these addresses."""
        if self.gossip is not None:
            self.gossip.on_suspicion = self._controller.probes.suspect
        await self._membership.join(listeners)
        self._controller.start()
        self._replication.start()

    def follow(self, event: Event) -> None:
        """An event was applied to the catalog and to the partitions."""
        match event:
            case BrokerSaved(broker):
                self._membership.follow_registration(broker)
                self._controller.follow_registration(broker)
                self._links.refresh()
            case PartitionSaved(placed):
                self._controller.follow_partition(placed)
            case PartitionRemoved(topic_id, index):
                self._controller.elections.forget(PartitionId(topic_id, index))
            case _:
                pass
        if self.gossip is not None and isinstance(event, BrokerSaved | BrokerRemoved):
            self.gossip.follow_brokers()
        self._replication.follow(event)


class GossipSubject(Protocol):
    """The broker that gossip speaks of."""

    settings: Settings
    runtime: Runtime
    identity: Identity
    catalog: Catalog
    listeners: Mapping[str, Address]
    partitions: Callable[[], list[Partition]]

    @property
    def is_controller(self) -> bool: ...

    @property
    def metadata_epoch(self) -> int: ...


async def open_gossip(broker: GossipSubject, listeners: Mapping[str, Address]) -> GossipMember | None:
    """The gossip of a broker, with its port bound: it tells the addresses of the doors, and the load. None if gossip
    is off or not possible."""
    advertised = listeners.get(GOSSIP_LISTENER)
    if advertised is None:
        return None

    def addresses() -> dict[str, str]:
        return {name: str(address) for name, address in broker.listeners.items()}

    def load() -> dict[str, str]:
        said = {
            "version": __version__,
            "leaders": str(sum(one.is_leader for one in broker.partitions())),
            "connections": str(sum(door.connections for door in broker.runtime.meters.doors.values())),
        }
        return {**said, CONTROLLER: str(broker.metadata_epoch)} if broker.is_controller else said

    identity, catalog = broker.identity, broker.catalog
    member = GossipMember(
        broker.runtime, identity.node_id, identity.cluster_id, catalog.cluster, addresses, load
    )
    bind = Address(broker.settings.host, broker.settings.port or advertised.port)
    return member if await member.bind(bind, advertised) else None
