"""Files of other brokers: recognises them by their shape, and translates the keys that mean a setting of ours.

`settings_file` reads files. The rules here are shown in docs/settings.md.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

FOUND_NAME = "config.json"
"""The settings file that a single broker looks for in its working directory."""

FSYNC_ON_WRITE = "storage.fsync_on_write"
HEARTBEAT_INTERVAL = "server.heartbeat_interval"
SERVER_PORT = "server.port"

CLIENT_KEYS = {
    "client.request_timeout": "pass it to BrokerClient as request_timeout_s",
    "client.heartbeat_interval": "clients use the interval that the broker tells them, subscription_heartbeat_ms",
}
"""Keys for clients in a file that brokers and clients share: accepted, without effect on a broker, with a note."""

QUEUE_MARKS = frozenset({HEARTBEAT_INTERVAL, FSYNC_ON_WRITE, *CLIENT_KEYS})
_TEXT_GROUPS = ("server", "storage", "logging")
_TEXT_SERVER_KEYS = ("server.host", SERVER_PORT)
_OWN_PORTS = ("text_port", "json_port", "queue_port", "http_port")
_FSYNC = {True: "fsync", False: "os"}
_SWITCHES = {
    "true": True,
    "on": True,
    "yes": True,
    "1": True,
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}


class FileShape(NamedTuple):
    """What a file of this shape means where it differs from a file of ours."""

    protocol: str
    """The protocol of the broker that the file was written for."""
    port_setting: str
    """The setting that `server.port` sets."""
    recognised_by: str
    data_dir: str | None = None
    """The data directory if the file names none."""


QUEUE_SHAPE = FileShape(
    "queue", "queue_port", f"it has one of {', '.join(f'`{key}`' for key in sorted(QUEUE_MARKS))}"
)
TEXT_SHAPE = FileShape(
    "text",
    "text_port",
    f"it is called `{FOUND_NAME}`, has `server.port`, and otherwise only `server.host`, `storage` and `logging`",
    "./data",
)
SHAPES = (QUEUE_SHAPE, TEXT_SHAPE)


def recognise(name: str, keys: Collection[str]) -> FileShape | None:
    """The shape of a file of this name with these keys (dotted, in snake case); None: a file of ours."""
    if any(key.rpartition(".")[2] in _OWN_PORTS for key in keys):
        return None  # it names our ports, so `port` is ours too
    if QUEUE_MARKS.intersection(keys):
        return QUEUE_SHAPE
    if name == FOUND_NAME and SERVER_PORT in keys and all(map(_may_be_text, keys)):
        return TEXT_SHAPE
    return None


def _may_be_text(key: str) -> bool:
    group = key.partition(".")[0]
    return key in _TEXT_SERVER_KEYS if group == "server" else group in _TEXT_GROUPS


def duration_of_seconds(value: object) -> object:
    """A duration whose bare number counts seconds: 30 → `30s`. What is not a number stays as it is."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number or (isinstance(value, str) and value.strip().replace(".", "", 1).isdecimal()):
        return f"{value}s"
    return value


def durability_of_switch(value: object) -> str | None:
    """The durability that `fsync_on_write` means; None if the value is not a switch."""
    switch = value if isinstance(value, bool) else _SWITCHES.get(str(value).strip().lower())
    return None if switch is None else _FSYNC[switch]
