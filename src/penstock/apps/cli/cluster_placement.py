"""`penstock cluster elect|reassign`: chooses leaders and replicas. The brokers decide."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli import cluster_moves
from penstock.apps.cli.cluster_moves import (
    confirm_moves,
    dry_run_option,
    report_started,
    show_plan,
    wait_option,
    yes_option,
)
from penstock.apps.cli.cluster_status import UNKNOWN, Content
from penstock.apps.cli.failures import RefusedByBroker
from penstock.apps.cli.options import bootstrap_option, output_option
from penstock.apps.cli.terminal import counted
from penstock.apps.cli.view import View

if TYPE_CHECKING:
    from penstock.apps.cli.cluster_source import ClusterSource

ELECTIONS, REASSIGNMENTS = "/api/v1/cluster/elections", "/api/v1/cluster/reassignments"
_LOSS = (
    "The replica that is elected may lack records that were acknowledged: those that only the other replicas have are"
    " lost, and readers that have passed them will not see an error. Prefer to start one of the brokers that hold the"
    " partition."
)
_ANY_DIRECTORY = "any"

places_argument = click.argument("places", nargs=-1, metavar="[TOPIC[:PARTITION]]...")


# -- elect


@click.command()
@places_argument
@click.option("--all", "takes_all", is_flag=True, help="All partitions that need such an election.")
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect any replica of partitions without a leader, although acknowledged records may be lost.",
)
@click.option("--yes", is_flag=True, help="Do not ask before an unclean election.")
@bootstrap_option
@output_option
def elect(
    places: tuple[str, ...], takes_all: bool, unclean: bool, yes: bool, bootstrap: str, output: str
) -> None:
    """Elect the preferred replica, the first of its replicas, as the leader of each partition.

    It is elected if it is in sync; no record is lost. With --unclean any replica of a partition without a leader is
    elected: the last resort if the brokers that hold its records do not come back.

    \b
    penstock cluster elect --all
    penstock cluster elect orders:0
    """
    if takes_all == bool(places):
        raise click.UsageError("Name topics or partitions, or use --all.")
    source = cluster_moves.source_of(bootstrap)
    listed = [_read_place(one) for one in places]
    body: Content = {"kind": "unclean" if unclean else "preferred"}
    if listed:
        body["partitions"] = listed
    if unclean and not yes:
        _confirm_loss(source, listed)
    found = source.change(ELECTIONS, body=body)
    _show_elections(found, output)
    if found["failed"]:
        reasons = {one["error"]["detail"] for one in found["elections"] if "error" in one}
        raise RefusedByBroker(
            f"{counted(found['failed'], 'partition')} without the wanted leader. "
            + "; ".join(sorted(reasons))
        )


def _confirm_loss(source: ClusterSource, listed: list[Content]) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"{_LOSS} Add --yes to elect nevertheless.")
    offline = source.partitions(["offline"], with_internal=True).content["partitions"]
    if listed:
        offline = [one for one in offline if any(_is_named(one, named) for named in listed)]
    rows: list[tuple[object, ...]] = [
        (
            one["topic"],
            one["partition"],
            _ids(one["replicas"]),
            _ids(one["offline"]),
            _ids(one["last_known_elr"] or ()),
        )
        for one in offline
    ]
    columns = ("topic", "partition", "replicas", "down", "last leader")
    View({}, [f"{counted(len(rows), 'partition')} without a leader. {_LOSS}"], columns, rows).show("table")
    click.confirm("Elect?", abort=True)


def _is_named(one: Content, named: Content) -> bool:
    return all(one[name] == value for name, value in named.items())


def _show_elections(found: Content, output: str) -> None:
    rows: list[tuple[object, ...]] = [
        (
            one["topic"],
            one["partition"],
            "failed" if "error" in one else "elected" if one["elected"] else "not needed",
            UNKNOWN if one.get("leader") is None else one["leader"],
        )
        for one in found["elections"]
    ]
    elected = sum(one["elected"] for one in found["elections"])
    line = f"{counted(elected, 'leader')} elected."
    if not rows:
        line = "No election is needed."
    View(found, [line], ("topic", "partition", "election", "leader"), rows).show(output)


# -- reassign


@click.command()
@places_argument
@click.option("--to", "brokers", metavar="ID,ID,...", help="The wanted replicas, the preferred leader first.")
@click.option(
    "--factor",
    type=click.IntRange(min=1),
    metavar="N",
    help="The wanted number of replicas. The brokers are chosen: other racks first, then those that hold least.",
)
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Partitions and replicas in the JSON format of kafka-reassign-partitions.",
)
@click.option("--cancel", is_flag=True, help="Cancel: partitions stay where they were. Also with --file.")
@dry_run_option
@yes_option
@wait_option
@bootstrap_option
@output_option
def reassign(
    places: tuple[str, ...],
    brokers: str | None,
    factor: int | None,
    file: Path | None,
    cancel: bool,
    dry_run: bool,
    yes: bool,
    wait: bool,
    bootstrap: str,
    output: str,
) -> None:
    """Change the replicas of topics or partitions.

    New replicas are copied first; the present ones serve until then. All changes start, or none if one is refused.

    \b
    penstock cluster reassign orders --factor 3
    penstock cluster reassign orders:0 --to 1,2,3 --dry-run
    """
    if dry_run and (yes or wait):
        raise click.UsageError("--dry-run cannot be combined with --yes or --wait.")
    wanted = _wanted(places, brokers, factor, file, cancel=cancel)
    source, body = cluster_moves.source_of(bootstrap), {"reassignments": wanted}
    if dry_run or not (yes or cancel):
        planned = source.change(REASSIGNMENTS, body=body, dry_run="true")["moves"]
        if dry_run:
            show_plan(source, planned, output)
            return
        confirm_moves(source, planned, output)
    started = source.change(REASSIGNMENTS, body=body, dry_run="false")["moves"]
    report_started(source, started, output, wait=wait)


def _wanted(
    places: tuple[str, ...], brokers: str | None, factor: int | None, file: Path | None, *, cancel: bool
) -> list[Content]:
    """The entries of the request."""
    if sum((brokers is not None, factor is not None, file is not None or cancel)) != 1:
        raise click.UsageError("Give one of --to, --factor, --file and --cancel.")
    if (file is None) != bool(places):
        raise click.UsageError("Name topics or partitions, or give a --file.")
    if file is not None:
        entries = _read_file(file)
        if not cancel:
            return entries
        return [{"topic": one["topic"], "partition": one["partition"], "cancel": True} for one in entries]
    if cancel:
        how: Content = {"cancel": True}
    elif factor is not None:
        how = {"replication_factor": factor}
    else:
        how = {"replicas": _read_ids(brokers or "")}
    return [{**_read_place(one), **how} for one in places]


def _read_place(text: str) -> Content:
    topic, colon, partition = text.partition(":")
    if not topic or (colon and not (partition.isascii() and partition.isdecimal())):
        raise click.BadParameter(f"{text!r} is not of the form TOPIC or TOPIC:PARTITION.")
    return {"topic": topic, "partition": int(partition)} if colon else {"topic": topic}


def _read_ids(text: str) -> list[int]:
    words = [one.strip() for one in text.split(",")]
    if not all(one.isascii() and one.isdecimal() for one in words):
        raise click.BadParameter(f"{text!r} is not a list of broker ids such as 1,2,3.", param_hint="'--to'")
    return [int(one) for one in words]


def _read_file(file: Path) -> list[Content]:
    """Entries of the file. Directories of replicas cannot be chosen: a broker has one."""
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
        if content["version"] != 1:
            raise ValueError("its version is not 1")
        entries = []
        for one in content["partitions"]:
            directories = one.get("log_dirs", [])
            if any(each != _ANY_DIRECTORY for each in directories):
                raise ValueError(f"log_dirs must be {_ANY_DIRECTORY!r}: a broker has one directory")
            entries.append({name: one[name] for name in ("topic", "partition", "replicas")})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        example = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}'
        raise click.BadParameter(
            f"{file} is not a reassignment: {why}. Expected: {example}", param_hint="'--file'"
        ) from error
    if not entries:
        raise click.BadParameter(f"{file} names no partitions.", param_hint="'--file'")
    return entries


def _ids(broker_ids: list[int] | tuple[int, ...]) -> str:
    return ", ".join(map(str, broker_ids)) or UNKNOWN


PLACEMENT = (elect, reassign)
"""Commands of `penstock cluster`."""
