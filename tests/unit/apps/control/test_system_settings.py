"""The settings file of a whole system: sections of the coordinator and the services, and what is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.apps.control.system_settings import SystemSettings, load_system, service_flags
from penstock.apps.gateways.settings import ConsumerSettings, ProducerSettings
from penstock.core.model import Storage
from penstock.node.settings_loader import SettingsError, load_settings

FILE = """
coordinator:
  port: 8080
  console_port: off
  broker_count: 3
  broker_executable: ./bin/broker
broker:
  base_port: 19092
  data_dir: ./data
  storage: memory
topics:
  default_partitions: 10
  replication_factor: 2
consumer:
  session_timeout_ms: 12s
  heartbeat_interval_ms: 3000
producer:
  batch_size: 16k
  lingerMs: 100
nodejs_writer:
  port: 3001
  producer_url: localhost:9093
nodejs_reader:
  port: 3002
  consumer_url: localhost:9094
"""


def write(home: Path, text: str) -> str:
    path = home / "config.yaml"
    path.write_text(text)
    return str(path)


def test_brokers_coordinator_and_services_read_one_file(tmp_path: Path) -> None:
    loaded, system = load_system(write(tmp_path, FILE), {}, {"default_partitions": 4})
    settings, sources = loaded.settings, loaded.sources
    assert (settings.port, settings.storage, settings.default_replication_factor) == (
        19092,
        Storage.MEMORY,
        2,
    )
    assert settings.default_partitions == 4, "flags override the file"
    assert sources["default_replication_factor"].endswith("topics.replication_factor")
    assert system == SystemSettings(
        broker_count=3,
        api_port=8080,
        console_port=None,
        broker_executable="./bin/broker",
        producer=ProducerSettings(batch_bytes_max=16_384, linger_ms=100),
        consumer=ConsumerSettings(session_ms=12_000),
    )
    assert service_flags(system.producer) == ["--linger-ms=100", "--batch-bytes=16384"]
    assert service_flags(ConsumerSettings()) == []


def test_without_a_file_the_defaults_hold() -> None:
    loaded, system = load_system(None, {}, {})
    assert loaded == load_settings() and system == SystemSettings()
    assert (system.broker_count, system.api_port, system.console_port) == (5, 8080, 8081)


def test_a_single_broker_does_not_take_the_sections(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="coordinator: is not supported here"):
        load_settings(write(tmp_path, FILE))


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    text = """
coordinator: {port: 70000, broker_count: 0, size: 3}
producer: 12
consumer: {session_timeout_ms: 6000, heartbeat_interval_ms: 500}
nodejs_writer: {url: a}
broker: {storage: tape}
other: {}
"""
    with pytest.raises(SettingsError) as caught:
        load_system(write(tmp_path, text), {}, {})
    told = [str(problem).partition("config.yaml: ")[2] for problem in caught.value.problems]
    assert told == [
        "broker.storage: found 'tape'; allowed: disk or memory",
        "other: unknown section",
        "coordinator.port: found 70000; allowed: a port from 0 to 65535, 0 for a free one, or off",
        "coordinator.broker_count: found 0; allowed: a whole number from 1 to 64",
        "coordinator.size: unknown setting; allowed: port, console_port, broker_count, broker_executable",
        "producer: found 12; allowed: a mapping with batch_size, linger_ms",
        "nodejs_writer.url: unknown setting; allowed: port, producer_url",
        "consumer.heartbeat_interval_ms: found 500; allowed: from 2000, the interval that is used with this"
        " session_timeout_ms, to 5999; a shorter session_timeout_ms makes heartbeats more frequent",
    ]


def test_a_file_that_cannot_be_read_is_reported_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_system(str(tmp_path / "none.yaml"), {}, {})
    assert len(caught.value.problems) == 1
