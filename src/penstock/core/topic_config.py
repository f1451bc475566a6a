"""Definitions of the topic settings that have an effect: name, type, default, bounds, documentation. Stores no value.

A topic's own value (an *override*) takes precedence over the value of the broker setting that it inherits from, and
that over the default. Overrides are keyed by the topic setting's name (`retention.ms`), broker values by the broker
setting's name (`log.retention.ms`), as Kafka's tools show them. Kafka's settings without an effect are in
`inert_topic_settings`; they are accepted and described as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.core import codecs
from penstock.core.config_entry import ConfigEntry, Synonym, entry_of, inherited_synonyms
from penstock.core.errors import InvalidConfig
from penstock.core.inert_topic_settings import INERT_SETTINGS
from penstock.core.limits import SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from penstock.core.model import Durability
from penstock.core.replication_config import REPLICATION_SETTINGS
from penstock.core.setting import (
    INT32_MAX,
    INT64_MAX,
    Coarse,
    Kind,
    Setting,
    canonical_value,
    choice,
    find_setting,
    flag,
    list_of_choices,
    number,
    share,
)

NO_LIMIT = -1
"""The value of `retention.ms` and `retention.bytes` for unlimited retention."""

KEEP_CODEC = "producer"
"""The `compression.type` of topics that store each batch as its producer compressed it."""


class TimestampType(StrEnum):
    """Whether timestamps come from the producer or the broker."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class Validation(StrEnum):
    """How much of a produced batch is validated: every record, or only header and checksum."""

    FULL = "full"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The resolved settings of one topic, as the data path uses them."""

    cleanup_delete: bool
    cleanup_compact: bool
    compression_codec: int | None
    delete_retention_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    compaction_lag_ms_max: int
    compaction_lag_ms_min: int
    message_bytes_max: int
    timestamp_type: TimestampType
    timestamp_before_ms_max: int
    timestamp_after_ms_max: int
    dirty_ratio_min: float
    insync_replicas_min: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    unclean_election: bool
    durability: Durability
    validation: Validation


def validate(name: str, value: str) -> str:
    """The canonical form of a topic setting's value. InvalidConfig names the setting, the value and what is allowed."""
    return canonical_value(setting(name), name, value)


def validate_broker(name: str, value: str) -> str:
    """The same for a broker setting that topics inherit from."""
    return canonical_value(broker_setting(name), name, value)


def setting(name: str) -> Setting:
    """The definition of a topic setting by name."""
    return find_setting(SETTINGS, name, "topics")


def broker_setting(name: str) -> Setting:
    """The definition of the topic setting that inherits from this broker setting."""
    return find_setting(BROKER_SETTINGS, name, "brokers that topics inherit")


def resolve(overrides: Mapping[str, str], defaults: Mapping[str, str]) -> TopicConfig:
    """Resolve overrides over broker values over defaults, all of them validated, to typed values."""
    values = {name: _effective(definition, overrides, defaults) for name, definition in SETTINGS.items()}
    policies = values["cleanup.policy"].split(",")
    return TopicConfig(
        cleanup_delete="delete" in policies,
        cleanup_compact="compact" in policies,
        compression_codec=_CODECS[values["compression.type"]],
        delete_retention_ms=int(values["delete.retention.ms"]),
        flush_messages=int(values["flush.messages"]),
        flush_ms=int(values["flush.ms"]),
        index_interval_bytes=int(values["index.interval.bytes"]),
        compaction_lag_ms_max=int(values["max.compaction.lag.ms"]),
        compaction_lag_ms_min=int(values["min.compaction.lag.ms"]),
        message_bytes_max=int(values["max.message.bytes"]),
        timestamp_type=TimestampType(values["message.timestamp.type"]),
        timestamp_before_ms_max=int(values["message.timestamp.before.max.ms"]),
        timestamp_after_ms_max=int(values["message.timestamp.after.max.ms"]),
        dirty_ratio_min=float(values["min.cleanable.dirty.ratio"]),
        insync_replicas_min=int(values["min.insync.replicas"]),
        retention_bytes=int(values["retention.bytes"]),
        retention_ms=int(values["retention.ms"]),
        segment_bytes=int(values["segment.bytes"]),
        segment_ms=int(values["segment.ms"]),
        segment_jitter_ms=int(values["segment.jitter.ms"]),
        unclean_election=values["unclean.leader.election.enable"] == "true",
        durability=Durability(values["penstock.durability"]),
        validation=Validation(values["penstock.validation"]),
    )


def check_together(overrides: Mapping[str, str], defaults: Mapping[str, str]) -> TopicConfig:
    """Resolve, and reject values that are valid separately but not in combination."""
    config = resolve(overrides, defaults)
    if config.compaction_lag_ms_min > config.compaction_lag_ms_max:
        raise InvalidConfig(
            f"min.compaction.lag.ms is {config.compaction_lag_ms_min}, which is more than"
            f" max.compaction.lag.ms, {config.compaction_lag_ms_max}"
        )
    unlimited = config.flush_ms == INT64_MAX and config.flush_messages == INT64_MAX
    if config.durability is Durability.INTERVAL and unlimited:
        raise InvalidConfig(
            "penstock.durability is 'interval', but neither flush.ms nor flush.messages says when to flush;"
            " set one of them, or choose 'os'"
        )
    return config


def describe(
    overrides: Mapping[str, str], changed: Mapping[str, str], configured: Mapping[str, str]
) -> list[ConfigEntry]:
    """Every setting of a topic with value, source and synonyms, sorted by name."""
    entries = []
    for name in sorted(SETTINGS):
        definition = SETTINGS[name]
        synonyms = inherited_synonyms(definition, changed, configured)
        if name in overrides:
            synonyms.insert(0, Synonym(name, overrides[name], "topic"))
        entries.append(entry_of(name, definition, synonyms, definition.default))
    return entries


def describe_broker(changed: Mapping[str, str], configured: Mapping[str, str]) -> list[ConfigEntry]:
    """The same for the broker settings that topics inherit. One that has a coarser unit is unset unless configured."""
    return [
        entry_of(name, definition, inherited_synonyms(definition, changed, configured), None)
        for name, definition in sorted(BROKER_SETTINGS.items())
    ]


def describe_coarse() -> list[ConfigEntry]:
    """The broker settings in coarser units, whose values apply where the finer ones are unset."""
    return [
        ConfigEntry(
            twin.name, twin.value, "default", Kind.INT, f"Default of {name}.", (Synonym(*twin, "default"),)
        )
        for name, definition in sorted(BROKER_SETTINGS.items())
        if (twin := definition.coarse) is not None
    ]


def _effective(definition: Setting, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> str:
    value = overrides.get(definition.name)
    return value if value is not None else defaults.get(definition.inherits, definition.default)


_long_from_limitless = number(Kind.LONG, NO_LIMIT, INT64_MAX)
_long_from_0 = number(Kind.LONG, 0, INT64_MAX)
_long_from_1 = number(Kind.LONG, 1, INT64_MAX)
_int_from_0 = number(Kind.INT, 0, INT32_MAX)
_int_from_1 = number(Kind.INT, 1, INT32_MAX)
_int_of_segment = number(Kind.INT, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)

_CODECS: dict[str, int | None] = {
    KEEP_CODEC: None,
    "uncompressed": codecs.NONE,
    "gzip": codecs.GZIP,
    "snappy": codecs.SNAPPY,
    "lz4": codecs.LZ4,
    "zstd": codecs.ZSTD,
}

_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS

_ALL = (
    list_of_choices(
        "cleanup.policy",
        "log.cleanup.policy",
        ("delete", "compact"),
        "How records go: segments by age and size (delete), all but the last of a key (compact), or both.",
    ),
    choice(
        "compression.type",
        "compression.type",
        tuple(_CODECS),
        "How batches are stored: as their producer packed them, or unpacked and packed again this way.",
    ),
    _long_from_0(
        "delete.retention.ms",
        "log.cleaner.delete.retention.ms",
        _DAY_MS,
        "How long a compacted topic keeps the record that says that a key is gone.",
    ),
    _long_from_1(
        "flush.messages",
        "log.flush.interval.messages",
        INT64_MAX,
        "With penstock.durability=interval: flush after this many records, whatever the time.",
    ),
    _long_from_0(
        "flush.ms",
        "log.flush.interval.ms",
        1_000,
        "With penstock.durability=interval: the longest that a record waits to be flushed.",
    ),
    _int_from_0(
        "index.interval.bytes",
        "log.index.interval.bytes",
        4_096,
        "How many bytes of log lie between two entries of the sparse index.",
    ),
    _long_from_1(
        "max.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        INT64_MAX,
        "The longest that a record may stay uncompacted on a compacted topic.",
    ),
    _int_from_0(
        "max.message.bytes",
        "message.max.bytes",
        1_048_588,
        "The largest batch that may be appended, as packed by its producer.",
    ),
    choice(
        "message.timestamp.type",
        "log.message.timestamp.type",
        tuple(item.value for item in TimestampType),
        "Whose clock the timestamps come from: the producer's or the broker's.",
    ),
    _long_from_0(
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        INT64_MAX,
        "How far a producer's timestamp may lie before the broker's clock.",
    ),
    _long_from_0(
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        _HOUR_MS,
        "How far a producer's timestamp may lie after the broker's clock.",
    ),
    share(
        "min.cleanable.dirty.ratio",
        "log.cleaner.min.cleanable.ratio",
        0.5,
        "The share of a log that must be uncompacted before compaction is worth its cost.",
    ),
    _long_from_0(
        "min.compaction.lag.ms",
        "log.cleaner.min.compaction.lag.ms",
        0,
        "How long a record stays untouched by compaction at least.",
    ),
    _int_from_1(
        "min.insync.replicas",
        "min.insync.replicas",
        1,
        "How many replicas must have a record before acks=all is answered.",
    ),
    _long_from_limitless(
        "retention.bytes",
        "log.retention.bytes",
        NO_LIMIT,
        "How large a partition may grow before its oldest segments go; -1: no limit.",
    ),
    _long_from_limitless(
        "retention.ms",
        "log.retention.ms",
        7 * _DAY_MS,
        "How old a record may grow before its segment goes; -1: no limit.",
        Coarse("log.retention.hours", "168"),
    ),
    _int_of_segment(
        "segment.bytes",
        "log.segment.bytes",
        2**30,
        "The size at which a segment is closed and the next one started.",
    ),
    _long_from_1(
        "segment.ms",
        "log.roll.ms",
        7 * _DAY_MS,
        "The age at which a segment is closed even if it is not full.",
        Coarse("log.roll.hours", "168"),
    ),
    _long_from_0(
        "segment.jitter.ms",
        "log.roll.jitter.ms",
        0,
        "The most by which segment.ms is shortened, by chance, so that not all logs roll at once.",
        Coarse("log.roll.jitter.hours", "0"),
    ),
    flag(
        "unclean.leader.election.enable",
        "unclean.leader.election.enable",
        "Whether a replica that missed records may lead when no other is left, losing those records.",
    ),
    choice(
        "penstock.durability",
        "penstock.durability",
        tuple(item.value for item in Durability),
        "When a record counts as kept: after fdatasync, flushed at intervals, or once the system has it.",
    ),
    choice(
        "penstock.validation",
        "penstock.validation",
        tuple(item.value for item in Validation),
        "What is checked of a produced batch: every record (full), or only the batch header and checksum (header).",
    ),
)

SETTINGS: dict[str, Setting] = {definition.name: definition for definition in _ALL + INERT_SETTINGS}
"""All topic settings by name."""

BROKER_SETTINGS: dict[str, Setting] = {
    definition.inherits: definition for definition in _ALL + INERT_SETTINGS if definition.inherits
} | REPLICATION_SETTINGS
"""The same definitions by the broker setting that each inherits from, and the settings of replication."""
