"""The shards of one internal topic: makes the topic, leads and resigns shard by shard, finds the shard of a name.

Each shard leads by itself: one may serve while another is still being read or is coordinated elsewhere. Knows no
machine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar
from zlib import crc32

from penstock.node.coordinators.shard import Shard
from penstock.node.replicas.partition import Partition

ShardT = TypeVar("ShardT", bound=Shard[Any])


class ShardHost(Generic[ShardT]):
    """`open` before use; until then there are no shards."""

    def __init__(
        self, open_topic: Callable[[], Awaitable[list[Partition]]], make_shard: Callable[[Partition], ShardT]
    ) -> None:
        self._open_topic = open_topic
        self._make_shard = make_shard
        self.shards: list[ShardT] = []
        """One for each partition, by index, whether or not it leads."""

    @property
    def is_open(self) -> bool:
        return bool(self.shards)

    async def open(self) -> None:
        """Make the topic if it is not there, and start to lead all of it. Once it is open this costs nothing.

        Does not wait until the partitions are read: `loaded` does.
        """
        if self.shards:
            return
        partitions = await self._open_topic()
        if self.shards:
            return
        self.shards = [self._make_shard(partition) for partition in partitions]
        for index, partition in enumerate(partitions):
            self.lead(index, partition.leader_epoch)

    def lead(self, index: int, epoch: int) -> None:
        """Coordinate one partition, under this coordinator epoch."""
        self.shards[index].lead(epoch)

    def resign(self, index: int, why: str = "") -> None:
        """Coordinate one partition no longer: whoever waits there is told NotCoordinator at once."""
        self.shards[index].resign(why)

    def resign_all(self, why: str) -> None:
        for shard in self.shards:
            shard.resign(why)

    async def loaded(self) -> None:
        """Wait until every replay that is under way has ended."""
        for shard in self.shards:
            await shard.loaded()

    @property
    def ready(self) -> list[ShardT]:
        """The shards that serve calls now."""
        return [shard for shard in self.shards if shard.is_ready]

    def at(self, name: str) -> ShardT:
        """Where something of this name lives, whether or not that shard serves. There must be shards."""
        return self.shards[crc32(name.encode()) % len(self.shards)]

    def of(self, name: str) -> ShardT:
        """The same; raises NotCoordinator, Loading or Offline unless it serves calls now."""
        shard = self.at(name)
        shard.check_ready()
        return shard
