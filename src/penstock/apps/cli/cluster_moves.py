"""`penstock cluster rebalance|drain|decommission|moves`: moves partitions. The brokers decide and copy."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli.cluster_status import UNKNOWN, Content, present
from penstock.apps.cli.failures import ObjectNotFound, RefusedByBroker
from penstock.apps.cli.options import bootstrap_option, output_option, watch_option
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.terminal import counted, say
from penstock.apps.cli.view import View

if TYPE_CHECKING:
    from penstock.apps.cli.cluster_source import ClusterSource

POLL_SECONDS = 1.0
_MIB = 1 << 20

broker_argument = click.argument("broker_id", type=click.IntRange(min=0), metavar="BROKER")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the moves and their bytes; start none.")
yes_option = click.option("--yes", is_flag=True, help="Start the moves without asking.")
wait_option = click.option(
    "--wait", is_flag=True, help="Return when the partitions have arrived; shows progress."
)


@click.command()
@dry_run_option
@yes_option
@wait_option
@bootstrap_option
@output_option
def rebalance(dry_run: bool, yes: bool, wait: bool, bootstrap: str, output: str) -> None:
    """Move partitions so that all brokers hold about the same number.

    Moves as few as possible. Partitions stay available: their records are copied first, and the switch takes
    milliseconds. Without --dry-run and --yes the command shows the moves and asks.

    \b
    penstock cluster rebalance --dry-run
    penstock cluster rebalance --yes --wait
    """
    _start("/api/v1/cluster/rebalance", dry_run, yes, wait, bootstrap, output)


@click.command()
@broker_argument
@click.option("--undo", is_flag=True, help="Use the broker again, and cancel the moves away from it.")
@dry_run_option
@yes_option
@wait_option
@bootstrap_option
@output_option
def drain(
    broker_id: int, undo: bool, dry_run: bool, yes: bool, wait: bool, bootstrap: str, output: str
) -> None:
    """Move all partitions away from a broker, and place no new ones there.

    The broker stays a member of the cluster. What cannot be moved now, because no other broker is available, is moved
    later.

    \b
    penstock cluster drain 3 --wait
    penstock cluster drain 3 --undo
    """
    path = f"/api/v1/cluster/brokers/{broker_id}/drain"
    if undo:
        if dry_run or wait:
            raise click.UsageError("--undo cannot be combined with --dry-run or --wait.")
        source_of(bootstrap).change(path, method="DELETE")
        say_result(output, {"broker": broker_id, "draining": False}, f"Broker {broker_id} is used again.")
        return
    # The controller starts the moves, maybe later: the broker is drained once it is empty.
    _start(path, dry_run, yes, wait, bootstrap, output, lambda source: _replicas(source, broker_id))


@click.command()
@broker_argument
@yes_option
@bootstrap_option
@output_option
def decommission(broker_id: int, yes: bool, bootstrap: str, output: str) -> None:
    """Remove a broker from the cluster: drain it, wait until it is empty, and remove it once it is stopped.

    A running broker is drained. When it is empty, stop it and run the same command again.

    \b
    penstock cluster decommission 3
    """
    source = source_of(bootstrap)
    broker = _broker(source, broker_id)
    if not broker["fenced"]:
        path = f"/api/v1/cluster/brokers/{broker_id}/drain"
        if not yes and not broker["draining"]:
            confirm_moves(source, source.change(path, dry_run="true")["moves"], output)
        source.change(path, dry_run="false")
        await_moves(source, lambda: _replicas(source, broker_id))
        say_result(
            output,
            {"broker": broker_id, "state": "empty"},
            f"Broker {broker_id} is empty. Stop it, then run this command again to remove it.",
        )
        return
    if broker["replicas"]:
        raise RefusedByBroker(
            f"Broker {broker_id} is stopped and still holds {counted(broker['replicas'], 'partition')}: start it, so"
            " that they can be moved."
        )
    source.unregister(broker_id)
    say_result(
        output,
        {"broker": broker_id, "state": "removed"},
        f"Broker {broker_id} is no longer part of the cluster.",
    )


@click.command()
@click.option(
    "--cancel", is_flag=True, help="Cancel all moves: partitions stay where they were before the first one."
)
@wait_option
@watch_option
@bootstrap_option
@output_option
def moves(cancel: bool, wait: bool, is_watched: bool, bootstrap: str, output: str) -> None:
    """Show the moves in progress: bytes copied and left, and the rate.

    \b
    penstock cluster moves --watch
    """
    if cancel:
        source = source_of(bootstrap)
        found = source.moves()
        problems = source.cancel([(one["topic"], one["partition"]) for one in found])
        if problems:
            raise RefusedByBroker("Not all moves could be cancelled. " + "; ".join(problems))
        say_result(output, {"cancelled": len(found)}, f"{counted(len(found), 'move')} cancelled.")
    elif wait:
        source = source_of(bootstrap)
        await_moves(source, lambda: len(source.moves()))
        say_result(output, {"moves": []}, "No moves in progress.")
    else:
        present(bootstrap, output, _read_moves, is_watched=is_watched)


def _read_moves(source: ClusterSource) -> View:
    found = source.moves()
    rows: list[tuple[object, ...]] = [
        (
            one["topic"],
            one["partition"],
            _ids(one["from"]),
            _ids(one["to"]),
            _state(one),
            _mebibytes(one["copied_bytes"]),
            _mebibytes(one["left_bytes"]),
            _mebibytes(one["bytes_per_s"]),
        )
        for one in found
    ]
    columns = ("topic", "partition", "from", "to", "state", "copied MiB", "left MiB", "MiB/s")
    return View({"moves": found}, [] if rows else ["No moves in progress."], columns, rows)


def _state(one: Content) -> str:
    if one["leader"] is None:
        return "no leader: its broker is down"
    return {True: "copying", False: "waiting", None: UNKNOWN}[one["copying"]]


# -- start


def _start(
    path: str,
    dry_run: bool,
    yes: bool,
    wait: bool,
    bootstrap: str,
    output: str,
    count_left: Callable[[ClusterSource], int] | None = None,
) -> None:
    """With `wait` until nothing is left: by default none of the moves that were started."""
    if dry_run and (yes or wait):
        raise click.UsageError("--dry-run cannot be combined with --yes or --wait.")
    source = source_of(bootstrap)
    if dry_run or not yes:
        planned = source.change(path, dry_run="true")["moves"]
        if dry_run:
            show_plan(source, planned, output)
            return
        confirm_moves(source, planned, output)
    started = source.change(path, dry_run="false")["moves"]
    if wait and count_left is not None:
        await_moves(source, partial(count_left, source))
    report_started(source, started, output, wait=wait)


def report_started(source: ClusterSource, started: list[Content], output: str, *, wait: bool) -> None:
    """Say which moves were started; with `wait`, once none of them is in progress."""
    places = {(one["topic"], one["partition"]) for one in started}
    if wait and started:
        await_moves(source, lambda: sum((one["topic"], one["partition"]) in places for one in source.moves()))
    verb = "moved" if wait else "started to move"
    text = f"{counted(len(started), 'partition')} {verb}." if started else "Nothing to move."
    if started and not wait:
        text += " See `penstock cluster moves`."
    say_result(output, {"started": bool(started), "moves": started}, text)


def confirm_moves(source: ClusterSource, planned: list[Content], output: str) -> None:
    """Show the moves and ask, on a terminal; elsewhere only --yes starts them."""
    if not planned:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("Add --yes to start the moves, or --dry-run to see them.")
    show_plan(source, planned, output)
    click.confirm("Start?", abort=True)


def show_plan(source: ClusterSource, planned: list[Content], output: str) -> None:
    """Show moves that have not started, with the bytes that they copy."""
    sizes = source.sizes()
    content, rows, total = [], list[tuple[object, ...]](), 0
    for one in planned:
        size_bytes = _moved_bytes(one, sizes)
        total += size_bytes
        content.append({**one, "bytes": size_bytes})
        rows.append(
            (one["topic"], one["partition"], _ids(one["from"]), _ids(one["to"]), _mebibytes(size_bytes))
        )
    count = counted(len(planned), "partition")
    line = f"{count} to move, {_mebibytes(total)} MiB to copy." if planned else "Nothing to move."
    columns = ("topic", "partition", "from", "to", "MiB")
    View({"started": False, "moves": content, "bytes": total}, [line], columns, rows).show(output)


def _moved_bytes(one: Content, sizes: Mapping[tuple[str, int], int]) -> int:
    """Every broker that is new gets a copy."""
    copies = sum(broker_id not in one["from"] for broker_id in one["to"])
    return copies * sizes.get((one["topic"], one["partition"]), 0)


# -- wait


def await_moves(source: ClusterSource, count_left: Callable[[], int]) -> None:
    """Wait until nothing is left, with a line on stderr whenever something has changed."""
    said = ""
    while left := count_left():
        text = _progress(left, source.moves())
        if text != said:
            say(text, err=True)
            said = text
        time.sleep(POLL_SECONDS)


def _progress(left: int, ongoing: list[Content]) -> str:
    waiting = sum(one["copying"] is False for one in ongoing)
    to_copy = sum(one["left_bytes"] or 0 for one in ongoing)
    rate = sum(one["bytes_per_s"] or 0 for one in ongoing)
    text = f"{counted(left, 'partition')} left, {_mebibytes(to_copy)} MiB to copy, {_mebibytes(rate)} MiB/s"
    return text + (f", {waiting} waiting" if waiting else "")


def _replicas(source: ClusterSource, broker_id: int) -> int:
    return int(_broker(source, broker_id)["replicas"])


def _broker(source: ClusterSource, broker_id: int) -> Content:
    found = source.overview().content["brokers"]
    for one in found:
        if one["id"] == broker_id:
            return dict(one)
    raise ObjectNotFound(f"There is no broker {broker_id}. See `penstock cluster brokers`.")


def source_of(bootstrap: str) -> ClusterSource:
    """The cluster behind a bootstrap list."""
    from penstock.apps.cli.cluster_source import ClusterSource

    return ClusterSource(bootstrap)


def _mebibytes(size_bytes: int | None) -> str:
    return UNKNOWN if size_bytes is None else f"{size_bytes / _MIB:,.1f}"


def _ids(broker_ids: list[int]) -> str:
    return ", ".join(map(str, broker_ids))


def say_result(output: str, content: dict[str, Any], text: str) -> None:
    """Say what was done, as text or as JSON."""
    if output == TABLE:
        say(text)
    else:
        say_content(content, output)


MOVES = (rebalance, drain, decommission, moves)
"""Commands of `penstock cluster`."""
