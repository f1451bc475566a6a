"""The shards of one internal topic: creates the topic, leads and resigns shards, finds the shard of a name.

Shards are independent: one may serve while another is being replayed or is coordinated elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar
from zlib import crc32

from penstock.node.coordinators.shard import Shard
from penstock.node.replicas.partition import Partition

ShardT = TypeVar("ShardT", bound=Shard[Any])


class ShardHost(Generic[ShardT]):
    """Call `open` before use; until then there are no shards."""

    def __init__(
        self, open_topic: Callable[[], Awaitable[list[Partition]]], make_shard: Callable[[Partition], ShardT]
    ) -> None:
        self._open_topic = open_topic
        self._make_shard = make_shard
        self.shards: list[ShardT] = []
        """One per partition, by index, whether or not it leads."""

    @property
    def is_open(self) -> bool:
        return bool(self.shards)

    async def open(self) -> None:
        """Create the topic if it is missing, and start to lead all of its partitions. Does nothing if it is open.

        Does not wait for the replay: `loaded` does.
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
        """Lead one partition in this coordinator epoch."""
        self.shards[index].lead(epoch)

    def resign(self, index: int, why: str = "") -> None:
        """Stop leading one partition: waiting callers get NotCoordinator immediately."""
        self.shards[index].resign(why)

    def resign_all(self, why: str) -> None:
        for shard in self.shards:
            shard.resign(why)

    async def loaded(self) -> None:
        """Wait until every running replay has ended."""
        for shard in self.shards:
            await shard.loaded()

    @property
    def ready(self) -> list[ShardT]:
        """The shards that serve calls now."""
        return [shard for shard in self.shards if shard.is_ready]

    def at(self, name: str) -> ShardT:
        """The shard of a name, whether or not it serves calls. Requires `open`."""
        return self.shards[crc32(name.encode()) % len(self.shards)]

    def of(self, name: str) -> ShardT:
        """The shard of a name; raises NotCoordinator, Loading or Offline unless it serves calls."""
        shard = self.at(name)
        shard.check_ready()
        return shard
