"""Settings of a whole system: how many brokers, the doors of the coordinator, and the options of the gRPC services.

They come from sections of the settings file that a single broker rejects (`coordinator`, `producer`, `consumer`), and
from flags, which override them. `nodejs_writer` and `nodejs_reader` are checked here and used by those programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from penstock.apps.gateways.settings import ConsumerSettings, ProducerSettings
from penstock.node.definitions.definition import INT32_MAX, SettingDefinition, SettingKind
from penstock.node.definitions.values import read_value
from penstock.node.settings_file import UnreadableFile, read_settings_file, snake_case
from penstock.node.settings_loader import LoadedSettings, Problem, SettingsError, load_settings

BROKERS_MAX = 64
BROKERS = 5
API_PORT = 8080
CONSOLE_PORT = 8081
HEARTBEAT_MS_MAX = 3_000
"""Members of a group send a heartbeat this often, or three times per session if that is more often."""
OTHER_KEYS = {"topics.replication_factor": "default_replication_factor"}


@dataclass(frozen=True, slots=True)
class SystemSettings:
    """What a coordinator runs besides brokers, and where it listens itself."""

    broker_count: int = BROKERS
    api_port: int | None = API_PORT
    """HTTP; 0: any free port, None: off."""
    console_port: int | None = CONSOLE_PORT
    broker_executable: str = ""
    """Accepted and not used: brokers run from the same installation."""
    has_services: bool = True
    producer: ProducerSettings = field(default_factory=ProducerSettings)
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)


BROKERS_ONLY = SystemSettings(api_port=None, console_port=None, has_services=False)
"""Brokers and their metadata, without services and doors of a coordinator."""


def _number(kind: SettingKind, name: str, low: int, high: int) -> SettingDefinition:
    return SettingDefinition(name, "", kind, 0, "", low, high)


def _text(name: str) -> SettingDefinition:
    return SettingDefinition(name, "", SettingKind.TEXT, "", "")


_PORT = _number(SettingKind.PORT, "port", 0, 65_535)
SECTIONS: Mapping[str, Mapping[str, SettingDefinition]] = {
    "coordinator": {
        "port": _PORT._replace(name="api_port"),
        "console_port": _PORT._replace(name="console_port"),
        "broker_count": _number(SettingKind.COUNT, "broker_count", 1, BROKERS_MAX),
        "broker_executable": _text("broker_executable"),
    },
    "producer": {
        "batch_size": _number(SettingKind.BYTES, "batch_bytes_max", 1, INT32_MAX),
        "linger_ms": _number(SettingKind.MS, "linger_ms", 0, 900_000),
    },
    "consumer": {
        "session_timeout_ms": _number(SettingKind.MS, "session_ms", 1_000, 1_800_000),
        "heartbeat_interval_ms": _number(SettingKind.MS, "heartbeat_ms", 1, 1_800_000),
    },
    "nodejs_writer": {"port": _PORT, "producer_url": _text("producer_url")},
    "nodejs_reader": {"port": _PORT, "consumer_url": _text("consumer_url")},
}
"""Keys of each section, with the field of the value."""


def load_system(
    file: str | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> tuple[LoadedSettings, SystemSettings]:
    """Settings of the brokers and of the system around them. Flags are those of the brokers; the caller applies those
    of the system. Raises SettingsError with the problems of both."""
    problems: list[Problem] = []
    system, loaded = SystemSettings(), None
    try:
        loaded = load_settings(file, environment, flags, other_sections=SECTIONS, other_keys=OTHER_KEYS)
    except SettingsError as error:
        problems += error.problems
    if file is not None:
        system = _read_system(Path(file), problems)
    if problems or loaded is None:
        raise SettingsError(problems)
    return loaded, system


def _read_system(file: Path, problems: list[Problem]) -> SystemSettings:
    try:
        entries, _ = read_settings_file(file)
    except UnreadableFile:
        return SystemSettings()  # already reported by the loader of the brokers' settings
    values: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for written in entries:
        section = snake_case(written.key)
        if section in SECTIONS:
            values[section] = _read_section(section, written.value, str(file), problems)
    problems += _heartbeat_problems(values["consumer"], str(file))
    values["consumer"].pop("heartbeat_ms", None)
    return replace(
        SystemSettings(),
        **values["coordinator"],
        producer=replace(ProducerSettings(), **values["producer"]),
        consumer=replace(ConsumerSettings(), **values["consumer"]),
    )


def _read_section(section: str, content: object, where: str, problems: list[Problem]) -> dict[str, Any]:
    known, found = SECTIONS[section], dict[str, Any]()
    if not isinstance(content, dict):
        problems.append(
            Problem(where, section, f"found {content!r}; allowed: a mapping with {', '.join(known)}")
        )
        return found
    for raw_key, raw in content.items():
        key = f"{section}.{raw_key}"
        definition = known.get(snake_case(str(raw_key)))
        if definition is None:
            problems.append(Problem(where, key, f"unknown setting; allowed: {', '.join(known)}"))
            continue
        try:
            found[definition.name] = read_value(definition, raw)
        except ValueError:
            problems.append(Problem(where, key, f"found {raw!r}; allowed: {definition.allowed}"))
    return found


def _heartbeat_problems(consumer: Mapping[str, Any], where: str) -> Iterator[Problem]:
    """Members send heartbeats at least as often as a file may ask for; more often is not possible."""
    session_ms: int = consumer.get("session_ms", ConsumerSettings().session_ms)
    used_ms = min(HEARTBEAT_MS_MAX, session_ms // 3)
    asked_ms: int = consumer.get("heartbeat_ms", used_ms)
    if not used_ms <= asked_ms < session_ms:
        yield Problem(
            where,
            "consumer.heartbeat_interval_ms",
            f"found {asked_ms}; allowed: from {used_ms}, the interval that is used with this session_timeout_ms, to"
            f" {session_ms - 1}; a shorter session_timeout_ms makes heartbeats more frequent",
        )


def service_flags(settings: ProducerSettings | ConsumerSettings) -> list[str]:
    """The flags of a service for what differs from its defaults."""
    names = {"batch_bytes_max": "--batch-bytes", "linger_ms": "--linger-ms", "session_ms": "--session-ms"}
    standard = type(settings)()
    return [
        f"{names[one.name]}={getattr(settings, one.name)}"
        for one in fields(settings)
        if getattr(settings, one.name) != getattr(standard, one.name)
    ]
