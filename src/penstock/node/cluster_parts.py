"""Makes the parts of a node that only the broker of a cluster has. Imported by those alone: a single broker starts
without them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from penstock.core.limits import LINK_KEY_BYTES
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.cluster.values import KAFKA_LISTENER, NO_BROKER_EPOCH
from penstock.node.checkpoint import Identity, save_registration
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.controller import Controller
from penstock.node.cluster.membership import ClusterMembership, MemberProfile
from penstock.node.cluster.metadata_log import SharedMetadataLog
from penstock.node.coordinators.remote_sources import RemoteSources
from penstock.node.coordinators.transaction_links import TransactionLinks
from penstock.node.peers.link_opening import LinkPeer
from penstock.node.peers.links import PeerLinks
from penstock.node.replicas.partition_table import PartitionTable
from penstock.node.runtime.runtime import Runtime

INCARNATION_BYTES = 16


class LastRun(NamedTuple):
    """What the directory tells about the last run of a cluster's broker."""

    complete_epoch: int = NO_BROKER_EPOCH
    """Its broker epoch, if none of its records can be missing."""
    has_directory: bool = True
    """Whether there is a directory, or none is needed."""


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


def make_remote_sources(
    runtime: Runtime,
    links: PeerLinks,
    node_id: int,
    catalog: Catalog,
    table: PartitionTable,
    new_producer_id: Callable[[], Awaitable[int]],
) -> RemoteSources:
    """The partitions of other brokers, for the subscriptions of this one."""
    return RemoteSources(runtime, links, node_id, catalog, table.leader_of, table.get, new_producer_id)


def make_member(
    shared: SharedMetadataLog,
    host: CatalogHost,
    catalog: Catalog,
    runtime: Runtime,
    identity: Identity,
    rack: str,
    last_run: LastRun,
    set_active: Callable[[bool], None],
) -> tuple[ClusterMembership, Controller]:
    """The membership of a broker in its cluster, and its readiness to be the controller."""
    profile = MemberProfile(
        identity.cluster_id,
        identity.node_id,
        runtime.rng.bytes(INCARNATION_BYTES).hex(),
        rack,
        runtime.rng.bytes(LINK_KEY_BYTES),
    )
    profile.previous_epoch = last_run.complete_epoch
    profile.has_directory = last_run.has_directory

    def save_epoch(epoch: int) -> None:
        save_registration(runtime.files, epoch, runtime.boot_id)

    membership = ClusterMembership(shared, host, catalog, profile, set_active, save_epoch)
    return membership, Controller(shared, host, catalog, identity.node_id)
