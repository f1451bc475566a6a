"""The shards of one internal topic: creates the topic, leads and resigns shards, finds the shard of a name.

Shards are independent: one may serve while another is being replayed or is coordinated elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar
from zlib import crc32

from penstock.core.errors import NotCoordinator
from penstock.node.coordinators.shard import Shard, Stage
from penstock.node.replicas.partition import Partition

ShardT = TypeVar("ShardT", bound=Shard[Any])


class ShardHost(Generic[ShardT]):
    """The shards that this node leads. Call `open` before use; until then there are none."""

    def __init__(
        self,
        open_topic: Callable[[], Awaitable[None]],
        make_shard: Callable[[Partition], ShardT],
        opened: Callable[[], None] = lambda: None,
    ) -> None:
        self._open_topic = open_topic
        self._make_shard = make_shard
        self._opened = opened
        """Called once the topic exists."""
        self._shards: list[ShardT | None] = []
        """By index; None where this node has never led the partition."""

    @property
    def is_open(self) -> bool:
        """Whether the topic exists, as far as this node knows."""
        return bool(self._shards)

    async def open(self) -> None:
        """Create the topic if it is missing. Partitions that this node leads are replayed: `loaded` waits for that."""
        if not self._shards:
            await self._open_topic()

    def expect(self, count: int) -> None:
        """The topic has this many partitions, wherever they are led."""
        is_new = not self._shards
        self._shards += [None] * (count - len(self._shards))
        if is_new:
            self._opened()

    def follow_role(self, partition: Partition) -> None:
        """This node began or ceased to lead a partition of the topic: lead or resign its shard."""
        shard = self._shards[partition.index]
        if partition.is_leader:
            if shard is None or shard.partition is not partition:
                shard = self._shards[partition.index] = self._make_shard(partition)
            self.lead(partition.index, partition.leader_epoch)
        else:
            self.resign(partition.index)

    def lead(self, index: int, epoch: int) -> None:
        """Lead one partition in this coordinator epoch."""
        shard = self._shards[index]
        assert shard is not None, f"this node does not hold partition {index}"
        shard.lead(epoch)

    def resign(self, index: int, why: str = "") -> None:
        """Stop leading one partition: waiting callers get NotCoordinator immediately."""
        shard = self._shards[index]
        if shard is not None:
            shard.resign(why)

    def resign_all(self, why: str) -> None:
        for shard in self.shards:
            shard.resign(why)

    async def loaded(self) -> None:
        """Wait until every running replay has ended."""
        for shard in self.shards:
            await shard.loaded()

    @property
    def shards(self) -> list[ShardT]:
        """Every shard that this node leads or has led."""
        return [shard for shard in self._shards if shard is not None]

    @property
    def led(self) -> list[ShardT]:
        """The shards that this node leads, also those that are still being replayed."""
        return [shard for shard in self.shards if shard.stage is not Stage.RESIGNED]

    @property
    def ready(self) -> list[ShardT]:
        """The shards that serve calls now."""
        return [shard for shard in self.shards if shard.is_ready]

    @property
    def partition_count(self) -> int:
        return len(self._shards)

    def index_of(self, name: str) -> int:
        """The partition of a name. Requires `open`."""
        return crc32(name.encode()) % len(self._shards)

    def find(self, name: str) -> ShardT | None:
        """The shard of a name; None if there is none on this node."""
        return self._shards[self.index_of(name)] if self._shards else None

    def get(self, index: int) -> ShardT:
        """The shard of a partition, whether or not it serves calls. Raises NotCoordinator."""
        shard = self._shards[index]
        if shard is None:
            raise NotCoordinator(f"partition {index} is coordinated by another broker")
        return shard

    def at(self, name: str) -> ShardT:
        """The shard of a name, whether or not it serves calls. Requires `open`. Raises NotCoordinator."""
        return self.get(crc32(name.encode()) % len(self._shards))

    def of(self, name: str) -> ShardT:
        """The shard of a name; raises NotCoordinator, Loading or Offline unless it serves calls."""
        shard = self.at(name)
        shard.check_ready()
        return shard
