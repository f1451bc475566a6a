"""Replicas of this broker that have failed: tells the metadata log, then opens them again and copies what is missing.

A replica whose disk failed or whose log is damaged leaves the ISR, the ELR and the leadership if another replica is
complete. Then its log is opened again: what verifies is retained, and what does not is set aside and copied from the
leader. If no other replica is complete, this one is not replaced: a damaged log is opened with what is readable of it,
and one whose disk failed stays offline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.partition_state import decide_replica_failed
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.replication.fetches import ReplicaIdentity
from penstock.node.replicas.damage import is_damage
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.meters import Meters
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.replicas")

RETRY_S_MIN, RETRY_S_MAX = 0.5, 60.0
"""Delays between attempts to repair a replica; they double. A disk that is read-only may take long."""
STEADY_S = 300.0
"""A replica that fails again after this time is repaired at once."""


class RepairableTable(Protocol):
    """The partitions of this broker."""

    def find_held(self, partition: PartitionId) -> Partition | None: ...

    async def reopen_failed(self, failed: Partition) -> None:
        """Open the log of a failed replica again, in its present role. Raises BrokerError if that fails."""

    async def reopen_damaged(self, failed: Partition) -> None:
        """Open a damaged log with what is readable of it. Raises BrokerError if that fails."""


class Repairs:
    """The failed replicas of one broker. Does nothing until it is active."""

    def __init__(
        self,
        catalog: Catalog,
        table: RepairableTable,
        identity: Callable[[], ReplicaIdentity],
        change: Callable[[Callable[[Catalog], Sequence[Event]]], Awaitable[None]],
        meters: Meters,
    ) -> None:
        self._meters = meters
        self._catalog = catalog
        self._table = table
        self._identity = identity
        self._change = change
        self._running: set[PartitionId] = set()
        self._delays: dict[PartitionId, tuple[float, float]] = {}
        """The delay before the next attempt, and when the last one was made."""
        self._tasks = Tasks()
        self._loop = asyncio.get_running_loop()
        self.is_active = False

    def start(self, partition: Partition) -> None:
        """Repair a replica that has failed, unless that is under way. One that waits for a descriptor or for disk space
        is opened again by the table."""
        place = PartitionId(partition.topic_id, partition.index)
        is_failed = partition.failure is not None and not partition.waits_to_open
        if self.is_active and is_failed and place not in self._running:
            self._running.add(place)
            self._tasks.spawn(self._repair(place))

    async def _repair(self, place: PartitionId) -> None:
        has_left = False
        try:
            while self.is_active and self._is_failed(place):
                delay_s = self._delay_s(place)
                try:
                    if not has_left or self._is_counted_on(place):
                        await self._leave(place)  # once: it starts a new leader epoch
                        has_left = True
                    if not self._others_are_complete(place):
                        await self._open_rest(place)
                        return
                    await asyncio.sleep(delay_s)
                    await self._open_again(place)
                except BrokerError as error:
                    logger.warning("cannot repair a replica; retrying in %.1f s: %s", delay_s, error)
                    await asyncio.sleep(delay_s)
        finally:
            self._running.discard(place)

    def _delay_s(self, place: PartitionId) -> float:
        """Before this attempt."""
        now_s = self._loop.time()
        delay_s, last_s = self._delays.get(place, (RETRY_S_MIN / 2, 0.0))
        delay_s = RETRY_S_MIN if now_s - last_s > STEADY_S else min(2 * delay_s, RETRY_S_MAX)
        self._delays[place] = delay_s, now_s
        return delay_s

    def _is_failed(self, place: PartitionId) -> bool:
        held = self._table.find_held(place)
        return held is not None and held.failure is not None

    def _placed(self, place: PartitionId) -> PartitionReplicas | None:
        return self._catalog.cluster.find_partition(place)

    def _others_are_complete(self, place: PartitionId) -> bool:
        placed, own_id = self._placed(place), self._identity().broker_id
        return placed is not None and bool({*placed.isr, *placed.elr} - {own_id})

    def _is_replaceable(self, place: PartitionId) -> bool:
        """Whether metadata does not count on this replica any more, and another one leads: until then its files may be
        the best that there are."""
        placed, own_id = self._placed(place), self._identity().broker_id
        if placed is None or own_id not in placed.replicas:
            return False
        return not self._is_counted_on(place) and placed.leader not in (NO_LEADER, own_id)

    def _is_counted_on(self, place: PartitionId) -> bool:
        """Whether this replica may be elected, as far as metadata know."""
        placed = self._placed(place)
        return placed is not None and self._identity().broker_id in (*placed.isr, *placed.elr)

    async def _leave(self, place: PartitionId) -> None:
        """Leave ISR, ELR and leadership."""

        def decide(catalog: Catalog) -> Sequence[Event]:
            placed, identity = catalog.cluster.find_partition(place), self._identity()
            if placed is None:
                return []
            return decide_replica_failed(catalog.cluster, *identity, place, placed.leader_epoch)

        await self._change(decide)

    async def _open_rest(self, place: PartitionId) -> None:
        """No other replica is complete: read on, with the records that are left."""
        held = self._table.find_held(place)
        if held is None or not is_damage(held.failure):
            return
        try:
            await self._table.reopen_damaged(held)
        except BrokerError as error:
            logger.error(
                "a damaged replica stays offline, because no other one is complete: restore its files, or start a"
                " broker that has another replica: %s",
                error,
                extra={"topic": held.topic, "partition": held.index},
            )

    async def _open_again(self, place: PartitionId) -> None:
        held = self._table.find_held(place)
        if held is None or held.failure is None or not self._is_replaceable(place):
            return
        await self._table.reopen_failed(held)
        self._meters.replica_repairs += 1
        logger.warning(
            "a failed replica was opened again; it copies what is missing from the leader",
            extra={"topic": held.topic, "partition": held.index},
        )

    async def stop(self) -> None:
        self.is_active = False
        await self._tasks.stop()
