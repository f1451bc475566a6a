"""What the processes of a local cluster are: node ids, ports, directories, command lines. Starts nothing.

With the base port B, broker i of N (i from 1) gets
    Kafka B+i-1        HTTP, text, JSON, queue: the ports of a single broker + (B-9092) + 100(i-1)
the metadata process B+99, the producer service B+101 and the consumer service B+102. A door whose port is set counts up
from there: `--http-port 8000` gives broker 2 port 8001. Below the data directory are `coordinator` (the metadata),
`broker-<i>`, `logs`, and `run` with the ready files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from penstock.apps.control.system_settings import BROKERS_ONLY, SystemSettings, service_flags
from penstock.core.model import Address, Storage
from penstock.node.connections.addresses import is_wildcard
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

FACTOR_MAX = 3
"""Replicas of a topic, unless the settings say otherwise or the cluster is smaller."""
BASE_PORT = DEFINITION_OF["port"].default
METADATA_PORT = 99
PRODUCER_PORT = 101
CONSUMER_PORT = 102
PORTS_PER_BROKER = 100
DOORS = ("http_port", "text_port", "json_port", "queue_port")
PORTS = ("port", *DOORS)
PLANNED = ("node_id", "metadata", "cluster")
"""Settings that the plan decides."""
METADATA = "metadata"
COORDINATOR = "coordinator"
"""Directory, log and ready file of the metadata process: it coordinates the metadata of the brokers."""
PRODUCER = "producer"
CONSUMER = "consumer"
LINGER_MS = 15_000
"""A service manager may send SIGTERM to all processes at once, and so does the kernel if their parent was killed: the
metadata process serves on while brokers leave the cluster."""
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
class ServicePlan:
    """A gRPC service. Its brokers are known only when these run."""

    name: str
    port: int
    flags: tuple[str, ...]


class PlannedPort(NamedTuple):
    """A port that a process is to listen on; 0: any free one."""

    setting: str
    host: str
    port: int
    user: str
    flag: str
    """The flag that moves it."""
    child: str
    """The process that listens there; empty: the coordinator itself."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A metadata process, brokers and services in one directory."""

    root: Path
    coordinator_port: int
    """Of the metadata process."""
    settings: Settings
    brokers: tuple[BrokerPlan, ...]
    services: tuple[ServicePlan, ...] = ()
    system: SystemSettings = BROKERS_ONLY

    @property
    def coordinator_dir(self) -> Path:
        """Records in memory are lost with the brokers, and the metadata about them with it: it has a directory of its
        own, so that it cannot replace the metadata of records on disk."""
        is_in_memory = self.settings.storage is Storage.MEMORY
        return self.root / (f"{COORDINATOR}-memory" if is_in_memory else COORDINATOR)

    @property
    def run_dir(self) -> Path:
        return self.root / "run"

    @property
    def log_dir(self) -> Path:
        return self.root / "logs"

    @property
    def unplanned(self) -> list[str]:
        """Brokers that the directory has data of and that this plan does not start."""
        planned = {broker.name for broker in self.brokers}
        return sorted(
            path.name for path in self.root.glob("broker-*") if path.is_dir() and path.name not in planned
        )

    def planned_ports(self) -> Iterator[PlannedPort]:
        """All ports, in the order of the processes."""
        host, system = self.settings.host, self.system
        base = "--base-port"
        for setting, port in (("api_port", system.api_port), ("console_port", system.console_port)):
            if port is not None:
                noun = "HTTP API" if setting == "api_port" else "console"
                flag = "--" + setting.replace("_", "-")
                yield PlannedPort(setting, "127.0.0.1", port, f"the {noun} of the coordinator", flag, "")
        yield PlannedPort("port", "127.0.0.1", self.coordinator_port, "the metadata process", base, METADATA)
        for broker in self.brokers:
            for setting, port in broker.ports.items():
                door = "Kafka" if setting == "port" else setting.removesuffix("_port")
                user = f"the {door} door of {broker.name}"
                yield PlannedPort(setting, host, port, user, port_flag(setting), broker.name)
        for service in self.services:
            yield PlannedPort("port", host, service.port, f"the {service.name} service", base, service.name)


def plan_cluster(
    loaded: LoadedSettings, count: int, cores: tuple[int, ...] = (), system: SystemSettings = BROKERS_ONLY
) -> ClusterPlan:
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
    root = Path(settings.data_dir).resolve()
    services = _services(settings.port, system)
    brokers = tuple(
        BrokerPlan(
            _with_relay(
                replace(settings, node_id=index + 1, data_dir=str(root / f"broker-{index + 1}"), **ports),
                services,
            ),
            cores[index] if cores else None,
        )
        for index, ports in enumerate(_ports(loaded, count))
    )
    metadata_port = settings.port + METADATA_PORT if settings.port else 0
    plan = ClusterPlan(root, metadata_port, settings, brokers, services, system)
    problems += _port_problems(plan)
    if problems:
        raise SettingsError(problems)
    return plan


def _services(base: int, system: SystemSettings) -> tuple[ServicePlan, ...]:
    if not system.has_services:
        return ()
    rows = ((PRODUCER, PRODUCER_PORT, system.producer), (CONSUMER, CONSUMER_PORT, system.consumer))
    return tuple(
        ServicePlan(name, base + port if base else 0, tuple(service_flags(options)))
        for name, port, options in rows
    )


def _with_relay(settings: Settings, services: tuple[ServicePlan, ...]) -> Settings:
    """Clients that expect the producer service on the Kafka port of broker 2, and the consumer service on that of
    broker 3, reach them there."""
    target = relay_target(settings, services)
    return settings if target is None else replace(settings, grpc_relay=target)


def relay_target(settings: Settings, services: tuple[ServicePlan, ...]) -> str | None:
    """The service that this broker passes gRPC connections to; None: none, or its port is not known yet."""
    wanted = {2: PRODUCER, 3: CONSUMER}.get(settings.node_id)
    for service in services:
        if service.name == wanted and service.port:
            return str(Address(reachable_host(settings.host), service.port))
    return None


def reachable_host(host: str) -> str:
    """Where processes of this machine reach a server that listens on this host."""
    return "127.0.0.1" if is_wildcard(host) else host


def _ports(loaded: LoadedSettings, count: int) -> Iterator[dict[str, Any]]:
    settings, sources = loaded.settings, loaded.sources
    base = settings.port
    for index in range(count):
        ports: dict[str, Any] = {}
        for name in DOORS:
            port: int | None = getattr(settings, name)
            if sources[name] == "default":
                first = DEFINITION_OF[name].default + base - BASE_PORT
                ports[name] = first + PORTS_PER_BROKER * index if base else 0
            else:
                ports[name] = port + index if port else port
        ports["port"] = base + index if base else 0
        ports["advertised_port"] = settings.advertised_port + index if settings.advertised_port else 0
        yield ports


def _port_problems(plan: ClusterPlan) -> Iterator[Problem]:
    """The first port that cannot be: the others would follow from the same mistake."""
    users: dict[int, PlannedPort] = {}
    for one in plan.planned_ports():
        if one.port > _PORT_MAX or one.port < 0:
            bound = f"at most {_PORT_MAX}, so start lower" if one.port > 0 else "at least 1, so start higher"
            yield Problem(
                "settings", one.setting, f"the port of {one.user} would be {one.port}; allowed: {bound}"
            )
            return
        if one.port and (other := users.get(one.port)) is not None:
            flags = " or ".join(dict.fromkeys((one.flag, other.flag)))
            what = f"{one.user} and {other.user} would both listen on port {one.port}; move one of them with {flags}"
            yield Problem("settings", one.setting, what)
            return
        users[one.port] = one


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
    """The command line of the metadata process on this port."""
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


def service_command(
    plan: ClusterPlan, service: ServicePlan, port: int, bootstrap: str, ready_file: Path
) -> list[str]:
    """The command line of a gRPC service on this port."""
    return [
        *(sys.executable, "-m", "penstock", f"{service.name}-service"),
        f"--host={plan.settings.host}",
        f"--port={port}",
        f"--bootstrap={bootstrap}",
        *service.flags,
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
