"""`penstock cluster down`: stops a local cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from penstock.apps.cli.failures import StartFailed, WrongSettings
from penstock.apps.cli.options import config_file_option, output_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.terminal import say
from penstock.apps.ready import StartError
from penstock.node.settings_loader import SettingsError


@click.command()
@config_file_option
@click.option("--data-dir", type=click.Path(), help="Directory of the cluster.  [default: ./penstock-data]")
@output_option
def down(config_file: str | None, data_dir: str | None, output: str) -> None:
    """Stop a local cluster.

    Stops services, brokers, the metadata process and the coordinator, in this order. Works whether the
    coordinator is running or was killed. Waits until every process has ended, and exits with 1 if one of them had to be
    killed. Brokers flush what they have acknowledged before they end.

    \b
    penstock cluster down --data-dir ./penstock-data
    """
    from penstock.apps.cli.tables import show_table
    from penstock.apps.control.cluster_down import stop_cluster
    from penstock.apps.control.system_settings import load_system

    try:
        flags = {} if data_dir is None else {"data_dir": data_dir}
        loaded, _ = load_system(config_file, os.environ, flags)
        root = Path(loaded.settings.data_dir).resolve()
        stopped = stop_cluster(root)
    except SettingsError as error:
        raise WrongSettings(str(error)) from error
    except StartError as error:
        raise StartFailed(str(error)) from error
    if output != TABLE:
        say_content([one._asdict() for one in stopped], output)
    elif not stopped:
        say(f"Nothing is running in {root}.")
    else:
        show_table(("service", "pid", "outcome"), [tuple(one) for one in stopped])
    sys.exit(0 if all(one.is_clean for one in stopped) else 1)
