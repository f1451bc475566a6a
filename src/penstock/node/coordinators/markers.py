"""Completes decided transactions: writes markers to the partitions and settles offsets in the groups. Decides nothing.

Idempotent: after a crash it is repeated, and skips what was done before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.core.errors import (
    BrokerError,
    NotCoordinator,
    NotLeader,
    StaleCoordinator,
    StaleProducer,
    UnknownTopic,
)
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.transactions.values import NO_TOPIC_ID, Enlisted, Transaction
from penstock.core.model import TopicPartition
from penstock.core.records.control import Marker
from penstock.node.coordinators.committed import CommittedOffsets
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.tasks import resolver

if TYPE_CHECKING:
    from penstock.node.coordinators.transaction_links import TransactionLinks

logger = logging.getLogger("penstock.transactions")

FindPartition = Callable[[str, int], Partition]


class Markers:
    """Writes transaction markers on one node."""

    def __init__(
        self,
        catalog: Catalog,
        find_partition: FindPartition,
        committed: CommittedOffsets,
        links: TransactionLinks | None = None,
    ) -> None:
        self._catalog = catalog
        self._links = links
        self._find_partition = find_partition
        self._committed = committed

    def enlist(self, place: TopicPartition) -> Enlisted:
        """The partition with its current topic id, for adding to a transaction. Raises UnknownTopic."""
        return Enlisted(*place, self._catalog.topic_with(*place).id)

    async def write(self, one: Transaction, coordinator_epoch: int) -> None:
        """Write the missing markers and wait until they are synced. Attempts all of them; raises the first error."""
        marker = Marker(one.is_commit, coordinator_epoch)
        work = [
            self._write_one(place, one.producer_id, one.producer_epoch, marker, is_bumped=one.is_v2)
            for place in one.partitions
        ]
        for error in [await work[0]] if len(work) == 1 else await asyncio.gather(*work):
            if error is not None:
                raise error

    async def _write_one(
        self, at: Enlisted, producer_id: int, epoch: int, marker: Marker, *, is_bumped: bool
    ) -> BrokerError | None:
        """End the transaction in one partition. Nothing to do if the partition was deleted or a later epoch wrote to
        it.

        A marker in a re-created topic would register the producer there without any batch, and its next sequence
        number would be rejected.
        """
        place = TopicPartition(at.topic, at.partition)
        try:
            if at.topic_id not in (NO_TOPIC_ID, self.enlist(place).topic_id):
                return None
            await self._end_anywhere(place, producer_id, epoch, marker, is_bumped=is_bumped)
        except UnknownTopic:
            return None
        except (StaleProducer, StaleCoordinator) as error:
            logger.warning(
                "transaction marker is obsolete, skipping it: %s",
                error,
                extra={"topic": at.topic, "partition": at.partition, "producer_id": producer_id},
            )
            return None
        except BrokerError as error:
            return error
        return None

    async def _end_anywhere(
        self, place: TopicPartition, producer_id: int, epoch: int, marker: Marker, *, is_bumped: bool
    ) -> None:
        """The same on the broker that leads the partition. Raises BrokerError."""
        try:
            await self.end(place, producer_id, epoch, marker, is_bumped=is_bumped)
        except (NotLeader, NotCoordinator) as error:
            leader_id = self._leader_elsewhere(place)
            if self._links is None or leader_id is None:
                raise error
            await self._links.end(leader_id, place, producer_id, epoch, marker, is_bumped=is_bumped)

    def _leader_elsewhere(self, place: TopicPartition) -> int | None:
        """The other broker that leads a partition; None if there is none."""
        try:
            self._find_partition(*place)
        except NotLeader as error:
            return error.leader_id if error.leader_id >= 0 else None
        return None

    async def end(
        self, place: TopicPartition, producer_id: int, epoch: int, marker: Marker, *, is_bumped: bool
    ) -> None:
        """End a producer's open transaction in a partition that this broker leads, and wait until the marker is synced;
        in a partition of the groups' topic settle its offsets. Raises BrokerError."""
        if place.topic == GROUPS_TOPIC:
            await self._settle_offsets(
                place.partition, producer_id, epoch, is_bumped=is_bumped, is_commit=marker.is_commit
            )
            return
        partition = self._find_partition(*place)
        appended = partition.append_marker(producer_id, epoch, marker, is_bumped=is_bumped)
        await partition.persisted(partition.end_offset if appended is None else appended.end_offset)

    async def _settle_offsets(
        self, index: int, producer_id: int, epoch: int, *, is_bumped: bool, is_commit: bool
    ) -> None:
        """Settle a producer's pending offsets on one partition of the groups' topic."""
        done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self._committed.settle(
            index, producer_id, epoch, is_bumped=is_bumped, is_commit=is_commit, settled=resolver(done)
        )
        error = await done
        if error is not None:
            raise error
