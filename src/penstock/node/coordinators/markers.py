"""Carrying out a decision: markers to the partitions of a transaction, and its offsets to their groups. Never decides.

May be repeated at any time: what was done before is left as it is, so a broker that died half way goes on where it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock.core.errors import BrokerError, StaleCoordinator, StaleProducer, UnknownTopic
from penstock.core.machines.transactions.values import NO_TOPIC_ID, Enlisted, Transaction
from penstock.core.model import TopicPartition
from penstock.core.records.control import Marker
from penstock.node.coordinators.committed import CommittedOffsets
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.tasks import resolver

logger = logging.getLogger("penstock.transactions")

FindPartition = Callable[[str, int], Partition]


class Markers:
    """Writes the markers of one node."""

    def __init__(self, find_partition: FindPartition, committed: CommittedOffsets) -> None:
        self._find_partition = find_partition
        self._committed = committed

    def enlist(self, place: TopicPartition) -> Enlisted:
        """The partition that has this name now, to be added to a transaction. Raises UnknownTopic."""
        return Enlisted(*place, self._find_partition(*place).topic_id)

    async def write(self, one: Transaction, coordinator_epoch: int) -> None:
        """Write what is missing and wait until it is on disk. Raises if some could not be; the rest is done then."""
        marker = Marker(one.is_commit, coordinator_epoch)
        work = [
            self.settle_offsets(place.partition, one.producer_id, is_commit=one.is_commit)
            if place.topic == GROUPS_TOPIC
            else self._write_one(place, one.producer_id, one.producer_epoch, marker, is_bumped=one.is_v2)
            for place in one.partitions
        ]
        for error in [await work[0]] if len(work) == 1 else await asyncio.gather(*work):
            if error is not None:
                raise error

    async def _write_one(
        self, at: Enlisted, producer_id: int, epoch: int, marker: Marker, *, is_bumped: bool
    ) -> BrokerError | None:
        """End the transaction in one partition. One that is gone, or where a later epoch wrote, has none open.

        A marker in a topic that was re-created would also make the producer known there, and without any batch: its
        next sequence number would be refused.
        """
        place = TopicPartition(at.topic, at.partition)
        try:
            if at.topic_id not in (NO_TOPIC_ID, self.enlist(place).topic_id):
                return None
            await self.end(place, producer_id, epoch, marker, is_bumped=is_bumped)
        except UnknownTopic:
            return None
        except (StaleProducer, StaleCoordinator) as error:
            logger.warning("a marker came too late: %s", error)
            return None
        except BrokerError as error:
            return error
        return None

    async def end(
        self, place: TopicPartition, producer_id: int, epoch: int, marker: Marker, *, is_bumped: bool
    ) -> None:
        """End what a producer has open in one partition and wait until that is on disk. Raises whatever forbids it."""
        partition = self._find_partition(*place)
        appended = partition.append_marker(producer_id, epoch, marker, is_bumped=is_bumped)
        await partition.sync_to(partition.end_offset if appended is None else appended.end_offset)

    async def settle_offsets(self, index: int, producer_id: int, *, is_commit: bool) -> BrokerError | None:
        """End what a producer has pending on one partition of the groups' topic; returns what stood in the way."""
        done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self._committed.settle(index, producer_id, is_commit=is_commit, settled=resolver(done))
        return await done
