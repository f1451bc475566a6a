"""Files of other brokers: what makes one, what its keys mean, and which file is found without being named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.core.model import Durability
from penstock.node.file_shapes import QUEUE_SHAPE, TEXT_SHAPE, recognise
from penstock.node.settings_loader import (
    LoadedSettings,
    SettingsError,
    find_settings_file,
    load_settings,
)

TEXT: dict[str, Any] = {"server": {"host": "localhost", "port": 4222}, "storage": {"dir": "./here"}}
QUEUE: dict[str, Any] = {
    "server": {"host": "127.0.0.1", "port": 9998, "heartbeat_interval": 20},
    "storage": {"data_dir": "./storage/data", "fsync_on_write": True},
    "client": {"request_timeout": 30, "heartbeat_interval": 30},
}


def load(tmp_path: Path, document: object, name: str = "config.json") -> LoadedSettings:
    file = tmp_path / name
    file.write_text(json.dumps(document))
    return load_settings(str(file))


def problem(tmp_path: Path, document: object) -> str:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, document)
    (found,) = caught.value.problems
    return str(found)


def test_the_port_of_a_file_for_the_text_protocol(tmp_path: Path) -> None:
    loaded = load(tmp_path, TEXT)
    assert (loaded.settings.text_port, loaded.settings.port) == (4222, 9092)
    assert (loaded.settings.host, loaded.settings.data_dir) == ("localhost", "./here")
    (note,) = loaded.notes
    assert "server.port sets text_port" in note


def test_without_storage_it_is_stored_where_the_document_says(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"server": {"port": 4222}})
    assert loaded.settings.data_dir == "./data"
    assert "default of its shape" in loaded.sources["data_dir"]


def test_the_port_of_a_file_for_the_queue_protocol(tmp_path: Path) -> None:
    loaded = load(tmp_path, QUEUE, "broker.json")
    settings = loaded.settings
    assert (settings.queue_port, settings.port, settings.subscription_heartbeat_ms) == (9998, 9092, 20_000)
    assert (settings.data_dir, settings.durability) == ("./storage/data", Durability.FSYNC)
    text = "\n".join(loaded.notes)
    assert "client.request_timeout is a setting of clients" in text and "request_timeout_s" in text
    assert "client.heartbeat_interval" in text and "server.port sets queue_port" in text


@pytest.mark.parametrize(
    ("written", "durability"), [(True, "fsync"), ("on", "fsync"), (False, "os"), ("no", "os")]
)
def test_fsync_on_write(tmp_path: Path, written: object, durability: str) -> None:
    assert load(tmp_path, {"storage": {"fsync_on_write": written}}).settings.durability.value == durability


def test_keys_with_dots(tmp_path: Path) -> None:
    flat = {f"{group}.{key}": value for group, some in QUEUE.items() for key, value in some.items()}
    assert load(tmp_path, flat).settings == load(tmp_path, QUEUE).settings


@pytest.mark.parametrize(
    ("written", "ms"), [(30, 30_000), (0.5, 500), ("45", 45_000), ("2m", 120_000), ("250ms", 250)]
)
def test_a_heartbeat_interval_counts_seconds(tmp_path: Path, written: object, ms: int) -> None:
    loaded = load(tmp_path, {"server": {"heartbeat_interval": written}})
    assert loaded.settings.subscription_heartbeat_ms == ms


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (
            {"storage": {"fsync_on_write": "sometimes"}},
            "allowed: on (durability fsync) or off (durability os)",
        ),
        ({"server": {"heartbeat_interval": "often"}}, "a time such as 500ms"),
        ({"server": {"heartbeat_interval": True}}, "a time such as 500ms"),
        (
            {"client": {"colour": "red"}},
            "client.colour: is not supported here: these are settings of clients",
        ),
        ({"server": {"port": 1, "heartbeat_interval": 1, "colour": 1}}, "server.colour: unknown setting"),
        ({"server": {"port": "many"}, "storage": {}}, "server.port"),
        ({"storage": {"durability": "os", "fsync_on_write": True}}, "sets the same as 'storage.durability'"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, document: object, told: str) -> None:
    assert told in problem(tmp_path, document)


def test_files_that_name_our_ports_are_ours() -> None:
    assert recognise("config.json", {"server.port", "server.host"}) is TEXT_SHAPE
    assert recognise("penstock.json", {"server.port", "server.host"}) is None
    assert recognise("config.json", {"server.port", "topics.default_partitions"}) is None
    assert recognise("config.json", {"server.port", "server.http_port"}) is None
    assert recognise("any.yaml", {"server.port", "storage.fsync_on_write"}) is QUEUE_SHAPE
    assert recognise("any.yaml", {"server.port", "storage.fsync_on_write", "queue_port"}) is None


@pytest.mark.parametrize("document", [TEXT, QUEUE])
def test_a_recognised_file_is_found(tmp_path: Path, document: object) -> None:
    (tmp_path / "config.json").write_text(json.dumps(document))
    assert find_settings_file(tmp_path, is_alone=True) == ("config.json", "")
    assert find_settings_file(tmp_path, is_alone=False) == (None, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"name": "shop", "server": {"port": 3000}}', "'name' is not a setting of a broker"),
        ('{"server": {"port": 3000, "cors": true}}', "'server.cors' is not a setting of a broker"),
        ('{"port": 9092}', "does not look like the settings of a broker"),
        ("[1, 2]", "found a list"),
        ("{", "is not JSON"),
    ],
)
def test_a_foreign_file_is_left_alone_and_named(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "config.json").write_text(text)
    found = find_settings_file(tmp_path, is_alone=True)
    assert found.path is None and why in found.note and "--config config.json" in found.note


def test_no_file_no_word(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    assert find_settings_file(tmp_path, is_alone=True) == (None, "")
