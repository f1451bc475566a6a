"""The registry of group kinds: how each is created and how its events are encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.core.machine import GroupKind, Records
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.classic_group.records import GROUP_RECORDS
from penstock.core.machines.classic_group.values import GroupLimits
from penstock.core.machines.consumer_group.group import ConsumerGroup, ConsumerGroupTerms
from penstock.core.machines.consumer_group.records import CONSUMER_GROUP_RECORDS
from penstock.core.machines.offsets.records import OFFSET_RECORDS
from penstock.core.machines.offsets.roster import MakeGroup
from penstock.core.resource_config import HEARTBEAT_MS, SESSION_MS
from penstock.node.coordinators.group_settings import GroupSettings

GroupOverrides = Callable[[str], Mapping[str, str]]
"""Returns the settings that override the defaults for one group, by Kafka's names."""


def group_kinds(
    settings: GroupSettings, overrides: GroupOverrides
) -> tuple[Mapping[GroupKind, MakeGroup], Records]:
    """Factories of each kind of group, and the codecs of all their events and of offsets."""
    limits = GroupLimits(
        session_ms_min=settings.group_session_ms_min,
        session_ms_max=settings.group_session_ms_max,
        initial_rebalance_ms=settings.group_initial_rebalance_ms,
        initial_rebalance_static_ms=settings.group_initial_rebalance_static_ms,
        size_max=settings.group_size_max,
    )
    kinds: Mapping[GroupKind, MakeGroup] = {
        GroupKind.CLASSIC: lambda group_id: Group(group_id, limits),
        GroupKind.CONSUMER: lambda group_id: ConsumerGroup(
            group_id, consumer_group_terms(settings, overrides(group_id))
        ),
    }
    return kinds, OFFSET_RECORDS | GROUP_RECORDS | CONSUMER_GROUP_RECORDS


def consumer_group_terms(settings: GroupSettings, overrides: Mapping[str, str]) -> ConsumerGroupTerms:
    """The terms of one consumer group: its own settings override the node's."""
    return ConsumerGroupTerms(
        session_ms=int(overrides.get(SESSION_MS, settings.consumer_group_session_ms)),
        heartbeat_ms=int(overrides.get(HEARTBEAT_MS, settings.consumer_group_heartbeat_ms)),
        size_max=settings.group_size_max,
        classic_session_ms_min=settings.group_session_ms_min,
        classic_session_ms_max=settings.group_session_ms_max,
    )
