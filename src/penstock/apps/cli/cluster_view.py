"""Runs a local cluster for a command: settings in, progress on stderr, the ready line or table on stdout."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from penstock.apps.cli.banner import address_warnings
from penstock.apps.cli.failures import WrongSettings
from penstock.apps.cli.terminal import say
from penstock.apps.cluster_plan import DOORS, plan_cluster
from penstock.apps.local_cluster import ClusterReady, run_cluster
from penstock.apps.ready import remove_ready_file, write_json
from penstock.core.version import __version__
from penstock.node.log_choices import LogFormat
from penstock.node.logs import configure_logging
from penstock.node.settings_loader import LoadedSettings, SettingsError

_log = logging.getLogger("penstock.cluster")


def run_foreground(
    loaded: LoadedSettings,
    count: int,
    ready_file: Path | None,
    *,
    as_json: bool = False,
    cores: tuple[int, ...] = (),
    logs_to_files: bool = True,
) -> int:
    """Returns the exit code. Raises WrongSettings, and StartError if the cluster cannot start."""
    try:
        plan = plan_cluster(loaded, count, cores)
    except SettingsError as error:
        raise WrongSettings(str(error)) from error
    settings = loaded.settings
    configure_logging(settings.log_level, settings.log_format, sys.stderr)
    if ready_file is not None:
        remove_ready_file(ready_file)

    def on_ready(ready: ClusterReady) -> None:
        if as_json:
            say(json.dumps(ready.content()))
        elif settings.log_format is LogFormat.JSON:
            for warning in _warnings(ready):
                _log.warning(warning)
            _log.info("ready", extra=ready.content())
        else:
            _show(ready, logs_to_files=logs_to_files)
        sys.stdout.flush()
        if ready_file is not None:
            write_json(ready_file, ready.content())

    try:
        return run_cluster(plan, on_ready, logs_to_files=logs_to_files)
    finally:
        if ready_file is not None:
            remove_ready_file(ready_file)


def _warnings(ready: ClusterReady) -> list[str]:
    return address_warnings(str(ready.brokers[0]["host"]), ready.addresses[0])


def _show(ready: ClusterReady, *, logs_to_files: bool) -> None:
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
    say(f"  coordinator  127.0.0.1:{ready.coordinator['port']}, pid {ready.coordinator['pid']}")
    if logs_to_files:
        say(f"  logs         {root / 'logs'}")
    for warning in _warnings(ready):
        say(f"  note         {warning}")
    say(f"Try: penstock pub --bootstrap {ready.bootstrap} --topic hello --message hi      Stop: Ctrl-C")
