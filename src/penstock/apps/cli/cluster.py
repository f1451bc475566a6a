"""`penstock cluster`: commands for several brokers that are one cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from penstock.apps.cli.cluster_moves import MOVES
from penstock.apps.cli.cluster_placement import PLACEMENT
from penstock.apps.cli.cluster_scrub import scrub
from penstock.apps.cli.cluster_status import VIEWS
from penstock.apps.cli.cluster_view import run_foreground
from penstock.apps.cli.cluster_words import WORDS
from penstock.apps.cli.failures import StartFailed
from penstock.apps.cli.options import config_file_option
from penstock.apps.cli.setting_options import SettingsCommand, load_given
from penstock.apps.cluster_plan import BROKERS_MAX, PLANNED
from penstock.apps.ready import StartError


@click.group()
def cluster() -> None:
    """Run several brokers as one cluster, inspect it, and place partitions."""


for _command in (*VIEWS, *MOVES, *PLACEMENT, scrub, *WORDS):
    cluster.add_command(_command)


@cluster.command(cls=SettingsCommand, without=("port", *PLANNED))
@config_file_option
@click.option(
    "--brokers",
    type=click.IntRange(1, BROKERS_MAX),
    default=3,
    show_default=True,
    metavar="N",
    help="Number of brokers. Their node ids are 1 to N.",
)
@click.option(
    "--base-port",
    "port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Kafka port of the first broker; the others count up. 0 picks free ports for everything.  [default: 9092]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the ready line as one JSON object.")
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON file that is written once all brokers accept connections, with the content of --json, and removed when "
    "the cluster stops.",
)
@click.option("--no-console", is_flag=True, help="Run without a console, for scripts and services.")
def up(
    config_file: str | None,
    brokers: int,
    as_json: bool,
    ready_file: Path | None,
    no_console: bool,
    **flags: Any,
) -> None:
    """Run a cluster on this machine in the foreground until Ctrl-C or SIGTERM.

    Starts a coordinator, which stores the cluster's metadata, and N brokers, each a process with its own directory
    below the data directory. A process that crashes is restarted. Settings apply to all brokers; a port is that of
    the first broker, and the others count up. Unless they are set, the HTTP, text, JSON and queue ports of broker i
    are base port + 100 + 10 (i - 1) and the three after it; the coordinator has base port + 99.
    """
    loaded = load_given(config_file, flags)
    try:
        code = run_foreground(loaded, brokers, ready_file, as_json=as_json)
    except StartError as error:
        raise StartFailed(str(error)) from error
    sys.exit(code)
