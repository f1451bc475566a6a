"""Runs a local cluster for a command: settings in, progress on stderr, the ready line or table on stdout."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from penstock.apps.cli.background import run_detached
from penstock.apps.cli.banner import address_warnings
from penstock.apps.cli.cluster_frontends import cluster_frontends
from penstock.apps.cli.failures import WrongSettings
from penstock.apps.cli.terminal import say
from penstock.apps.control.cluster_plan import DOORS, ClusterPlan, plan_cluster
from penstock.apps.control.cluster_ready import ClusterReady
from penstock.apps.control.cluster_run import run_cluster
from penstock.apps.control.system_settings import BROKERS_ONLY, SystemSettings
from penstock.apps.ready import remove_ready_file, write_json
from penstock.core.version import __version__
from penstock.node.log_choices import LogFormat
from penstock.node.logs import configure_logging
from penstock.node.settings_loader import LoadedSettings, SettingsError

COORDINATOR_LOG = "cluster.log"
"""Output of a coordinator that runs in the background."""
_SERVICE_PACKAGES = ("grpc", "grpc_health", "grpc_reflection", "google.rpc")

_log = logging.getLogger("penstock.cluster")


@dataclass(frozen=True, slots=True)
class ClusterShow:
    """How a command tells that its cluster is ready."""

    ready_file: Path | None
    as_json: bool = False
    logs_to_files: bool = True

    def show(self, ready: ClusterReady, log_format: LogFormat, stop: str = "Ctrl-C") -> None:
        """On stdout, or as a log line; and into the ready file."""
        if self.as_json:
            say(json.dumps(ready.content()))
        elif log_format is LogFormat.JSON:
            for warning in _warnings(ready):
                _log.warning(warning)
            _log.info("ready", extra=ready.content())
        else:
            _show_table(ready, stop, logs_to_files=self.logs_to_files)
        sys.stdout.flush()
        if self.ready_file is not None:
            write_json(self.ready_file, ready.content())


def run_local_cluster(
    loaded: LoadedSettings,
    count: int,
    show: ClusterShow,
    *,
    cores: tuple[int, ...] = (),
    system: SystemSettings = BROKERS_ONLY,
    outlives: bool = False,
    is_detached: bool = False,
    has_terminal: bool = False,
) -> int:
    """Returns the exit code. Raises WrongSettings, and StartError if the cluster cannot start."""
    missing = missing_packages() if system.has_services else []
    if missing:
        system = replace(system, has_services=False)
    try:
        plan = plan_cluster(loaded, count, cores, system)
    except SettingsError as error:
        raise WrongSettings(str(error)) from error
    form = loaded.settings.log_format

    def run(on_ready: Callable[[ClusterReady], None]) -> int:
        configure_logging(loaded.settings.log_level, form, sys.stderr)
        _tell_unused(system, missing, loaded.notes)
        if show.ready_file is not None:
            remove_ready_file(show.ready_file)
        try:
            return run_cluster(
                plan,
                on_ready,
                logs_to_files=show.logs_to_files,
                outlives=outlives,
                frontends=cluster_frontends(plan, has_terminal=has_terminal),
            )
        finally:
            if show.ready_file is not None:
                remove_ready_file(show.ready_file)

    if not is_detached:
        return run(lambda ready: show.show(ready, form))
    for note in (*loaded.notes, *([_without_services(missing)] if missing else [])):
        say(f"note: {note}", err=True)
    return _run_in_background(plan, show, run)


def _run_in_background(
    plan: ClusterPlan, show: ClusterShow, run: Callable[[Callable[[ClusterReady], None]], int]
) -> int:
    def run_and_report(report: Callable[[str], None]) -> int:
        def on_ready(ready: ClusterReady) -> None:
            with redirect_stdout(io.StringIO()) as said:
                show.show(ready, LogFormat.TEXT, stop=f"penstock cluster down --data-dir {plan.root}")
            report(said.getvalue())

        return run(on_ready)

    say(run_detached(plan.log_dir / COORDINATOR_LOG, run_and_report).rstrip("\n"))
    return 0


def missing_packages() -> list[str]:
    """Packages that the gRPC services need and that are not installed."""
    return [name for name in _SERVICE_PACKAGES if find_spec(name.partition(".")[0]) is None]


def _without_services(missing: list[str]) -> str:
    return (
        f"starting without the producer and consumer services, because {missing[0]} is not installed; install it with"
        " pip install '.[grpc]' in a clone of the repository, or start with --no-services"
    )


def _tell_unused(system: SystemSettings, missing: list[str], notes: Sequence[str]) -> None:
    for note in notes:
        _log.info(note)
    if missing:
        _log.warning(_without_services(missing))
    if system.broker_executable:
        _log.info(
            "broker_executable is not used: brokers run from this installation (%s -m penstock)",
            sys.executable,
            extra={"broker_executable": system.broker_executable},
        )


def _warnings(ready: ClusterReady) -> list[str]:
    return address_warnings(str(ready.brokers[0]["host"]), ready.addresses[0])


def _show_table(ready: ClusterReady, stop: str, *, logs_to_files: bool) -> None:
    from penstock.apps.cli.tables import show_table

    root = ready.plan.root
    say(f"Penstock {__version__}: a cluster of {len(ready.brokers)} brokers is ready in {root}")
    doors = [name.removesuffix("_port") for name in DOORS]
    rows = [
        (
            plan.settings.node_id,
            one["pid"],
            f"{one['host']}:{one['port']}",
            *(one.get(f"{door}_port", "off") for door in doors),
            plan.name + "/",
            *(() if plan.core is None else (plan.core,)),
        )
        for plan, one in zip(ready.plan.brokers, ready.brokers, strict=True)
    ]
    core = () if ready.plan.brokers[0].core is None else ("core",)
    show_table(("node", "pid", "Kafka", *doors, "data", *core), rows)
    say(f"  metadata     127.0.0.1:{ready.coordinator['port']}, pid {ready.coordinator['pid']}")
    for name, service in ready.services.items():
        say(f"  {name:<12} {service['host']}:{service['port']} (gRPC), pid {service['pid']}")
    for name, address in ready.doors.items():
        say(f"  {name:<12} {address}")
    if logs_to_files:
        say(f"  logs         {ready.plan.log_dir}")
    if ready.adopted:
        say(f"  adopted      {', '.join(ready.adopted)}: they were running already")
    for warning in _warnings(ready):
        say(f"  note         {warning}")
    say(f"Try: penstock pub --bootstrap {ready.bootstrap} --topic hello --message hi      Stop: {stop}")
