"""Settings that apply to topics without their own. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.limits import PARTITIONS_PER_TOPIC_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from penstock.core.model import Durability
from penstock.node.definitions.definition import INT32_MAX, Kind, count, duration, setting, size

_GIB = 2**30
_DAY_MS = 86_400_000


@dataclass(frozen=True, init=False, repr=False, eq=False)
class TopicDefaults:
    """Defaults of every topic, and whether topics are created by being asked for."""

    durability: Durability = setting(
        Kind.CHOICE,
        "storage",
        Durability.FSYNC,
        "When a record counts as kept: after fdatasync, flushed at intervals, or handed to the operating "
        "system. Topics may differ.",
        choices=Durability,
        kafka="penstock.durability",
    )
    flush_interval_ms: int = duration(
        "storage",
        1_000,
        "With durability `interval`: flush at least this often.",
        low=1,
        kafka="log.flush.interval.ms",
    )
    flush_messages: int = count(
        "storage",
        0,
        "With durability `interval`: flush also after this many records; 0: never by count.",
        kafka="log.flush.interval.messages",
    )
    segment_bytes: int = size(
        "storage",
        _GIB,
        "A segment that would grow beyond this is closed and the next one started.",
        low=SEGMENT_BYTES_MIN,
        high=SEGMENT_BYTES_MAX,
        kafka="log.segment.bytes",
    )
    segment_ms: int = duration(
        "storage",
        7 * _DAY_MS,
        "A segment whose first record is older than this is closed.",
        low=1,
        kafka="log.roll.ms",
    )
    index_interval_bytes: int = size(
        "storage",
        4_096,
        "Bytes of log between two entries of a segment's index.",
        high=INT32_MAX,
        kafka="log.index.interval.bytes",
    )
    retention_ms: int = duration(
        "storage",
        7 * _DAY_MS,
        "Closed segments whose newest record is older than this are deleted; -1: kept forever.",
        special=-1,
        kafka="log.retention.ms",
    )
    retention_bytes: int = size(
        "storage",
        -1,
        "A partition larger than this loses its oldest segments; -1: no limit.",
        special=-1,
        kafka="log.retention.bytes",
    )
    delete_retention_ms: int = duration(
        "storage",
        _DAY_MS,
        "How long a compacted topic keeps a tombstone.",
        kafka="log.cleaner.delete.retention.ms",
    )
    auto_create_topics: bool = setting(
        Kind.SWITCH,
        "topics",
        True,
        "Create a topic when a client first asks for it.",
        aliases=("topic_auto_create", "topics.auto_create"),
        kafka="auto.create.topics.enable",
    )
    default_partitions: int = count(
        "topics",
        1,
        "Partitions of a topic that is created without saying how many.",
        low=1,
        high=PARTITIONS_PER_TOPIC_MAX,
        kafka="num.partitions",
    )
    message_bytes_max: int = size(
        "topics",
        1_048_588,
        "The largest batch that a topic accepts, unless the topic says otherwise.",
        high=INT32_MAX,
        aliases=("max_message_size",),
        kafka="message.max.bytes",
    )
