"""`penstock group`: list, describe, lag, seek, delete. The broker rejects a seek of a group with active members."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.apps.cli.failures import ObjectNotFound
from penstock.apps.cli.name_completion import complete_group, complete_topic
from penstock.apps.cli.options import bootstrap_option, output_option, watch_option
from penstock.apps.cli.plain_output import TABLE, say_content, say_next
from penstock.apps.cli.positions import GRAMMAR, parse_start
from penstock.apps.cli.terminal import counted, say
from penstock.apps.cli.view import View, show_view

if TYPE_CHECKING:
    from penstock.apps.cli.group_admin import OffsetMove
    from penstock.client.descriptions import Lag

group_argument = click.argument("name", metavar="GROUP", shell_complete=complete_group)
_NOTHING_COMMITTED = "{} has no committed offsets."
_NO_GROUPS = "No groups yet. Join one with: penstock sub TOPIC --group GROUP"
_SUMMARY_COLUMNS = ("group", "kind", "state", "topics", "partitions", "lag")
LAG_COLUMNS = ("topic", "partition", "committed", "end", "lag", "seconds behind")


@click.group()
def group() -> None:
    """Inspect consumer groups and reset their offsets."""


@group.command("list")
@bootstrap_option
@output_option
def list_groups(bootstrap: str, output: str) -> None:
    """List groups.

    \b
    penstock group list
    """
    from penstock.apps.cli.client import connect_admin
    from penstock.apps.cli.tables import show_table

    groups = connect_admin(bootstrap).groups()
    if output != TABLE:
        say_content([asdict(one) for one in groups], output)
    elif groups:
        show_table(("group", "kind", "state"), [(one.group, one.kind, one.state) for one in groups])
    else:
        say(_NO_GROUPS)


@group.command()
@group_argument
@bootstrap_option
@output_option
def describe(name: str, bootstrap: str, output: str) -> None:
    """Show the members of a group and their partitions.

    \b
    penstock group describe billing
    """
    from penstock.apps.cli.client import connect_admin
    from penstock.apps.cli.tables import show_table

    found = connect_admin(bootstrap).describe_group(name)
    if output != TABLE:
        say_content(asdict(found), output, indent=2)
        return
    assignor = f", assignor {found.assignor}" if found.assignor else ""
    say(f"{name}: {found.kind} group, {found.state}{assignor}, {counted(len(found.members), 'member')}")
    if found.members:
        rows = [(one.member, one.client, one.host, ", ".join(one.partitions) or "-") for one in found.members]
        show_table(("member", "client", "host", "partitions"), rows)


@group.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_group)
@watch_option
@bootstrap_option
@output_option
def lag(names: tuple[str, ...], is_watched: bool, bootstrap: str, output: str) -> None:
    """Show how far groups are behind.

    One group is shown by partition: the lag in records, and the age of its oldest unread record. Without GROUP, or with
    several, each group is one line.

    \b
    penstock group lag
    penstock group lag billing --watch
    """
    show_view(_lag_reader(names, bootstrap), output, is_watched=is_watched)


def _lag_reader(names: tuple[str, ...], bootstrap: str) -> Callable[[], View]:
    if len(names) == 1:
        from penstock.apps.cli.group_admin import GroupAdmin

        admin = GroupAdmin(bootstrap)

        def read_one() -> View:
            rows = admin.admin.lag(names[0])
            return _lag_view(names[0], rows, admin.ages(rows))

        return read_one

    from penstock.apps.cli.cluster_source import ClusterSource

    source = ClusterSource(bootstrap)

    def read_all() -> View:
        found = source.groups()
        _check_known(names, [one.group for one in found])
        chosen = [one for one in found if not names or one.group in names]
        rows = [
            (one.group, one.kind, one.state, ", ".join(one.topics) or "-", one.partitions, _known(one.lag))
            for one in chosen
        ]
        return View([asdict(one) for one in chosen], [] if rows else [_NO_GROUPS], _SUMMARY_COLUMNS, rows)

    return read_all


def _check_known(names: tuple[str, ...], known: list[str]) -> None:
    missing = [name for name in names if name not in known]
    if missing:
        raise ObjectNotFound(f"There is no group {missing[0]}. See: penstock group list")


def _known(lag: int | None) -> object:
    return "?" if lag is None else lag


def _lag_view(name: str, rows: list[Lag], ages: list[float | None]) -> View:
    content = [{**asdict(row), "seconds": age} for row, age in zip(rows, ages, strict=True)]
    title = f"{name}: {counted(sum(row.lag for row in rows), 'record')} behind"
    lines = [title if rows else _NOTHING_COMMITTED.format(name)]
    return View(content, lines, LAG_COLUMNS, _lag_cells(rows, ages))


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
    shell_complete=complete_topic,
    help="Only this topic; may be repeated.  [default: all topics with committed offsets]",
)
@click.option(
    "--partition",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only this partition, of the one topic in --topic.",
)
@click.option("--dry-run", is_flag=True, help="Show the changes without applying them.")
@bootstrap_option
@output_option
def seek(
    name: str,
    target: str,
    topics: tuple[str, ...],
    partition: int | None,
    dry_run: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Reset the offsets of a group with no active members.

    \b
    penstock group seek billing --to @-1h --dry-run
    penstock group seek billing --to 42 --topic orders --partition 0
    """
    if partition is not None and len(topics) != 1:
        raise click.UsageError("--partition needs exactly one --topic, as in: --topic orders --partition 0")
    try:
        start = parse_start(target, int(time.time() * 1000))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--to'") from error
    from penstock.apps.cli.group_admin import GroupAdmin

    admin = GroupAdmin(bootstrap)
    moves = admin.plan_seek(name, topics, start, partition)
    if not dry_run:
        admin.seek(name, moves)
    _show_moves(moves, output, dry_run)


def _show_moves(moves: list[OffsetMove], output: str, dry_run: bool) -> None:
    if output != TABLE:
        say_content([{**asdict(move), "done": not dry_run} for move in moves], output)
        return
    from penstock.apps.cli.tables import show_table

    cells = [
        (one.topic, one.partition, "-" if one.before is None else one.before, one.after) for one in moves
    ]
    show_table(("topic", "partition", "before", "after"), cells, title="would move" if dry_run else "moved")


@group.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_group)
@bootstrap_option
@output_option
def delete(names: tuple[str, ...], bootstrap: str, output: str) -> None:
    """Delete groups with no active members, and their committed offsets.

    \b
    penstock group delete billing
    """
    from penstock.apps.cli.client import connect_admin

    admin = connect_admin(bootstrap)
    for name in names:
        admin.delete_group(name)
        if output == TABLE:
            say(f"{name}: deleted")
        else:
            say_next({"group": name, "deleted": True}, output)
