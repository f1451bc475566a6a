"""The `penstock` command. Imports a subcommand only when it is used, so that a broker starts quickly."""

from __future__ import annotations

import importlib
from typing import Any

import click

from penstock.apps.cli.failures import to_click_error
from penstock.apps.cli.security_options import profile_option
from penstock.client.errors import ClientError
from penstock.client.extras import extras
from penstock.core.version import __version__

EXIT_CODES = """\b
Exit codes:
  0  success
  1  the broker could not start, or a local failure
  2  invalid usage or settings
  3  no broker answers
  4  topic or partition not found
  5  rejected by the broker, or invalid request"""


class LazyGroup(click.Group):
    """A group whose commands are named as `module:attribute` and imported on use."""

    def __init__(self, *args: Any, lazy: dict[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def invoke(self, ctx: click.Context) -> Any:
        """Translate errors of a client, and missing extras, to a message and an exit code. Done only here."""
        try:
            with extras():
                return super().invoke(ctx)
        except ClientError as error:
            raise to_click_error(error) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module, _, attribute = self.lazy[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=LazyGroup,
    lazy={
        "start": "penstock.apps.cli.start:start",
        "cluster": "penstock.apps.cli.cluster:cluster",
        "coordinator": "penstock.apps.cli.cluster:up",
        "producer-service": "penstock.apps.cli.gateway:producer_service",
        "consumer-service": "penstock.apps.cli.gateway:consumer_service",
        "pub": "penstock.apps.cli.pub:pub",
        "sub": "penstock.apps.cli.sub:sub",
        "topic": "penstock.apps.cli.topic:topic",
        "txn": "penstock.apps.cli.txn:txn",
        "log": "penstock.apps.cli.log_files:log",
        "group": "penstock.apps.cli.group:group",
        "create-topic": "penstock.apps.cli.queue:create_topic",
        "create-subscription": "penstock.apps.cli.queue:create_subscription",
        "publish": "penstock.apps.cli.queue:publish",
        "join-subscription": "penstock.apps.cli.queue:join_subscription",
        "subscribe": "penstock.apps.cli.queue:subscribe",
        "subscription": "penstock.apps.cli.subscription:subscription",
        "sql": "penstock.apps.cli.sql:sql",
        "bench": "penstock.apps.cli.bench:bench",
        "pipeline": "penstock.apps.cli.pipeline:pipeline",
        "config": "penstock.apps.cli.config:config",
        "security": "penstock.apps.cli.security:security",
        "profile": "penstock.apps.cli.profile:profile",
        "health": "penstock.apps.cli.health:health",
        "completion": "penstock.apps.cli.completion:completion",
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=EXIT_CODES,
)
@click.version_option(__version__, prog_name="penstock")
@profile_option
def cli() -> None:
    """One durable, partitioned log that speaks Kafka's wire protocol.

    Start a broker with `penstock start`, write with `penstock pub`, read with `penstock sub`.
    """


def main() -> None:
    """Run the command line and exit with one of the documented codes."""
    cli()
