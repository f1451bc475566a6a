"""`penstock start`: loads settings, configures logging, and runs the broker in the foreground with `serve`, or one
broker per core with `control/cluster_run`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from penstock.apps.cli.failures import StartFailed, WrongSettings
from penstock.apps.cli.options import config_file_option
from penstock.apps.cli.setting_options import SettingsCommand, load_found
from penstock.apps.ready import ReadyInfo, StartError, remove_ready_file, write_ready_file
from penstock.node.log_choices import LogFormat
from penstock.node.settings_loader import LoadedSettings


@click.command(cls=SettingsCommand)
@config_file_option
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON file that is written once the broker accepts connections (host, ports of all doors, pid, data_dir) "
    "and removed when it stops.",
)
@click.option(
    "--cores",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Run N brokers as one cluster, each on a CPU core of its own with its data below the data directory; see "
    "`penstock cluster up` for their ports.",
)
def start(config_file: str | None, ready_file: Path | None, cores: int, **flags: Any) -> None:
    """Run a broker in the foreground until Ctrl-C or SIGTERM.

    Every setting can be set as a flag, as PENSTOCK_<NAME> in the environment, or in the file. Flags override the
    environment, which overrides the file. Without --config, config.json in the working directory is read if it looks
    like a broker's. Sizes can be written as 64k or 1 GiB, durations as 500ms, 30s or 7d.
    `penstock config explain` shows where each value comes from.

    \b
    penstock start --data-dir ./data --port 9092
    penstock start --storage memory --log-level warning
    """
    loaded = load_found(config_file, flags)
    try:
        code = _serve(loaded, ready_file) if cores == 1 else _serve_cores(loaded, ready_file, cores)
    except StartError as error:
        raise StartFailed(str(error)) from error
    sys.exit(code)


def _serve(loaded: LoadedSettings, ready_file: Path | None) -> int:
    from penstock.apps.cli.banner import log_ready, show_banner
    from penstock.apps.serve import serve
    from penstock.node.logs import configure_logging

    settings = loaded.settings
    is_json = settings.log_format is LogFormat.JSON
    is_alone = settings.metadata is None and settings.cluster is None
    node_id = settings.node_id if is_json or not is_alone else None
    configure_logging(settings.log_level, settings.log_format, sys.stderr, node_id=node_id)
    if ready_file is not None:
        remove_ready_file(ready_file)

    def on_ready(info: ReadyInfo) -> None:
        if is_json:
            log_ready(info, loaded)
        else:
            show_banner(info, loaded)
        if ready_file is not None:
            write_ready_file(ready_file, info)

    try:
        return serve(settings, on_ready)
    finally:
        if ready_file is not None:
            remove_ready_file(ready_file)


def _serve_cores(loaded: LoadedSettings, ready_file: Path | None, count: int) -> int:
    from penstock.apps.cli.cluster_view import ClusterShow, run_local_cluster

    cores = sorted(os.sched_getaffinity(0))
    if count > len(cores):
        raise WrongSettings(
            f"flag: --cores: found {count}; allowed: at most {len(cores)}, the number of cores that this process may"
            " use. More brokers than cores: `penstock cluster up --brokers N`"
        )
    show = ClusterShow(ready_file, logs_to_files=False)
    return run_local_cluster(loaded, count, show, cores=tuple(cores[:count]))
