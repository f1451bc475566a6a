"""Settings of consumer groups and their committed offsets. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX
from penstock.node.definitions.definition import INT32_MAX, count_setting, duration_setting

_DAY_MS = 86_400_000


@dataclass(frozen=True, init=False, repr=False, eq=False)
class GroupSettings:
    """Limits and retention of the group coordinator."""

    group_session_ms_min: int = duration_setting(
        "groups",
        6_000,
        "Minimum session timeout that a member of a classic group may request.",
        low=1,
        high=INT32_MAX,
        kafka="group.min.session.timeout.ms",
    )
    group_session_ms_max: int = duration_setting(
        "groups",
        1_800_000,
        "Maximum session timeout that a member of a classic group may request.",
        low=1,
        high=INT32_MAX,
        kafka="group.max.session.timeout.ms",
    )
    group_initial_rebalance_ms: int = duration_setting(
        "groups",
        150,
        "How long an empty classic group waits for more members, counted from the last join.",
        high=INT32_MAX,
        kafka="group.initial.rebalance.delay.ms",
    )
    group_initial_rebalance_static_ms: int = duration_setting(
        "groups",
        1_000,
        "The same once a static member (group.instance.id) has joined; the longer of the two applies.",
        high=INT32_MAX,
    )
    group_size_max: int = count_setting(
        "groups",
        10_000,
        "Maximum number of members of a group.",
        low=1,
        high=INT32_MAX,
        kafka="group.max.size",
    )
    consumer_group_session_ms: int = duration_setting(
        "groups",
        45_000,
        "Session timeout of consumer group members (protocol with server-side assignment).",
        low=1,
        high=INT32_MAX,
        kafka="group.consumer.session.timeout.ms",
    )
    consumer_group_heartbeat_ms: int = duration_setting(
        "groups",
        5_000,
        "Heartbeat interval of consumer group members; they learn of a change with their next heartbeat.",
        low=1,
        high=INT32_MAX,
        kafka="group.consumer.heartbeat.interval.ms",
    )
    group_topic_partitions: int = count_setting(
        "groups",
        8,
        "Number of partitions of the topic that stores groups and offsets; applies when the topic is created.",
        low=1,
        high=PARTITIONS_PER_TOPIC_MAX,
        kafka="offsets.topic.num.partitions",
    )
    offsets_retention_ms: int = duration_setting(
        "groups",
        7 * _DAY_MS,
        "How long offsets are retained after their group became empty, or after the commit if it never had members.",
        low=1,
    )
    offsets_check_ms: int = duration_setting(
        "groups",
        600_000,
        "How often offsets and empty groups are checked for expiry.",
        low=1,
        kafka="offsets.retention.check.interval.ms",
    )
