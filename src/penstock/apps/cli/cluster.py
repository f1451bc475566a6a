"""`penstock cluster`: commands for several brokers that are one cluster."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from penstock.apps.cli.cluster_down import down
from penstock.apps.cli.cluster_moves import MOVES
from penstock.apps.cli.cluster_placement import PLACEMENT
from penstock.apps.cli.cluster_scrub import scrub
from penstock.apps.cli.cluster_status import VIEWS
from penstock.apps.cli.cluster_view import ClusterShow, run_local_cluster
from penstock.apps.cli.cluster_words import WORDS
from penstock.apps.cli.failures import StartFailed, WrongSettings
from penstock.apps.cli.options import config_file_option
from penstock.apps.cli.setting_options import SettingsCommand
from penstock.apps.control.cluster_plan import DOORS, PLANNED
from penstock.apps.control.system_settings import (
    API_PORT,
    BROKERS,
    BROKERS_MAX,
    CONSOLE_PORT,
    SystemSettings,
    load_system,
)
from penstock.apps.ready import StartError
from penstock.node.settings_loader import SettingsError


@click.group()
def cluster() -> None:
    """Run and inspect several brokers as one cluster."""


for _command in (*VIEWS, *MOVES, *PLACEMENT, scrub, *WORDS, down):
    cluster.add_command(_command)


class PortOrOff(click.ParamType[Any]):
    """A port, 0 for a free one, or `off`."""

    name = "port|off"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.strip().lower() == "off":
            return "off"
        return click.IntRange(0, 65_535).convert(value, param, ctx)


@cluster.command(cls=SettingsCommand, without=("port", *PLANNED))
@config_file_option
@click.option(
    "--brokers",
    type=click.IntRange(1, BROKERS_MAX),
    metavar="N",
    help=f"Number of brokers. Their node ids are 1 to N.  [default: {BROKERS}]",
)
@click.option(
    "--base-port",
    "port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Kafka port of the first broker; the others count up. 0 picks free ports for everything.  [default: 9092]",
)
@click.option("--any-port", is_flag=True, help="Pick free ports for everything.")
@click.option(
    "--api-port",
    type=PortOrOff(),
    metavar="PORT|off",
    help=f"HTTP API of the coordinator.  [default: {API_PORT}]",
)
@click.option(
    "--console-port",
    type=PortOrOff(),
    metavar="PORT|off",
    help=f"Console of the coordinator over TCP.  [default: {CONSOLE_PORT}]",
)
@click.option("--no-services", is_flag=True, help="Run without the gRPC producer and consumer services.")
@click.option("--json", "as_json", is_flag=True, help="Print the ready line as one JSON object.")
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON file that is written once everything serves, with the content of --json, and removed when the cluster"
    " stops.",
)
@click.option(
    "--no-console", is_flag=True, help="Run without a console on the terminal, for scripts and services."
)
@click.option(
    "--detach",
    is_flag=True,
    help="Start in the background and return once everything serves. `penstock cluster down` stops it.",
)
@click.option(
    "--die-with-parent",
    is_flag=True,
    help="Stop all processes if this command is killed. Without it they run on, and the next start adopts them.",
)
def up(config_file: str | None, no_console: bool, detach: bool, die_with_parent: bool, **flags: Any) -> None:
    """Run a whole system on this machine.

    Five brokers, their metadata, and the gRPC services. Runs in the foreground until Ctrl-C or SIGTERM. Each process
    has its own directory and log below the data directory. A process that crashes is restarted. Settings apply to all
    brokers; a port is that of the first broker, and the others count up. With the default ports, brokers serve Kafka
    on 9092 and up, HTTP on 9080, 9180, 9280 and so on; the producer service listens on 9193, the consumer service on
    9194.

    \b
    penstock cluster up
    penstock cluster up --brokers 3 --detach
    """
    show = ClusterShow(flags.pop("ready_file"), as_json=flags.pop("as_json"))
    options = {
        name: flags.pop(name) for name in ("brokers", "any_port", "api_port", "console_port", "no_services")
    }
    if options["any_port"]:
        flags["port"] = _free_port(flags["port"])
    try:
        loaded, system = load_system(
            config_file,
            os.environ,
            {name: value for name, value in flags.items() if value is not None},
        )
    except SettingsError as error:
        raise WrongSettings(str(error)) from error
    system = _with_flags(system, options, is_any_port=loaded.settings.port == 0)
    if options["any_port"]:
        free: dict[str, Any] = {
            name: 0 for name in DOORS if flags[name] is None and getattr(loaded.settings, name) is not None
        }
        loaded = loaded._replace(settings=replace(loaded.settings, **free))  # also ports of the file
    try:
        code = run_local_cluster(
            loaded,
            system.broker_count,
            show,
            system=system,
            outlives=not die_with_parent,
            is_detached=detach,
            has_terminal=not (no_console or detach),
        )
    except StartError as error:
        raise StartFailed(str(error)) from error
    sys.exit(code)


def _free_port(port: int | None) -> int:
    if port:
        raise WrongSettings("--any-port and --base-port exclude each other.")
    return 0


def _with_flags(system: SystemSettings, options: dict[str, Any], *, is_any_port: bool) -> SystemSettings:
    """The settings of the file, overridden by flags."""
    ports: dict[str, Any] = {}
    for name in ("api_port", "console_port"):
        given = options[name]
        if given is not None:
            ports[name] = None if given == "off" else given
        elif is_any_port and getattr(system, name) is not None:
            ports[name] = 0
    return replace(
        system,
        broker_count=options["brokers"] or system.broker_count,
        has_services=not options["no_services"],
        **ports,
    )
