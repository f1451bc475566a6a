"""The settings of topics: what is accepted, how it is written, where a value comes from."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from penstock.core import codecs
from penstock.core.errors import InvalidConfig
from penstock.core.inert_topic_settings import INERT_SETTINGS
from penstock.core.model import Durability
from penstock.core.replication_config import REPLICATION_SETTINGS
from penstock.core.topic_config import (
    BROKER_SETTINGS,
    SETTINGS,
    TimestampType,
    TopicConfig,
    check_together,
    describe,
    describe_broker,
    describe_coarse,
    resolve,
    validate,
    validate_broker,
)

LONG_MAX = str(2**63 - 1)
INERT = {definition.name for definition in INERT_SETTINGS}

KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "flush.messages": LONG_MAX,
    "index.interval.bytes": "4096",
    "max.compaction.lag.ms": LONG_MAX,
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": LONG_MAX,
    "message.timestamp.after.max.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "segment.jitter.ms": "0",
    "unclean.leader.election.enable": "false",
    # without an effect here
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.zstd.level": "3",
    "file.delete.delay.ms": "60000",
    "follower.replication.throttled.replicas": "",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "segment.index.bytes": "10485760",
}
OUR_DEFAULTS = {"penstock.validation": "full", "flush.ms": "1000", "penstock.durability": "fsync"}


def test_defaults_are_kafkas_except_where_we_say_otherwise() -> None:
    assert {
        name: definition.default for name, definition in SETTINGS.items()
    } == KAFKA_DEFAULTS | OUR_DEFAULTS


def test_every_default_is_valid_and_canonical() -> None:
    for name, definition in SETTINGS.items():
        assert validate(name, definition.default) == definition.default
        if definition.inherits:
            assert validate_broker(definition.inherits, definition.default) == definition.default
    check_together({}, {})


def test_every_setting_inherits_from_its_own_broker_setting_and_has_words() -> None:
    alone = {name for name, definition in SETTINGS.items() if not definition.inherits}
    assert alone == {name for name in INERT if name.startswith("remote.") or "throttled" in name}
    assert len(BROKER_SETTINGS) == len(SETTINGS) - len(alone) + len(REPLICATION_SETTINGS)
    assert len(SETTINGS) - len(INERT) == len(fields(TopicConfig)) - 1  # cleanup.policy fills two
    for definition in SETTINGS.values():
        assert definition.doc.endswith(".") and definition.allowed


@pytest.mark.parametrize(
    ("name", "written", "canonical"),
    [
        ("retention.ms", " 0100 ", "100"),
        ("retention.ms", "+5", "5"),
        ("retention.ms", "-1", "-1"),
        ("segment.bytes", "1024", "1024"),
        ("flush.messages", LONG_MAX, LONG_MAX),
        ("cleanup.policy", "compact", "compact"),
        ("cleanup.policy", "compact, delete", "compact,delete"),
        ("cleanup.policy", "delete,compact,delete", "delete,compact"),
        ("min.cleanable.dirty.ratio", "0.50", "0.5"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("min.cleanable.dirty.ratio", "1e-2", "0.01"),
        ("unclean.leader.election.enable", "TRUE", "true"),
        ("compression.type", "zstd", "zstd"),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("penstock.durability", "interval", "interval"),
    ],
)
def test_values_are_brought_to_one_form(name: str, written: str, canonical: str) -> None:
    assert validate(name, written) == canonical
    assert validate(name, canonical) == canonical


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", ""),
        ("retention.ms", "-2"),
        ("retention.ms", "1_000"),
        ("retention.ms", "1.5"),
        ("retention.ms", "٣"),
        ("retention.ms", "9223372036854775808"),
        ("retention.ms", "9" * 5000),
        ("segment.bytes", "1023"),
        ("segment.bytes", "2147483648"),
        ("segment.ms", "0"),
        ("flush.messages", "0"),
        ("max.message.bytes", "-1"),
        ("min.insync.replicas", "0"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,"),
        ("cleanup.policy", "shred"),
        ("compression.type", "none"),
        ("compression.type", "GZIP"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "-0.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "inf"),
        ("unclean.leader.election.enable", "yes"),
        ("message.timestamp.type", "createtime"),
        ("penstock.durability", "always"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        validate(name, value)
    words = str(raised.value)
    assert words.startswith(f"{name}: found ")
    assert SETTINGS[name].allowed in words
    assert len(words) < 300


def test_an_unknown_setting_gets_a_hint() -> None:
    with pytest.raises(
        InvalidConfig, match=r"is not a setting of Penstock topics; did you mean 'retention\.ms'"
    ):
        validate("retention.mss", "1")


@pytest.mark.parametrize(
    "name",
    [
        "message.downconversion.enable",
        "message.format.version",
        "x\nlevel=INFO forged",
        "y" * 100_000,
        "",
    ],
)
def test_what_kafka_does_not_know_either_is_not_accepted(name: str) -> None:
    with pytest.raises(InvalidConfig, match="is not a setting of Penstock topics") as raised:
        validate(name, "1")
    assert len(str(raised.value)) < 300 and "\n" not in str(raised.value)


@pytest.mark.parametrize("value", ["true", "TRUE", "perhaps", ""])
def test_tiered_storage_is_refused_with_the_reason(value: str) -> None:
    with pytest.raises(InvalidConfig, match="tiered storage is not supported"):
        validate("remote.storage.enable", value)
    assert validate("remote.storage.enable", " False ") == "false"


@pytest.mark.parametrize("value", ["*", "", "0:1", "0:1, 1:2"])
def test_throttled_replicas_are_all_or_pairs(value: str) -> None:
    written = value.replace(" ", "")
    assert validate("leader.replication.throttled.replicas", value) == written
    for bad in ("x", "0", "0:1,", "0:1;1:2", "-1:0"):
        with pytest.raises(InvalidConfig, match="partition:broker"):
            validate("follower.replication.throttled.replicas", bad)


def test_broker_settings_go_by_their_own_names() -> None:
    assert validate_broker("log.retention.ms", "5") == "5"
    with pytest.raises(InvalidConfig, match="did you mean 'log"):
        validate_broker("retention.ms", "5")


def test_defaults_resolve_to_typed_values() -> None:
    config = resolve({}, {})
    assert (config.cleanup_delete, config.cleanup_compact) == (True, False)
    assert config.compression_codec is None
    assert config.timestamp_type is TimestampType.CREATE_TIME
    assert config.durability is Durability.FSYNC
    assert config.retention_ms == 7 * 24 * 3600 * 1000
    assert config.dirty_ratio_min == 0.5
    assert config.unclean_election is False


def test_every_setting_reaches_the_resolved_config() -> None:
    other = {
        "cleanup.policy": "compact",
        "compression.type": "lz4",
        "message.timestamp.type": "LogAppendTime",
        "min.cleanable.dirty.ratio": "0.25",
        "unclean.leader.election.enable": "true",
        "penstock.durability": "os",
        "penstock.validation": "header",
    }
    plain = resolve({}, {})
    for name in SETTINGS.keys() - INERT:
        value = validate(name, other.get(name, "2222"))
        changed = resolve({name: value}, {})
        inherited = resolve({}, {SETTINGS[name].inherits: value})
        assert changed != plain, name
        assert changed == inherited, name


@pytest.mark.parametrize(
    ("word", "codec"),
    [("uncompressed", codecs.NONE), ("gzip", codecs.GZIP), ("snappy", 2), ("lz4", 3), ("zstd", 4)],
)
def test_compression_types_name_codecs(word: str, codec: int) -> None:
    assert resolve({"compression.type": word}, {}).compression_codec == codec


def test_a_topics_own_value_goes_before_the_brokers() -> None:
    broker = {"log.retention.ms": "7", "log.segment.bytes": "2048"}
    config = resolve({"retention.ms": "5"}, broker)
    assert (config.retention_ms, config.segment_bytes) == (5, 2048)


def test_a_resolved_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        resolve({}, {}).retention_ms = 1  # type: ignore[misc]


def test_describe_tells_every_setting_and_its_sources() -> None:
    changed, configured = (
        {"log.retention.ms": "7"},
        {"log.retention.ms": "8", "log.segment.bytes": "1073741824"},
    )
    entries = {entry.name: entry for entry in describe({"retention.ms": "5"}, changed, configured)}
    assert list(entries) == sorted(SETTINGS)
    retention = entries["retention.ms"]
    assert (retention.value, retention.source, retention.type) == ("5", "topic", "long")
    assert retention.synonyms == (
        ("retention.ms", "5", "topic"),
        ("log.retention.ms", "7", "changed"),
        ("log.retention.ms", "8", "configured"),
        ("log.retention.hours", "168", "default"),
    )
    assert entries["cleanup.policy"].value == "delete"
    assert entries["cleanup.policy"].source == "default"
    assert entries["segment.bytes"].source == "default", "configured as it would be anyway"
    (inherited,) = [e for e in describe({}, {}, configured) if e.name == "retention.ms"]
    assert (inherited.value, inherited.source) == ("8", "configured")


def test_describe_broker_tells_what_topics_inherit() -> None:
    entries = {
        entry.name: entry for entry in describe_broker({"log.retention.ms": "7"}, {"log.roll.ms": "9"})
    }
    assert list(entries) == sorted(BROKER_SETTINGS)
    assert (entries["log.retention.ms"].value, entries["log.retention.ms"].source) == ("7", "changed")
    assert entries["log.roll.ms"].synonyms == (
        ("log.roll.ms", "9", "configured"),
        ("log.roll.hours", "168", "default"),
    )
    jitter = entries["log.roll.jitter.ms"]
    assert (jitter.value, jitter.source, jitter.synonyms) == (None, "default", ()), "unset, as in Kafka"
    coarse = {entry.name: entry.value for entry in describe_coarse()}
    assert coarse == {"log.retention.hours": "168", "log.roll.hours": "168", "log.roll.jitter.hours": "0"}


def test_a_setting_without_a_broker_setting_has_its_default_only() -> None:
    entries = {entry.name: entry for entry in describe({"preallocate": "true"}, {}, {})}
    remote, own = entries["remote.storage.enable"], entries["preallocate"]
    assert (remote.value, remote.source, remote.synonyms) == ("false", "default", ())
    assert own.synonyms == (("preallocate", "true", "topic"), ("log.preallocate", "false", "default"))
    assert entries["retention.ms"].value == "604800000" and entries["retention.ms"].synonyms == ()


def test_lags_must_leave_room_between_them() -> None:
    overrides = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms is 10"):
        check_together(overrides, {})
    assert check_together(overrides | {"max.compaction.lag.ms": "10"}, {}).compaction_lag_ms_max == 10
    with pytest.raises(InvalidConfig, match="more than"):
        check_together({"min.compaction.lag.ms": "10"}, {"log.cleaner.max.compaction.lag.ms": "9"})


def test_flushing_at_intervals_needs_an_interval() -> None:
    never = {"penstock.durability": "interval", "flush.ms": LONG_MAX}
    with pytest.raises(InvalidConfig, match="when to flush"):
        check_together(never, {})
    assert check_together(never | {"flush.messages": "100"}, {}).flush_messages == 100
    assert check_together({"penstock.durability": "interval"}, {}).flush_ms == 1000
