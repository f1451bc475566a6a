"""Settings of consumer groups and their committed offsets. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX
from penstock.node.definitions.definition import INT32_MAX, count, duration

_DAY_MS = 86_400_000


@dataclass(frozen=True, init=False, repr=False, eq=False)
class GroupSettings:
    """What the group coordinator allows and how long it remembers."""

    group_session_ms_min: int = duration(
        "groups",
        6_000,
        "The shortest session that a member of a classic group may ask for.",
        low=1,
        high=INT32_MAX,
        kafka="group.min.session.timeout.ms",
    )
    group_session_ms_max: int = duration(
        "groups",
        1_800_000,
        "The longest session that a member of a classic group may ask for.",
        low=1,
        high=INT32_MAX,
        kafka="group.max.session.timeout.ms",
    )
    group_initial_rebalance_ms: int = duration(
        "groups",
        150,
        "How long a classic group that was empty waits for more members, counted from the last one that joined.",
        high=INT32_MAX,
        kafka="group.initial.rebalance.delay.ms",
    )
    group_initial_rebalance_static_ms: int = duration(
        "groups",
        1_000,
        "The same once a static member (group.instance.id) has joined; the longer of the two counts.",
        high=INT32_MAX,
    )
    group_size_max: int = count(
        "groups",
        10_000,
        "Members of one group.",
        low=1,
        high=INT32_MAX,
        kafka="group.max.size",
    )
    consumer_group_session_ms: int = duration(
        "groups",
        45_000,
        "How long a member of a consumer group (the protocol in which the broker assigns) may be silent.",
        low=1,
        high=INT32_MAX,
        kafka="group.consumer.session.timeout.ms",
    )
    consumer_group_heartbeat_ms: int = duration(
        "groups",
        5_000,
        "How often members of consumer groups are told to send a heartbeat; changes reach them with the next one.",
        low=1,
        high=INT32_MAX,
        kafka="group.consumer.heartbeat.interval.ms",
    )
    group_topic_partitions: int = count(
        "groups",
        8,
        "Partitions of the topic that keeps groups and offsets; counts when it is first made.",
        low=1,
        high=PARTITIONS_PER_TOPIC_MAX,
        kafka="offsets.topic.num.partitions",
    )
    offsets_retention_ms: int = duration(
        "groups",
        7 * _DAY_MS,
        "How long offsets are kept after their group has become empty, or after the commit if it never had members.",
        low=1,
    )
    offsets_check_ms: int = duration(
        "groups",
        600_000,
        "How often offsets and empty groups are looked over for what may go.",
        low=1,
        kafka="offsets.retention.check.interval.ms",
    )
