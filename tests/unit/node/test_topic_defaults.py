"""The settings that topics inherit, in Kafka's words."""

from __future__ import annotations

from penstock.core.model import Durability
from penstock.core.topic_config import BROKER_SETTINGS, resolve, validate_broker
from penstock.node.settings import Settings
from penstock.node.topic_defaults import inherited_settings, kafka_text


def test_every_inherited_value_is_one_that_topics_accept() -> None:
    inherited = inherited_settings(Settings(flush_messages=7))
    assert set(inherited) <= set(BROKER_SETTINGS)
    assert {name: validate_broker(name, value) for name, value in inherited.items()} == inherited


def test_what_the_node_says_is_what_a_silent_topic_does() -> None:
    settings = Settings(durability=Durability.OS, segment_bytes=5_000, retention_ms=-1, message_bytes_max=777)
    config = resolve({}, inherited_settings(settings))
    assert (config.durability, config.segment_bytes, config.retention_ms, config.message_bytes_max) == (
        Durability.OS,
        5_000,
        -1,
        777,
    )


def test_no_flush_by_count_is_what_kafka_calls_a_count_that_is_never_reached() -> None:
    assert "log.flush.interval.messages" not in inherited_settings(Settings(flush_messages=0))
    assert inherited_settings(Settings(flush_messages=9))["log.flush.interval.messages"] == "9"
    assert resolve({}, inherited_settings(Settings(flush_messages=0))).flush_messages > 2**40


def test_values_are_written_as_kafkas_tools_write_them() -> None:
    values = (True, False, Durability.FSYNC, 5, "x")
    assert [kafka_text(value) for value in values] == ["true", "false", "fsync", "5", "x"]
