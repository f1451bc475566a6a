"""The groups of a node, of any kind, and the shards that they live on. Speaks no protocol.

Groups live on the partitions of the internal topic `__consumer_offsets`, by a hash of their id. The topic is created
when the first client looks up a coordinator. Each group protocol has its own module (`classic_groups`, …), as have
committed offsets (`committed`); all of them go through a shard's `commit`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.core.errors import (
    BrokerError,
    CoordinatorUnavailable,
    InvalidGroup,
    NotCoordinator,
    UnknownGroup,
)
from penstock.core.limits import GROUP_RECORD_BYTES_MAX
from penstock.core.machine import Decision, GroupKind, GroupMachine
from penstock.core.machines.consumer_group.group import ConsumerGroup
from penstock.core.machines.offsets.roster import Roster
from penstock.node.coordinators.group_kinds import GroupOverrides, consumer_group_terms, group_kinds
from penstock.node.coordinators.group_settings import GroupSettings
from penstock.node.coordinators.group_shard import Answered, GroupShard
from penstock.node.coordinators.shard_host import ShardHost
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced, chunks, run_unsliced

TOPIC = "__consumer_offsets"
TOPIC_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 << 20),
    "max.message.bytes": str(GROUP_RECORD_BYTES_MAX),
    "compression.type": "producer",
    "penstock.durability": "fsync",
}

OpenTopic = Callable[[str, int, Mapping[str, str]], Awaitable[None]]


class ListedGroup(NamedTuple):
    """One entry of a group listing."""

    group_id: str
    kind: GroupKind
    protocol_type: str
    state_name: str


class Groups:
    """Every group of this node. Call `open` before use; until then there is no coordinator."""

    def __init__(
        self,
        settings: GroupSettings,
        runtime: Runtime,
        open_topic: OpenTopic,
        overrides: GroupOverrides,
        settle_offsets: Callable[[GroupShard], Sliced[None]],
        opened: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._overrides = overrides
        self._runtime = runtime
        self._settle_offsets = settle_offsets
        self._kinds, self._records = group_kinds(settings, overrides)
        self.host: ShardHost[GroupShard] = ShardHost(
            lambda: open_topic(TOPIC, settings.group_topic_partitions, TOPIC_CONFIG), self._make_shard, opened
        )

    def _make_shard(self, partition: Partition) -> GroupShard:
        return GroupShard(
            partition, lambda: Roster(self._kinds), self._records, self._runtime, self._settle_offsets
        )

    @property
    def is_open(self) -> bool:
        return self.host.is_open

    async def open(self) -> None:
        """Create the topic if it is missing, and start to replay it. Does nothing if it is open."""
        await self.host.open()

    def configure(self, group_id: str) -> None:
        """Apply changed settings to a group; members learn of them with their next heartbeat."""
        shard = self.host.find(group_id)
        group = None if shard is None else shard.roster.find(group_id)
        if isinstance(group, ConsumerGroup):
            group.terms = consumer_group_terms(self._settings, self._overrides(group_id))

    def release(self, why: str) -> None:
        """Answer every call that waits for other members."""
        for shard in self.host.shards:
            shard.release(NotCoordinator(why))

    @property
    def shards(self) -> Sequence[GroupShard]:
        """The shards that serve calls now."""
        return self.host.ready

    def shard_of(self, group_id: str) -> GroupShard:
        """The shard of a group id, whether or not the group exists. Raises unless the shard serves calls."""
        if not self.host.is_open:
            raise CoordinatorUnavailable("the group coordinator is not running yet")
        return self.host.of(group_id)

    def find(self, group_id: str) -> GroupMachine | None:
        """The group with this id, of any kind."""
        return self.shard_of(group_id).roster.find(group_id)

    def list(self) -> list[ListedGroup]:
        """Every group that this node coordinates, sorted by id."""
        return [*run_unsliced(self.list_sliced())]

    def list_sliced(self) -> Sliced[Sequence[ListedGroup]]:
        """The same in slices; groups that are created or removed meanwhile may be missing."""
        listed = []
        for shard in self.host.led:
            shard.check_ready()
            for group_ids in chunks(tuple(shard.roster.ids)):
                for group_id in group_ids:
                    group = shard.roster.find(group_id)
                    if group is not None:
                        listed.append(
                            ListedGroup(group_id, group.kind, group.protocol_type or "", group.state_name)
                        )
                yield len(group_ids) // 2
        return sorted(listed)

    def describe(self, group_id: str, kind: GroupKind, answered: Answered[Any]) -> None:
        """Answered with the group, which is valid during the callback only; UnknownGroup if there is none of this
        kind."""
        try:
            shard = self.shard_of(group_id)
            group = shard.roster.find(group_id)
            if group is None:
                raise UnknownGroup(f"Group {group_id} not found.")
            if group.kind is not kind:
                raise UnknownGroup(f"Group {group_id} is not a {kind} group.")
        except BrokerError as error:
            answered(error)
            return
        shard.commit(group_id, Decision(answer=group), answered)

    def remove(self, group_id: str, answered: Answered[None]) -> None:
        """Delete a group without members, with its offsets."""
        try:
            shard = self.shard_of(check_group_id(group_id))
            group = shard.roster.find(group_id)
            if group is None:
                raise UnknownGroup(f"there is no group {group_id!r}")
            events = [*shard.roster.offsets.decide_remove_group(group_id), *group.decide_remove()]
        except BrokerError as error:
            answered(error)
            return
        shard.commit(group_id, Decision(events), answered)


def check_group_id(group_id: str) -> str:
    """Kafka's only rule for group ids."""
    if not group_id:
        raise InvalidGroup("a group id cannot be empty")
    return group_id
