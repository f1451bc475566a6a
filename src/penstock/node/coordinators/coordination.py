"""All that coordinates groups on a node, put together: groups, offsets, and what ends by itself. Speaks no protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.core.machines.consumer_group_targets import Topics
from penstock.node.coordinators.classic_groups import ClassicGroups
from penstock.node.coordinators.committed import CommittedOffsets
from penstock.node.coordinators.consumer_groups import ConsumerGroups
from penstock.node.coordinators.group_settings import GroupSettings
from penstock.node.coordinators.groups import Groups, OpenTopic
from penstock.node.coordinators.kinds import GroupOverrides
from penstock.node.runtime import Runtime
from penstock.node.slices import finish

GROUPS_AT_ONCE = 200
"""How many groups are looked over before requests get their turn."""


class Coordination:
    """What the broker and the doors hold. `open` before use; until then nobody is coordinated here."""

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
        self.groups = Groups(settings, runtime, open_topic, overrides)
        self.classic = ClassicGroups(self.groups, runtime.rng, topics)
        self.consumer = ConsumerGroups(self.groups, runtime.rng, topics)
        self.committed = CommittedOffsets(self.groups, settings.offsets_retention_ms)
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self.groups.is_open

    async def open(self) -> None:
        """Read what is kept, or make room for it. Once it is open this costs nothing."""
        await self.groups.open()
        if self._sweeping is None:
            self._forget_lost_topics()
            self._sweeping = asyncio.create_task(self._sweep_forever(), name="offsets")

    def _forget_lost_topics(self) -> None:
        """Topics whose deletion was cut short before their offsets went too."""
        topics = {at.topic for shard in self.groups.shards for at in shard.roster.offsets.places}
        catalog = self._topics().catalog
        finish(self.committed.forget_topics({topic for topic in topics if catalog.find(topic) is None}))

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.offsets_check_ms / 1000)
            await self.sweep()

    async def sweep(self) -> None:
        """Let go of offsets and groups that nobody has used for long enough."""
        for shard in self.groups.shards:
            for count, group_id in enumerate(shard.roster.ids, start=1):
                self.committed.expire(shard, group_id)
                if count % GROUPS_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def release_waiting(self) -> None:
        """Answer every call that waits, because the door is closing."""
        self.groups.close()

    async def stop(self) -> None:
        self.groups.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
