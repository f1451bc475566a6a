"""Counts the elections that made this broker a leader, and reports those in which records may have been lost."""

from __future__ import annotations

import logging

from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.model import PartitionId

logger = logging.getLogger("penstock.cluster")


class Elections:
    """Elections since this broker has joined. The first leader of a new partition is not elected."""

    def __init__(self, catalog: Catalog, broker_id: int) -> None:
        self._catalog = catalog
        self._broker_id = broker_id
        self._placed: dict[PartitionId, PartitionReplicas] | None = None
        self.clean = 0
        """The new leader was in the ISR or the ELR."""
        self.unclean = 0

    def start(self) -> None:
        self._placed = {one.id: one for one in self._catalog.cluster.partitions()}

    def follow(self, after: PartitionReplicas) -> None:
        """A partition was placed or changed."""
        if self._placed is None:
            return
        before, self._placed[after.id] = self._placed.get(after.id), after
        if before is None or after.leader in (NO_LEADER, before.leader) or after.leader != self._broker_id:
            return
        if after.leader in before.isr or after.leader in before.elr or not after.is_recovering:
            self.clean += 1
            return
        self.unclean += 1
        topic = self._catalog.find_by_id(after.topic_id)
        logger.error(
            "this broker leads partition %d of %s although records may be missing here: no replica that has all of"
            " them is available, and an unclean election was allowed",
            after.partition,
            "a deleted topic" if topic is None else topic.name,
            extra={
                "topic": topic and topic.name,
                "partition": after.partition,
                "leader_epoch": after.leader_epoch,
            },
        )

    def forget(self, partition: PartitionId) -> None:
        """A partition was deleted."""
        if self._placed is not None:
            self._placed.pop(partition, None)
