"""The group coordinator of a node: groups, committed offsets, and their expiry. Speaks no protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping

from penstock.core.errors import BrokerError
from penstock.core.machines.consumer_group.targets import TopicCatalog, Topics
from penstock.core.model import TopicPartition
from penstock.node.coordinators.classic_groups import ClassicGroups
from penstock.node.coordinators.committed import CommittedOffsets
from penstock.node.coordinators.consumer_groups import ConsumerGroups
from penstock.node.coordinators.group_kinds import GroupOverrides
from penstock.node.coordinators.group_settings import GroupSettings
from penstock.node.coordinators.group_shard import GroupShard
from penstock.node.coordinators.groups import Groups, OpenTopic
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced

STOPPING = "the broker is stopping"
GROUPS_AT_ONCE = 200
"""Groups checked for expiry before requests get their turn."""


class GroupCoordinator:
    """The group coordinator. Call `open` before use; until then it coordinates no groups."""

    def __init__(
        self,
        settings: GroupSettings,
        runtime: Runtime,
        open_topic: OpenTopic,
        topics: Callable[[], Topics],
        overrides: GroupOverrides,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self.groups = Groups(
            settings, runtime, open_topic, overrides, self._forget_lost_topics, self._start_sweeping
        )
        self.classic = ClassicGroups(self.groups, runtime.rng, topics)
        self.consumer = ConsumerGroups(self.groups, runtime.rng, topics)
        self.committed = CommittedOffsets(self.groups, settings.offsets_retention_ms)
        self._sweeping: asyncio.Task[None] | None = None
        self.bounds_elsewhere: Mapping[TopicPartition, tuple[int, int] | BrokerError] = {}
        """First and end offsets of partitions of other brokers, as the last reader of metrics has learnt them."""

    @property
    def is_open(self) -> bool:
        return self.groups.is_open

    async def open(self) -> None:
        """Create the groups' topic if it is missing, and start to replay it. Does nothing if it is open.

        Until a partition is replayed, calls for its groups fail with Loading; `loaded` waits for all partitions.
        """
        await self.groups.open()

    def _start_sweeping(self) -> None:
        self._sweeping = asyncio.create_task(self._sweep_forever(), name="offsets")

    async def loaded(self) -> None:
        """Wait until every running replay has ended."""
        await self.groups.host.loaded()

    def _forget_lost_topics(self, shard: GroupShard) -> Sliced[None]:
        """Drop the offsets of topics that were deleted while this partition was not coordinated or being replayed."""
        yield from self.committed.forget_topics_of(
            shard, _LostTopics(self._topics().catalog, shard.gone_topics)
        )

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.offsets_check_ms / 1000)
            await self.sweep()

    async def sweep(self) -> None:
        """Remove expired offsets and empty groups."""
        for shard in self.groups.shards:
            for count, group_id in enumerate(shard.roster.ids, start=1):
                self.committed.expire(shard, group_id)
                if count % GROUPS_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def release_waiting(self) -> None:
        """Answer every call that waits for other members: the doors are closing."""
        self.groups.release(STOPPING)

    async def stop(self) -> None:
        self.groups.host.resign_all(STOPPING)
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)


class _LostTopics(Container[str]):
    """Topics that do not exist, and those deleted during the replay, even if their names are in use again."""

    def __init__(self, catalog: TopicCatalog, gone: Container[str]) -> None:
        self._catalog = catalog
        self._gone = gone

    def __contains__(self, topic: object) -> bool:
        return topic in self._gone or self._catalog.find(str(topic)) is None
