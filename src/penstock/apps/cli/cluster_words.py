"""`penstock cluster broker|producer|consumer|…`: the words of the coordinator's console as commands.

They find a running coordinator by its HTTP API; the parser and the answers are those of the console.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli.client import split_address
from penstock.apps.cli.failures import (
    INTERRUPTED,
    NoBroker,
    ObjectNotFound,
    RefusedByBroker,
    StartFailed,
    WrongSettings,
)
from penstock.apps.cli.options import output_option
from penstock.apps.cli.plain_output import JSON, YAML, say_content
from penstock.apps.cli.terminal import say
from penstock.core.model import Address

if TYPE_CHECKING:
    from penstock.apps.control.coordinator_client import CoordinatorClient

API_DEFAULT = "127.0.0.1:8080"
DATA_DIR_DEFAULT = "./penstock-data"
STATUS_S_MAX = 0.5
"""For a look at services that the user has not asked for."""

_FAILURES: dict[int, type[click.ClickException]] = {
    one.exit_code: one for one in (WrongSettings, NoBroker, ObjectNotFound, RefusedByBroker)
}

api_option = click.option(
    "--api",
    envvar="PENSTOCK_API",
    default=API_DEFAULT,
    show_default=True,
    show_envvar=True,
    metavar="HOST:PORT",
    help="Address of the coordinator's HTTP API.",
)
_data_dir_option = click.option(
    "--data-dir",
    envvar="PENSTOCK_DATA_DIR",
    default=DATA_DIR_DEFAULT,
    show_default=True,
    show_envvar=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory of the cluster, with the coordinator's token in run/console-token.",
)
_token_file_option = click.option(
    "--token-file",
    envvar="PENSTOCK_TOKEN_FILE",
    show_envvar=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the coordinator's token, instead of that in --data-dir.",
)


def _coordinator_options(command: Callable[..., None]) -> Callable[..., None]:
    return api_option(_data_dir_option(_token_file_option(command)))


def _word_command(name: str, words: str, summary: str, example: str, line: str = "") -> click.Command:
    """A command whose arguments are the rest of a line of the console."""

    @click.command(name, help=f"{summary}\n\n\b\npenstock cluster {example}")
    @click.argument("words", nargs=-1, metavar=words)
    @click.option("--json", "as_json", is_flag=True, help="Print JSON; same as -o json.")
    @output_option
    @_coordinator_options
    def run(
        words: tuple[str, ...], as_json: bool, output: str, api: str, data_dir: Path, token_file: Path | None
    ) -> None:
        client = _connect(api, data_dir, token_file)
        _run_line(" ".join((line or name, *words)), client, JSON if as_json else output)

    return run


def _connect(api: str, data_dir: Path, token_file: Path | None) -> CoordinatorClient:
    from penstock.apps.control.console_token import TOKEN_FILE
    from penstock.apps.control.coordinator_client import CoordinatorClient

    return CoordinatorClient(_address(api), token_file or data_dir / "run" / TOKEN_FILE)


def _address(api: str) -> Address:
    try:
        return Address(*split_address(api))
    except click.BadParameter as error:
        raise click.BadParameter(error.message, param_hint="'--api'") from None


def _run_line(line: str, client: CoordinatorClient, output: str) -> None:
    from penstock.apps.control.commands import ConsoleError
    from penstock.apps.control.console_token import TokenError
    from penstock.apps.control.coordinator_client import NoCoordinator

    try:
        answer = client.run(line)
    except ConsoleError as error:
        raise _FAILURES[error.failure.exit_status](str(error)) from error
    except NoCoordinator as error:
        raise NoBroker(str(error)) from error
    except TokenError as error:
        raise StartFailed(str(error)) from error
    if output == YAML:
        say_content(json.loads(answer.json_text()), output)
    else:
        say(answer.json_text() if output == JSON else answer.text)


@click.command()
@_coordinator_options
def console(api: str, data_dir: Path, token_file: Path | None) -> None:
    """Open the console of a running coordinator.

    Takes commands from the terminal, or line by line from a pipe. Leaving it does not stop the cluster.

    \b
    penstock cluster console
    """
    import asyncio

    from penstock.apps.control.coordinator_client import NoCoordinator

    try:
        asyncio.run(_converse(_connect(api, data_dir, token_file)))
    except NoCoordinator as error:
        raise NoBroker(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


async def _converse(client: CoordinatorClient) -> None:
    from penstock.apps.control.remote_peer import remote_peer
    from penstock.apps.control.terminal import run_lines

    async with remote_peer(client) as peer:
        if sys.stdin.isatty() and sys.stdout.isatty():
            from penstock.apps.control.prompt import run_prompt

            await run_prompt(peer)
        else:
            await run_lines(peer, sys.stdin.fileno(), say)


def services_of(api: str, cluster_id: str) -> list[dict[str, Any]] | None:
    """The services of the coordinator at an address, if one answers there and its cluster is this one."""
    from penstock.apps.control.commands import ConsoleError
    from penstock.apps.control.coordinator_client import NoCoordinator

    try:
        found = _connect(api, Path(), None).status(STATUS_S_MAX)
    except (NoCoordinator, ConsoleError):
        return None
    if found.get("cluster_id") != cluster_id:
        return None
    services: list[dict[str, Any]] = found["services"]
    return services


def services_text(services: list[dict[str, Any]]) -> str:
    """`8, all healthy`, or how many are not and which."""
    others = [f"{one['name']} {one['health']}" for one in services if one["health"] != "healthy"]
    return f"{len(services)}, {', '.join(others) or 'all healthy'}"


_SERVICE = "start|stop|restart|kill"
WORDS = (
    _word_command(
        "services", "", "List all services of a local cluster and their health.", "services", "status"
    ),
    _word_command(
        "broker",
        f"list|{_SERVICE} [ID]",
        "List the brokers of a local cluster; start, stop, restart or kill one.",
        "broker restart 2",
    ),
    _word_command(
        "producer", _SERVICE, "Start, stop, restart or kill the producer service.", "producer restart"
    ),
    _word_command(
        "consumer", _SERVICE, "Start, stop, restart or kill the consumer service.", "consumer restart"
    ),
    _word_command(
        "metadata", _SERVICE, "Start, stop, restart or kill the metadata process.", "metadata restart"
    ),
    _word_command("kill", "SERVICE", "Kill a service with SIGKILL; it is started again.", "kill broker-2"),
    _word_command("restart", "all", "Restart all services, one broker at a time.", "restart all"),
    _word_command("leaders", "", "Show the partitions that each broker leads.", "leaders"),
    _word_command("lag", "", "Show the lag of consumer groups by topic.", "lag"),
    _word_command("logs", "SERVICE [LINES]", "Show the end of a service's log.", "logs broker-1 50"),
    console,
)
"""Commands of `penstock cluster`."""
