"""Settings that apply to topics without their own. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from penstock.core.model import Durability
from penstock.node.definitions.definition import (
    INT32_MAX,
    SettingKind,
    count_setting,
    define_setting,
    duration_setting,
    size_setting,
)

_GIB = 2**30
_DAY_MS = 86_400_000


@dataclass(frozen=True, init=False, repr=False, eq=False)
class TopicDefaults:
    """Defaults of every topic, and whether topics are created on demand."""

    durability: Durability = define_setting(
        SettingKind.CHOICE,
        "storage",
        Durability.FSYNC,
        "When a record is acknowledged: after fdatasync, or once written, with flushes at intervals or left to the "
        "operating system. Topics may override it.",
        choices=Durability,
        kafka="penstock.durability",
    )
    flush_interval_ms: int = duration_setting(
        "storage",
        1_000,
        "With durability `interval`: flush at least this often.",
        low=1,
        kafka="log.flush.interval.ms",
    )
    flush_messages: int = count_setting(
        "storage",
        0,
        "With durability `interval`: also flush after this many records; 0: no limit by count.",
        kafka="log.flush.interval.messages",
    )
    segment_bytes: int = size_setting(
        "storage",
        _GIB,
        "Maximum size of a segment; a batch that would exceed it starts the next segment.",
        low=SEGMENT_BYTES_MIN,
        high=SEGMENT_BYTES_MAX,
        kafka="log.segment.bytes",
    )
    segment_ms: int = duration_setting(
        "storage",
        7 * _DAY_MS,
        "Maximum age of the first record of a segment; then the next segment is started.",
        low=1,
        kafka="log.roll.ms",
    )
    index_interval_bytes: int = size_setting(
        "storage",
        4_096,
        "Bytes of log between two entries of a segment index.",
        high=INT32_MAX,
        kafka="log.index.interval.bytes",
    )
    retention_ms: int = duration_setting(
        "storage",
        7 * _DAY_MS,
        "Closed segments whose newest record is older than this are deleted; -1: never.",
        special=-1,
        kafka="log.retention.ms",
    )
    retention_bytes: int = size_setting(
        "storage",
        -1,
        "Maximum size of a partition; beyond it the oldest segments are deleted; -1: no limit.",
        special=-1,
        kafka="log.retention.bytes",
    )
    delete_retention_ms: int = duration_setting(
        "storage",
        _DAY_MS,
        "How long a compacted topic retains tombstones.",
        kafka="log.cleaner.delete.retention.ms",
    )
    auto_create_topics: bool = define_setting(
        SettingKind.SWITCH,
        "topics",
        True,
        "Create a missing topic when a client first uses it.",
        aliases=("topic_auto_create", "topics.auto_create"),
        kafka="auto.create.topics.enable",
    )
    default_partitions: int = count_setting(
        "topics",
        1,
        "Number of partitions of a topic that is created without one.",
        low=1,
        high=PARTITIONS_PER_TOPIC_MAX,
        kafka="num.partitions",
    )
    message_bytes_max: int = size_setting(
        "topics",
        1_048_588,
        "Maximum size of a batch; default for topics without their own setting.",
        high=INT32_MAX,
        aliases=("max_message_size",),
        kafka="message.max.bytes",
    )
