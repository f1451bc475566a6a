"""What the processes of a local cluster are: node ids, ports, directories, command lines. Starts nothing.

With the base port B, broker i of N (i from 1) gets
    Kafka B+i-1        HTTP, text, JSON, queue: B+100+10(i-1) and the three ports after it
and the coordinator B+99. A door whose port is set counts up from there: `--http-port 8000` gives broker 2 port 8001.
Below the data directory are `coordinator`, `broker-<i>`, `logs`, and `run` with the ready files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.node.definitions.definition import SettingDefinition, SettingKind
from penstock.node.definitions.values import OFF
from penstock.node.settings import DEFINITION_OF, DEFINITIONS, Settings
from penstock.node.settings_loader import (
    FOREIGN_VARIABLES,
    OTHER_VARIABLES,
    PREFIX,
    LoadedSettings,
    Problem,
    SettingsError,
)

BROKERS_MAX = 64
FACTOR_MAX = 3
"""Replicas of a topic, unless the settings say otherwise or the cluster is smaller."""
COORDINATOR_PORT = 99
DOOR_PORTS = 100
PORTS_PER_BROKER = 10
DOORS = ("http_port", "text_port", "json_port", "queue_port")
"""Settings of the ports that follow each other, in this order."""
PORTS = ("port", *DOORS)
PLANNED = ("node_id", "metadata", "cluster")
"""Settings that the plan decides."""
COORDINATOR = "coordinator"
LINGER_MS = 15_000
"""A service manager may send SIGTERM to all processes at once, and so does the kernel if their parent was killed: the
coordinator serves on while brokers leave the cluster."""
_PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """One broker: its settings without the metadata store, whose port is known only when that runs."""

    settings: Settings
    core: int | None = None
    """The CPU core it runs on; None: any."""

    @property
    def name(self) -> str:
        return f"broker-{self.settings.node_id}"

    @property
    def ports(self) -> dict[str, int]:
        """Fixed ports by setting."""
        return {name: port for name in PORTS if (port := getattr(self.settings, name))}


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A coordinator and its brokers in one directory."""

    root: Path
    coordinator_port: int
    settings: Settings
    brokers: tuple[BrokerPlan, ...]

    @property
    def coordinator_dir(self) -> Path:
        return self.root / COORDINATOR

    @property
    def unplanned(self) -> list[str]:
        """Brokers that the directory has data of and that this plan does not start."""
        planned = {broker.name for broker in self.brokers}
        return sorted(
            path.name for path in self.root.glob("broker-*") if path.is_dir() and path.name not in planned
        )


def plan_cluster(loaded: LoadedSettings, count: int, cores: tuple[int, ...] = ()) -> ClusterPlan:
    """`loaded` are the settings of all brokers; `port` is the base port. Raises SettingsError."""
    settings, sources = loaded.settings, loaded.sources
    problems = [
        Problem(
            "settings", name, f"is decided for each broker of a local cluster; remove it ({sources[name]})"
        )
        for name in PLANNED
        if sources[name] != "default"
    ]
    if not cores and sources["default_replication_factor"] == "default":
        # Who starts brokers one by one wants a cluster; who gives one broker several cores wants speed.
        settings = replace(settings, default_replication_factor=min(FACTOR_MAX, count))
    root = Path(settings.data_dir).absolute()
    brokers = tuple(
        BrokerPlan(
            replace(settings, node_id=index + 1, data_dir=str(root / f"broker-{index + 1}"), **ports),
            cores[index] if cores else None,
        )
        for index, ports in enumerate(_ports(loaded, count))
    )
    coordinator_port = settings.port + COORDINATOR_PORT if settings.port else 0
    problems += _port_problems(brokers, coordinator_port)
    if problems:
        raise SettingsError(problems)
    return ClusterPlan(root, coordinator_port, settings, brokers)


def _ports(loaded: LoadedSettings, count: int) -> Iterator[dict[str, Any]]:
    settings, sources = loaded.settings, loaded.sources
    base = settings.port
    for index in range(count):
        ports: dict[str, Any] = {}
        for slot, name in enumerate(DOORS):
            port: int | None = getattr(settings, name)
            if sources[name] == "default":
                ports[name] = base + DOOR_PORTS + PORTS_PER_BROKER * index + slot if base else 0
            else:
                ports[name] = port + index if port else port
        ports["port"] = base + index if base else 0
        ports["advertised_port"] = settings.advertised_port + index if settings.advertised_port else 0
        yield ports


def _port_problems(brokers: tuple[BrokerPlan, ...], coordinator_port: int) -> Iterator[Problem]:
    """The first port that cannot be: the others would follow from the same mistake."""
    wanted = [("port", coordinator_port, "the coordinator's port")]
    for broker in brokers:
        wanted += [(name, port, f"{name} of {broker.name}") for name, port in broker.ports.items()]
    users: dict[int, str] = {}
    for setting, port, user in wanted:
        if port > _PORT_MAX:
            yield Problem(
                "settings", setting, f"{user} would be {port}; allowed: at most {_PORT_MAX}, so start lower"
            )
            return
        if port and port in users:
            what = f"{user} and {users[port]} would both be {port}; set ports that are further apart"
            yield Problem("settings", setting, what)
            return
        users[port] = user


def broker_command(settings: Settings, ready_file: Path) -> list[str]:
    """The command line of a broker with exactly these settings."""
    return [sys.executable, "-m", "penstock", *broker_arguments(settings, ready_file)]


def broker_arguments(settings: Settings, ready_file: Path) -> list[str]:
    """`start`, a flag for every setting that differs from its default, and the ready file."""
    flags = [
        _flag(definition, value)
        for definition in DEFINITIONS
        if (value := getattr(settings, definition.name)) != definition.default
    ]
    return ["start", *flags, f"--ready-file={ready_file}"]


def _flag(definition: SettingDefinition, value: object) -> str:
    if definition.kind is SettingKind.SWITCH:
        return definition.flag if value else f"--no-{definition.flag.removeprefix('--')}"
    return f"{definition.flag}={OFF if value is None else value}"


def coordinator_command(plan: ClusterPlan, port: int, ready_file: Path) -> list[str]:
    """The command line of the coordinator on this port."""
    return [
        *(sys.executable, "-m", "penstock.apps.coordinator"),
        f"--data-dir={plan.coordinator_dir}",
        f"--port={port}",
        f"--session-ttl-ms={plan.settings.session_ms}",
        f"--linger-ms={LINGER_MS}",
        f"--log-level={plan.settings.log_level.value}",
        f"--log-format={plan.settings.log_format.value}",
        f"--ready-file={ready_file}",
    ]


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the variables that set a setting: children get all settings as flags, the same after every restart."""
    return {
        name: value
        for name, value in environment.items()
        if (not name.startswith(PREFIX) or name in OTHER_VARIABLES)
        and name not in FOREIGN_VARIABLES
        and name != "PENSTOCK_CONFIG"
    }


def port_flag(setting: str) -> str:
    """The flag that moves this port of all brokers."""
    return "--base-port" if setting == "port" else DEFINITION_OF[setting].flag
