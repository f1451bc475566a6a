"""The banner names what matters and warns where it must."""

from __future__ import annotations

from dataclasses import replace

from penstock.apps.cli.banner import banner_lines, warnings
from penstock.apps.ready import ReadyInfo
from penstock.core.model import Durability, Storage
from penstock.node.connections.addresses import Address
from penstock.node.settings import Settings
from penstock.node.settings_loader import LoadedSettings

LOCAL = ReadyInfo(
    host="127.0.0.1",
    port=40123,
    advertised=Address("127.0.0.1", 40123),
    data_dir="/data",
    storage=Storage.DISK,
    durability=Durability.FSYNC,
    pid=7,
)


def loaded(sources: dict[str, str]) -> LoadedSettings:
    return LoadedSettings(Settings(), sources)


def test_the_settings_file_and_what_to_know_of_it() -> None:
    found = LoadedSettings(Settings(), {}, "config.json", ("client.x has no effect",))
    text = "\n".join(banner_lines(LOCAL, found))
    assert "config      config.json" in text and "note        client.x has no effect" in text


def test_local() -> None:
    text = "\n".join(banner_lines(LOCAL, loaded({"port": "flag --port", "host": "default"})))
    for part in ("pid 7", "127.0.0.1:40123", "/data", "fsync", "1 of 2 set", "--bootstrap 127.0.0.1:40123"):
        assert part in text
    assert "advertised" not in text and "note" not in text


def test_memory_says_what_a_restart_does() -> None:
    text = "\n".join(banner_lines(replace(LOCAL, storage=Storage.MEMORY), loaded({})))
    assert "lost on restart" in text and "fsync" not in text


def test_open_to_the_world() -> None:
    info = replace(LOCAL, host="0.0.0.0", advertised=Address("10.0.0.5", 40123))
    notes = warnings(info)
    assert len(notes) == 2
    assert "not authenticated" in notes[0] and "10.0.0.5:40123" in notes[1]
    text = "\n".join(banner_lines(info, loaded({})))
    assert "advertised  10.0.0.5:40123" in text and "--bootstrap 10.0.0.5:40123" in text


def test_one_outside_address() -> None:
    assert len(warnings(replace(LOCAL, host="10.0.0.5"))) == 1
