"""All commands of the command line that do something, by the words that a user types."""

from __future__ import annotations

from collections.abc import Iterator

import click

from penstock.apps.cli.main import cli


def _below(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from _below(child, (*path, name))


LEAVES = dict(_below(cli, ()))
