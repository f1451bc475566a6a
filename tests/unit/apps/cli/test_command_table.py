"""What every command has: a summary, help that fits 80 columns, examples that parse, machine-readable output."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from penstock.apps.cli.command_table import ALIASES, COMMANDS
from penstock.apps.cli.main import HELP_COLUMNS, cli
from penstock.apps.cli.output_schemas import SCHEMAS
from unit.apps.cli.command_leaves import LEAVES

WITHOUT_OUTPUT = {
    "start": "a server; --ready-file",
    "cluster up": "a server; --json and --ready-file",
    "coordinator": "a server; --json and --ready-file",
    "producer-service": "a server; --ready-file",
    "consumer-service": "a server; --ready-file",
    "cluster console": "a conversation",
    "pipeline run": "a server; `pipeline status` has its state",
    "bench compare": "writes files",
    "completion": "a script for a shell",
}
"""Commands without -o, and why."""


def help_of(path: str) -> str:
    parent, command = None, cli
    for word in ["penstock", *path.split()]:
        if parent is not None:
            assert isinstance(parent.command, click.Group)
            found = parent.command.get_command(parent, word)
            assert found is not None
            command = found  # type: ignore[assignment]
        parent = click.Context(
            command,
            parent=parent,
            info_name=word,
            terminal_width=HELP_COLUMNS,
            max_content_width=HELP_COLUMNS,
        )
    assert parent is not None
    return parent.get_help()


def examples(path: str) -> list[str]:
    lines = help_of(path).splitlines()
    return [line.strip() for line in lines if re.match(r'  (?:eval "\$\()?penstock ', line)]


def test_the_summary_is_the_first_sentence_of_the_command() -> None:
    context = click.Context(cli)
    for name, entry in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None
        first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
        assert first == entry.summary, name


def test_aliases_are_the_same_commands() -> None:
    context = click.Context(cli)
    for alias, name in ALIASES.items():
        assert cli.get_command(context, alias) is cli.get_command(context, name)
        assert f"penstock {alias}" in help_of(name)


@pytest.mark.parametrize("path", ["", *LEAVES, "topic", "group", "cluster", "pipeline"])
def test_help_fits_the_terminal(path: str) -> None:
    assert [line for line in help_of(path).splitlines() if len(line) > HELP_COLUMNS] == []


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_has_an_example_that_parses(path: str) -> None:
    found = examples(path)
    assert found, "no line starts with `penstock`"
    for line in found:
        words = shlex.split(
            line.removeprefix('eval "$(').removesuffix(')"').partition(" < ")[0], comments=True
        )
        assert (
            words[0] == "penstock" and words[1 : 1 + len(path.split())] == path.split()
        ) or path == "coordinator"
        command = LEAVES[path]
        rest = words[1 + len(path.split()) :] if path != "coordinator" else words[3:]
        command.make_context(path, rest)


@pytest.mark.parametrize("path", LEAVES)
def test_every_command_has_machine_readable_output(path: str) -> None:
    names = {param.name for param in LEAVES[path].params}
    assert ("output" in names) != (path in WITHOUT_OUTPUT)
    assert (path in SCHEMAS) == ("output" in names)


def test_queue_words_say_that_they_are_the_queues() -> None:
    for path, command in LEAVES.items():
        has_queue = any(param.name == "queue" for param in command.params)
        if has_queue and not path.startswith(("bench", "profile")):
            context = click.Context(cli)
            top = cli.get_command(context, path.split()[0])
            assert top is not None and (top.help or "").startswith("Queue:"), path
