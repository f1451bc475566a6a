"""The replicas of a broker in a cluster: what it copies from other brokers, and what they copy from it.

Told of every change of the catalog and of every change of a role; derives from it what to follow and what to hand over.
A single broker has none of this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.events import BrokerSaved, PartitionRemoved, PartitionSaved
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.replication.fetches import ReplicaIdentity
from penstock.core.replication_config import CATCH_UP_RATE, FOLLOWER_RATE, LEADER_RATE, replication_rate
from penstock.node.peers.links import PeerLinks
from penstock.node.replicas.following import Following
from penstock.node.replicas.leading import Change, Leading
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.partition_table import TOPICS_DIRECTORY, PartitionTable
from penstock.node.replicas.repair import Repairs
from penstock.node.replicas.scrub import Scrub
from penstock.node.replicas.strays import remove_old_strays
from penstock.node.replicas.throttle import Throttle, Throttles, catch_up_throttle
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks
from penstock.node.runtime.workers import run_blocking

logger = logging.getLogger("penstock.replicas")

STRAYS_CHECK_S = 3_600.0


class Replication:
    """Both sides of replication on one broker. `save_points` persists the recovery points."""

    def __init__(
        self,
        catalog: Catalog,
        table: PartitionTable,
        runtime: Runtime,
        links: PeerLinks,
        identity: Callable[[], ReplicaIdentity],
        change: Change,
        save_points: Callable[[], Awaitable[None]],
        copies_max: int,
        lag_s_max: float,
        scrub_interval_s: float,
        scrub_bytes_per_s: int,
    ) -> None:
        self._catalog = catalog
        self._table = table
        self._runtime = runtime
        self._save_points = save_points
        self._tasks = Tasks()
        self.following = Following(
            catalog,
            runtime,
            links,
            identity,
            Throttles(
                Throttle(lambda: replication_rate(catalog.defaults, FOLLOWER_RATE)),
                catch_up_throttle(lambda: replication_rate(catalog.defaults, CATCH_UP_RATE)),
            ),
            copies_max,
            self._lower_recovery_point,
        )
        self.leading = Leading(
            catalog,
            identity,
            change,
            lambda: replication_rate(catalog.defaults, LEADER_RATE),
            runtime.meters,
            lag_s_max,
        )
        self.repairs = Repairs(catalog, table, identity, change, runtime.meters)
        self.scrub = Scrub(runtime, links, self.leading, scrub_interval_s, scrub_bytes_per_s)
        table.on_failed = self.failed

    def start(self) -> None:
        self._tasks.spawn(self._tidy_strays())
        self.leading.start()
        self.scrub.start()

    def follow(self, event: Event) -> None:
        """An event was applied to the catalog, and the table has followed."""
        match event:
            case PartitionSaved(placed):
                self._refresh(self._table.find_held(placed.id), placed)
            case PartitionRemoved(topic_id, index):
                self.leading.forget(PartitionId(topic_id, index))
                self.following.forget(PartitionId(topic_id, index))
            case BrokerSaved():
                self.following.brokers_changed()
            case _:
                pass

    def role_changed(self, partition: Partition) -> None:
        """A partition began or ceased to lead here."""
        placed = self._catalog.cluster.find_partition(PartitionId(partition.topic_id, partition.index))
        if placed is not None:
            self._refresh(None if partition.failure is not None else partition, placed)

    def _refresh(self, partition: Partition | None, placed: PartitionReplicas) -> None:
        self.leading.refresh(partition, placed)
        self.following.refresh(partition, placed)

    def set_active(self, *, is_active: bool) -> None:
        """Begin or cease to follow: a broker that is not an active member of its cluster may know old leaders."""
        self.following.is_active = self.repairs.is_active = is_active
        for partition in self._table.all():
            self.role_changed(partition)
            self.repairs.start(partition)

    def failed(self, partition: Partition) -> None:
        """A partition went offline: others take over, and it is repaired."""
        self.role_changed(partition)
        self.repairs.start(partition)

    async def _lower_recovery_point(self, partition: Partition, offset: int) -> None:
        while self._table.lower_recovery_point(partition, offset):
            await self._save_points()

    async def _tidy_strays(self) -> None:
        runtime = self._runtime
        while True:
            await asyncio.sleep(STRAYS_CHECK_S)
            remove = partial(remove_old_strays, runtime.files, TOPICS_DIRECTORY, runtime.clock.now_ms())
            try:
                removed = await run_blocking(runtime.workers, remove)
            except BrokerError as error:
                logger.error("cannot delete directories that were set aside; retrying in an hour: %s", error)
                continue
            for directory in removed:
                logger.info("deleted a directory that was set aside", extra={"directory": directory})

    async def stop(self) -> None:
        await self._tasks.stop()
        await self.scrub.stop()
        await self.repairs.stop()
        await self.following.stop()
        await self.leading.stop()
