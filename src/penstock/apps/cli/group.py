"""`penstock group`: list, describe, lag, seek, delete. The broker rejects a seek of a group with active members."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.apps.cli.options import bootstrap_option, output_option, watch_option
from penstock.apps.cli.positions import GRAMMAR, parse_start
from penstock.apps.cli.terminal import counted, say
from penstock.apps.cli.watch import show_repeatedly
from penstock.core.printable import escape

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.apps.cli.group_admin import OffsetMove
    from penstock.client.descriptions import Lag

group_argument = click.argument("name", metavar="GROUP")
_NOTHING_COMMITTED = "{} has no committed offsets."
LAG_COLUMNS = ("topic", "partition", "committed", "end", "lag", "seconds behind")


@click.group()
def group() -> None:
    """Inspect consumer groups and reset their offsets."""


@group.command("list")
@bootstrap_option
@output_option
def list_groups(bootstrap: str, output: str) -> None:
    """List groups."""
    from penstock.apps.cli.client import connect_admin
    from penstock.apps.cli.tables import show_table

    groups = connect_admin(bootstrap).groups()
    if output == "json":
        say(json.dumps([asdict(one) for one in groups]))
    elif groups:
        show_table(("group", "kind", "state"), [(one.group, one.kind, one.state) for one in groups])
    else:
        say("No groups yet. Join one with: penstock sub --topic NAME --group GROUP")


@group.command()
@group_argument
@bootstrap_option
@output_option
def describe(name: str, bootstrap: str, output: str) -> None:
    """Show the members of a group and their partitions."""
    from penstock.apps.cli.client import connect_admin
    from penstock.apps.cli.tables import show_table

    found = connect_admin(bootstrap).describe_group(name)
    if output == "json":
        say(json.dumps(asdict(found), indent=2))
        return
    assignor = f", assignor {found.assignor}" if found.assignor else ""
    say(f"{name}: {found.kind} group, {found.state}{assignor}, {counted(len(found.members), 'member')}")
    if found.members:
        rows = [(one.member, one.client, one.host, ", ".join(one.partitions) or "-") for one in found.members]
        show_table(("member", "client", "host", "partitions"), rows)


@group.command()
@group_argument
@watch_option
@bootstrap_option
@output_option
def lag(name: str, is_watched: bool, bootstrap: str, output: str) -> None:
    """Show the lag of a group: in records, and as the age of the oldest unread record."""
    from penstock.apps.cli.group_admin import GroupAdmin

    admin = GroupAdmin(bootstrap)

    def fetch() -> tuple[list[Lag], list[float | None]]:
        rows = admin.admin.lag(name)
        return rows, admin.ages(rows)

    def show(found: tuple[list[Lag], list[float | None]]) -> None:
        _show_lag(name, *found, output)

    if is_watched:
        show_repeatedly(fetch, show, lambda found: _lag_table(name, *found), output)
    else:
        show(fetch())


def _show_lag(name: str, rows: list[Lag], ages: list[float | None], output: str) -> None:
    if output == "json":
        shown = [{**asdict(row), "seconds": age} for row, age in zip(rows, ages, strict=True)]
        say(json.dumps(shown))
    elif rows:
        from penstock.apps.cli.tables import show_table

        show_table(LAG_COLUMNS, _lag_cells(rows, ages), title=_lag_title(name, rows))
    else:
        say(_NOTHING_COMMITTED.format(name))


def _lag_table(name: str, rows: list[Lag], ages: list[float | None]) -> Table | str:
    from penstock.apps.cli.tables import make_table

    if not rows:
        return escape(_NOTHING_COMMITTED.format(name))
    return make_table(LAG_COLUMNS, _lag_cells(rows, ages), title=_lag_title(name, rows))


def _lag_title(name: str, rows: list[Lag]) -> str:
    return f"{name}: {counted(sum(row.lag for row in rows), 'record')} behind"


def _lag_cells(rows: list[Lag], ages: list[float | None]) -> list[tuple[object, ...]]:
    return [
        (
            row.topic,
            row.partition,
            "-" if row.committed is None else row.committed,
            row.end,
            row.lag,
            "?" if age is None else f"{age:.1f}",
        )
        for row, age in zip(rows, ages, strict=True)
    ]


@group.command(epilog=f"--to takes: {GRAMMAR}.")
@group_argument
@click.option("--to", "target", required=True, metavar="POSITION", help="The new position.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    help="Only this topic; may be repeated.  [default: all topics with committed offsets]",
)
@click.option("--dry-run", is_flag=True, help="Show the changes without applying them.")
@bootstrap_option
@output_option
def seek(name: str, target: str, topics: tuple[str, ...], dry_run: bool, bootstrap: str, output: str) -> None:
    """Reset the offsets of a group with no active members."""
    try:
        start = parse_start(target, int(time.time() * 1000))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--to'") from error
    from penstock.apps.cli.group_admin import GroupAdmin

    admin = GroupAdmin(bootstrap)
    moves = admin.plan_seek(name, topics, start)
    if not dry_run:
        admin.seek(name, moves)
    _show_moves(moves, output, dry_run)


def _show_moves(moves: list[OffsetMove], output: str, dry_run: bool) -> None:
    if output == "json":
        say(json.dumps([{**asdict(move), "done": not dry_run} for move in moves]))
        return
    from penstock.apps.cli.tables import show_table

    cells = [
        (one.topic, one.partition, "-" if one.before is None else one.before, one.after) for one in moves
    ]
    show_table(("topic", "partition", "before", "after"), cells, title="would move" if dry_run else "moved")


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@bootstrap_option
@output_option
def delete(names: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Delete groups with no active members, and their committed offsets."""
    from penstock.apps.cli.client import connect_admin

    admin = connect_admin(bootstrap)
    for name in names:
        admin.delete_group(name)
        say(json.dumps({"group": name, "deleted": True}) if output == "json" else f"{name}: deleted")
