"""The `penstock` command. Imports a subcommand only when it is used, so that a broker starts quickly."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from penstock.apps.cli.command_table import ALIASES, SECTIONS, CommandEntry
from penstock.apps.cli.failures import to_click_error
from penstock.apps.cli.options import GLOBAL_PREFIX
from penstock.apps.cli.plain_output import OUTPUTS
from penstock.apps.cli.security_options import profile_option
from penstock.client.errors import ClientError
from penstock.client.extras import extras
from penstock.core.version import __version__

HELP_COLUMNS = 80

EXIT_CODES = """\b
Exit codes:
  0  success
  1  the broker could not start, or a local failure
  2  invalid usage or settings
  3  no broker answers
  4  topic or partition not found
  5  rejected by the broker, or invalid request"""


class LazyGroup(click.Group):
    """A group whose commands are named as `module:attribute` and imported on use, listed by section."""

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, CommandEntry]],
        aliases: Mapping[str, str],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.aliases = aliases
        self.lazy = {name: entry.target for section in sections.values() for name, entry in section.items()}

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
        name = self.aliases.get(cmd_name, cmd_name)
        if name not in self.lazy:
            return None
        module, _, attribute = self.lazy[name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest a command for a wrong name, and reject options before a command that does not have them."""
        if not ctx.resilient_parsing and args[0][:1] != "-" and self.get_command(ctx, args[0]) is None:
            self._refuse(ctx, args[0])
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            _check_globals(ctx, [args[0], *rest], command)
        return name, command, rest

    def _refuse(self, ctx: click.Context, word: str) -> None:
        import difflib

        near = difflib.get_close_matches(word, [*self.lazy, *self.aliases], n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "See: penstock --help"
        ctx.fail(f"No such command {word!r}. {hint}")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, entries in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.summary) for name, entry in entries.items()])


def _check_globals(ctx: click.Context, words: list[str], command: click.Command) -> None:
    path = words[:1]
    for word in words[1:]:
        inner = command.get_command(ctx, word) if isinstance(command, click.Group) else None
        if inner is None:
            break
        command, path = inner, [*path, word]
    if isinstance(command, click.Group):
        return  # it shows its help, or fails by itself
    known = {param.name for param in command.params}
    for name, value in ctx.params.items():
        option = name.removeprefix(GLOBAL_PREFIX)
        if value is not None and option != name and option not in known:
            ctx.fail(f"`penstock {' '.join(path)}` has no option --{option}.")


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    aliases=ALIASES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_COLUMNS},
    epilog=EXIT_CODES,
)
@click.option(
    "--bootstrap",
    f"{GLOBAL_PREFIX}bootstrap",
    metavar="HOST:PORT",
    help="Address of the broker, for any command that has this option.",
)
@click.option(
    "-o",
    "--output",
    f"{GLOBAL_PREFIX}output",
    type=click.Choice(OUTPUTS),
    help="Output format, for any command that has this option.",
)
@click.version_option(__version__, prog_name="penstock")
@profile_option
def cli(**_globals: Any) -> None:
    """One durable, partitioned log that speaks Kafka's wire protocol.

    \b
    penstock start                  # run a broker
    penstock pub hello "a message"  # write a record
    penstock sub hello              # read the topic
    penstock status                 # show brokers, topics and groups
    """


def main() -> None:
    """Run the command line and exit with one of the documented codes."""
    cli()
