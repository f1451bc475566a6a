"""Reads a YAML or JSON settings file into keys and values. Does not validate values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.node.file_shapes import (
    CLIENT_KEYS,
    FSYNC_ON_WRITE,
    HEARTBEAT_INTERVAL,
    SERVER_PORT,
    FileShape,
    durability_of_switch,
    duration_of_seconds,
    recognise,
)
from penstock.node.settings import DEFINITIONS, SECTIONS

FILE_BYTES_MAX = 2**20
"""Maximum size of a settings file; a larger file is a data file given by mistake."""

SEVERAL_NODES = "it describes several processes, and this command runs one node"

NOT_HERE = {
    "coordinator": SEVERAL_NODES,
    "nodejs_writer": SEVERAL_NODES,
    "nodejs_reader": SEVERAL_NODES,
    "consumer": "these are settings of consumers",
    "producer": "these are settings of producers",
    "client": "these are settings of clients",
    "topics.replication_factor": "write 'default_replication_factor', which applies to clusters",
}
"""Keys of other brokers' files that are not supported, with the reason."""

CLIENT = "client"
GROUPS = (*SECTIONS, "broker")
"""Keys that may contain a mapping: the sections, with their own settings only, and `broker` with any."""

PAIRS = {"buffer_sizes": ("socket_receive_bytes", "socket_send_bytes")}
"""Keys that set several settings with a list, in this order."""


class UnreadableFile(Exception):
    """The file does not exist, cannot be read, or is neither YAML nor JSON; the message says which."""


class FileEntry(NamedTuple):
    """One entry of the file: the key as written, the name of the setting (None if unknown), and the value."""

    key: str
    name: str | None
    value: object
    note: str = ""
    """Why the entry is accepted although it sets nothing."""
    problem: str = ""
    """What is wrong with the value, if its setting cannot tell."""


class SettingsFile(NamedTuple):
    """What a file says: all entries, in order, and the shape by which it was recognised."""

    entries: Sequence[FileEntry]
    shape: FileShape | None


def read_settings_file(path: Path) -> SettingsFile:
    """Parse the file. Raises UnreadableFile."""
    document = _parse(path, _read(path))
    if document is None:
        return SettingsFile((), None)
    if not isinstance(document, dict):
        raise UnreadableFile(f"found {_noun(document)}, allowed: a mapping of settings such as 'port: 9092'")
    rows = list(_flatten(document))
    shape = recognise(path.name, {_dotted(group, key) for _, group, key, _ in rows})
    entries = [entry for row in rows for entry in _entries(*row, shape)]
    return SettingsFile(entries, shape)


def snake_case(key: str) -> str:
    """`logDir`, `log-dir` and `log_dir` are the same key."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace("-", "_").lower()


def _flatten(document: dict[Any, Any]) -> Iterator[tuple[str, str, str, object]]:
    """Key as written, group, key in it, and value of every entry; the group of a key at the top is empty."""
    for raw_key, value in document.items():
        key = str(raw_key)
        if isinstance(value, dict) and snake_case(key) in (*GROUPS, CLIENT):
            for inner, inner_value in value.items():
                yield f"{key}.{inner}", snake_case(key), snake_case(str(inner)), inner_value
        else:
            group, _, inner = key.partition(".")
            is_dotted = inner and snake_case(group) in (*GROUPS, CLIENT)
            yield key, snake_case(group) if is_dotted else "", snake_case(inner if is_dotted else key), value


def _entries(key: str, group: str, name: str, value: object, shape: FileShape | None) -> Iterator[FileEntry]:
    dotted = _dotted(group, name)
    if dotted in CLIENT_KEYS:
        yield FileEntry(
            key, None, value, note=f"is a setting of clients, without effect here: {CLIENT_KEYS[dotted]}"
        )
    elif dotted == SERVER_PORT and shape is not None:
        yield FileEntry(key, shape.port_setting, value)
    elif dotted == HEARTBEAT_INTERVAL:
        yield FileEntry(key, "subscription_heartbeat_ms", duration_of_seconds(value))
    elif dotted == FSYNC_ON_WRITE:
        durability = durability_of_switch(value)
        problem = (
            "" if durability else f"found {value!r}; allowed: on (durability fsync) or off (durability os)"
        )
        yield FileEntry(key, "durability", durability, problem=problem)
    else:
        yield from _expand(key, _meaning(group, name), value)


def _dotted(group: str, key: str) -> str:
    return f"{group}.{key}" if group else key


def _expand(key: str, name: str | None, value: object) -> Iterator[FileEntry]:
    targets = PAIRS.get(name or "")
    if targets is None:
        yield FileEntry(key, name, value)
    elif isinstance(value, list) and len(value) == len(targets):
        for index, (target, part) in enumerate(zip(targets, value, strict=True)):
            yield FileEntry(f"{key}[{index}]", target, part)
    else:
        yield FileEntry(key, name, value)


def _meaning(group: str, key: str) -> str | None:
    """The setting or pair that a key refers to inside a group; '' is the top level of the file."""
    if key in PAIRS and group in ("", "broker", "limits"):
        return key
    for definition in DEFINITIONS:
        if f"{group}.{key}" in definition.aliases:
            return definition.name
        if group in ("", "broker", definition.section) and key in (definition.name, *definition.aliases):
            return definition.name
    return None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableFile(f"cannot be read: {error.strerror}") from error
    if len(content) > FILE_BYTES_MAX:
        raise UnreadableFile(f"is longer than {FILE_BYTES_MAX} bytes, so it is not a settings file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"is not UTF-8 text (byte {error.start})") from error


def _parse(path: Path, text: str) -> object:
    suffix = path.suffix.lower()
    if suffix == ".json" or (suffix not in (".yaml", ".yml") and text.lstrip().startswith("{")):
        return _parse_json(text)
    return _parse_yaml(text)


def _parse_json(text: str) -> object:
    import json

    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise UnreadableFile(
            f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except RecursionError as error:
        raise UnreadableFile("is nested too deeply") from error


def _parse_yaml(text: str) -> object:
    import yaml

    class UniqueKeys(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            _unique([(str(self.construct_object(key, deep=True)), None) for key, _ in node.value])
            return super().construct_mapping(node, deep=deep)

    try:
        return yaml.load(text, Loader=UniqueKeys)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise UnreadableFile(f"is not YAML: {place}{error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UnreadableFile(f"is not YAML: {error}") from error
    except RecursionError as error:
        raise UnreadableFile("is nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise UnreadableFile(f"{key}: appears twice in one mapping")
        seen[key] = value
    return seen


def _noun(document: object) -> str:
    return "a list" if isinstance(document, list) else f"the value {document!r}"
