"""Layers, sources, other brokers' files, and problems that name everything at once."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from penstock.core.model import Durability, Storage
from penstock.node import settings_loader
from penstock.node.log_choices import LogLevel
from penstock.node.settings import DEFINITIONS, Settings
from penstock.node.settings_loader import SettingsError, load_settings


def write(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def problems(
    file: str | None = None, environment: dict[str, str] | None = None, **flags: object
) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(file, environment, flags)
    return [str(problem) for problem in caught.value.problems]


def test_defaults() -> None:
    loaded = load_settings()
    assert loaded.settings == Settings()
    assert set(loaded.sources) == {definition.name for definition in DEFINITIONS}
    assert set(loaded.sources.values()) == {"default"}


def test_flags_over_environment_over_file(tmp_path: Path) -> None:
    file = write(tmp_path, "a.yaml", "port: 1\nnode_id: 1\nopen_files_max: 100\n")
    loaded = load_settings(file, {"PENSTOCK_PORT": "2", "PENSTOCK_NODE_ID": "2"}, {"port": "3"})
    assert (loaded.settings.port, loaded.settings.node_id, loaded.settings.open_files_max) == (3, 2, 100)
    assert loaded.sources["port"] == "flag --port"
    assert loaded.sources["node_id"] == "environment PENSTOCK_NODE_ID"
    assert loaded.sources["open_files_max"] == f"file {file}: open_files_max"


CAMEL_CASE_FILE = """
port: 1234
logDir: /var/log/broker
maxConnections: 1000
maxMessageSize: 1024
bufferSizes:
  - 1024
  - 2048
logLevel: info
"""


def test_file_with_camel_case_keys(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, "config.yaml", CAMEL_CASE_FILE)).settings
    assert (settings.port, settings.data_dir, settings.connections_max) == (1234, "/var/log/broker", 1000)
    assert (settings.message_bytes_max, settings.log_level) == (1024, LogLevel.INFO)
    assert (settings.socket_receive_bytes, settings.socket_send_bytes) == (1024, 2048)


@pytest.mark.parametrize("key", ["autoCreateTopics", "topicAutoCreate", "auto_create_topics"])
@pytest.mark.parametrize(("word", "value"), [("on", True), ("off", False), ('"off"', False), ("no", False)])
def test_topic_auto_create(tmp_path: Path, key: str, word: str, value: bool) -> None:
    assert load_settings(write(tmp_path, "a.yaml", f"{key}: {word}")).settings.auto_create_topics is value


def test_other_prefix_in_the_environment() -> None:
    environment = {
        "QB_SERVER_HOST": "localhost",
        "QB_SERVER_PORT": "9999",
        "QB_DATA_DIR": "./storage/data",
        "QB_LOG_LEVEL": "DEBUG",
        "PENSTOCK_PORT": "9998",
    }
    loaded = load_settings(environment=environment)
    assert (loaded.settings.host, loaded.settings.port, loaded.settings.queue_port) == (
        "localhost",
        9998,
        9999,
    )
    assert (loaded.settings.data_dir, loaded.settings.log_level) == ("./storage/data", LogLevel.DEBUG)
    assert loaded.sources["host"] == "environment QB_SERVER_HOST"


@pytest.mark.parametrize(
    "storage", [{"dir": "./data"}, {"path": "./data"}, {"data_dir": "./data", "type": "disk"}]
)
@pytest.mark.parametrize("name", ["penstock.json", "config"])
def test_nested_json(tmp_path: Path, storage: dict[str, str], name: str) -> None:
    text = json.dumps({"server": {"host": "localhost", "port": 4222}, "storage": storage})
    settings = load_settings(write(tmp_path, name, text)).settings
    assert (settings.host, settings.port, settings.data_dir) == ("localhost", 4222, "./data")
    assert settings.storage is Storage.DISK


def test_storage_as_a_word(tmp_path: Path) -> None:
    assert (
        load_settings(write(tmp_path, "a.json", '{"storage": "memory"}')).settings.storage is Storage.MEMORY
    )


def test_one_node_part_of_a_file_for_several(tmp_path: Path) -> None:
    text = (
        "broker:\n  base_port: 9093\n  data_dir: ./d\n  storage: memory\ntopics:\n  default_partitions: 10\n"
    )
    settings = load_settings(write(tmp_path, "a.yaml", text)).settings
    assert (settings.port, settings.data_dir, settings.storage) == (9093, "./d", Storage.MEMORY)
    assert settings.default_partitions == 10


def test_keys_for_several_nodes_are_named(tmp_path: Path) -> None:
    text = "coordinator: {port: 1}\nproducer: {linger_ms: 1}\ntopics: {replication_factor: 2}\n"
    found = problems(write(tmp_path, "a.yaml", text))
    assert [line.split(": ")[1] for line in found] == ["coordinator", "producer", "topics.replication_factor"]
    assert all("is not supported here" in line for line in found)


def test_sizes_and_times(tmp_path: Path) -> None:
    text = "segment_bytes: 64 MiB\nretention-ms: 7d\nflushIntervalMs: 500ms\nretention_bytes: -1\n"
    settings = load_settings(write(tmp_path, "a.yaml", text)).settings
    assert (settings.segment_bytes, settings.retention_ms) == (64 * 2**20, 604_800_000)
    assert (settings.flush_interval_ms, settings.retention_bytes) == (500, -1)


def test_every_problem_at_once(tmp_path: Path) -> None:
    file = write(tmp_path, "a.yaml", "prt: 1\ndurability: fysnc\nhost: 'a:1'\nstorage: {segment_byte: 3}\n")
    found = problems(file, {"PENSTOCK_DURABILTY": "os", "PENSTOCK_NODE_ID": "x"}, open_files_max="1")
    assert found == [
        f"{file}: prt: unknown setting; did you mean 'port'?",
        f"{file}: durability: found 'fysnc'; allowed: fsync or interval or os; did you mean 'fsync'?",
        f"{file}: host: found 'a:1'; allowed: a host name or address without a port",
        f"{file}: storage.segment_byte: unknown setting; did you mean 'segment_bytes'?",
        "environment: PENSTOCK_DURABILTY: unknown setting; did you mean 'PENSTOCK_DURABILITY'?",
        "environment: PENSTOCK_NODE_ID: found 'x'; allowed: a whole number from 0 to 2147483647",
        "flag: --open-files-max: found '1'; allowed: a whole number at least 16",
    ]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("port:", "port: found nothing"),
        ("port: yes", "port: found on; allowed: a whole number"),
        ("port: 1.5", "port: found 1.5"),
        ("port: [1]", "port: found [1]"),
        ("port: {a: 1}", "port: found {'a': 1}; allowed: a whole number"),
        ("data_dir: 5", "data_dir: found 5; allowed: printable text"),
        ('data_dir: "a\\nb"', "data_dir: found 'a\\nb'"),
        ("bufferSizes: 5", "bufferSizes: found 5; allowed: a list of two sizes"),
        ("bufferSizes: [1, 2, 3]", "bufferSizes: found [1, 2, 3]"),
        ("bufferSizes: [1, x]", "bufferSizes[1]: found 'x'"),
        ("sevrer: {port: 1}", "sevrer: unknown section; did you mean 'server'?"),
        ("server: {data_dir: x}", "server.data_dir: belongs in section 'storage'"),
        ("port: 1\nserver: {port: 2}", "server.port: sets the same as 'port'"),
        ("port: 1\nport: 2", "port: appears twice"),
        ("- port", "found a list, allowed: a mapping"),
        ("hello", "found the value 'hello'"),
        ("a: [", "is not YAML: line 1"),
        ("a: !!python/object/apply:os.getcwd []", "is not YAML"),
        ("a: \x00", "is not YAML"),
    ],
)
def test_bad_yaml(tmp_path: Path, text: str, part: str) -> None:
    (found,) = problems(write(tmp_path, "a.yaml", text))
    assert part in found and found.startswith(str(tmp_path / "a.yaml"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"port": 1,}', "is not JSON: line 1, column"),
        ('{"port": 1, "port": 2}', "port: appears twice"),
        ("[" * 100_000, "is nested too deeply"),
        ("\ufeff[]", "found a list"),
    ],
)
def test_bad_json(tmp_path: Path, text: str, part: str) -> None:
    (found,) = problems(write(tmp_path, "a.json", text))
    assert part in found


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in problems(str(tmp_path / "absent.yaml"))[0]
    assert "cannot be read: Is a directory" in problems(str(tmp_path))[0]
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8" in problems(str(tmp_path / "a.yaml"))[0]
    (tmp_path / "b.yaml").write_bytes(b"#" * (2**20 + 1))
    assert "is not a settings file" in problems(str(tmp_path / "b.yaml"))[0]


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert load_settings(write(tmp_path, "a.yaml", "# nothing\n")).settings == Settings()


def test_contradictions() -> None:
    (found,) = problems(frame_bytes_max="64k")
    assert found.startswith("settings: frame_bytes_max: found 65536 (flag --frame-bytes-max)")
    assert "message_bytes_max, which is 1048588 (default)" in found


def test_service_links_are_not_settings() -> None:
    environment = {
        "PENSTOCK_PORT": "tcp://10.0.0.1:9092",
        "PENSTOCK_SERVICE_HOST": "10.0.0.1",
        "PENSTOCK_PORT_9092_TCP_ADDR": "10.0.0.1",
        "PENSTOCK_BOOTSTRAP": "a:1",
    }
    assert load_settings(environment=environment).settings == Settings()


def test_every_variable_that_the_code_names_is_let_through() -> None:
    """One that only the command line or a client reads must not keep a broker from starting."""
    source = Path(settings_loader.__file__).parents[1]
    named = {
        name
        for path in source.rglob("*.py")
        for name in re.findall(r'"(PENSTOCK_[A-Z_]*[A-Z])"', path.read_text())
    }
    settings = {f"PENSTOCK_{definition.name.upper()}" for definition in DEFINITIONS}
    assert named - settings - set(settings_loader.OTHER_VARIABLES) == set()


def test_empty_variables_are_problems() -> None:
    assert problems(environment={"PENSTOCK_PORT": ""}) == [
        "environment: PENSTOCK_PORT: found ''; allowed: a whole number from 0 to 65535"
    ]
    assert load_settings(environment={"PENSTOCK_ADVERTISED_HOST": ""}).settings.advertised_host == ""


def test_typed_flags() -> None:
    settings = load_settings(
        flags={"durability": Durability.OS, "port": 0, "auto_create_topics": False}
    ).settings
    assert (settings.durability, settings.port, settings.auto_create_topics) == (Durability.OS, 0, False)


@pytest.mark.parametrize(
    ("written", "port"), [("7000", 7000), ("0", 0), ("off", None), ('"off"', None), ("OFF", None)]
)
def test_ports_of_further_doors_are_numbers_or_off(tmp_path: Path, written: str, port: int | None) -> None:
    loaded = load_settings(write(tmp_path, "a.yaml", f"text_port: {written}"))
    assert loaded.settings.text_port == port
    assert load_settings(flags={"http_port": written.strip('"')}).settings.http_port == port


def test_a_port_that_cannot_be_is_told_what_it_may_be() -> None:
    assert problems(environment={"PENSTOCK_TEXT_PORT": "65536"}) == [
        "environment: PENSTOCK_TEXT_PORT: found '65536'; allowed: a port from 0 to 65535, 0 for a free one, or off"
    ]


def test_the_links_of_services_named_after_a_door_are_left_alone() -> None:
    environment = {"PENSTOCK_TEXT_PORT": "tcp://10.0.0.1:9081", "PENSTOCK_HTTP_SERVICE_HOST": "10.0.0.1"}
    assert load_settings(environment=environment).settings.text_port == 9081
