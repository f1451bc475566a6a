"""`penstock bench`: how fast is the broker at this address, and Penstock beside others. Never judges."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from penstock.apps.cli.failures import LoadStopped
from penstock.apps.cli.options import bootstrap_option, output_option, parse_pairs
from penstock.apps.cli.queue_client import queue_client, queue_option
from penstock.apps.load.latency import MissingPiece
from penstock.apps.load.plan import LoadFailed, OnStep, Outcome, Plan
from penstock.node.definitions.units import parse_bytes

TOPIC_DEFAULT = "penstock-bench"
PAGE_COLUMNS = 200
"""How wide the table is where there is no terminal to fit it to."""

Load = Callable[[Plan, OnStep], Outcome]


class Size(click.ParamType[int]):
    """`100`, `1k`, `1MiB`."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_bytes(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


_topic = click.option("--topic", default=TOPIC_DEFAULT, show_default=True, metavar="NAME")
_partitions = click.option(
    "--partitions", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    help="Partitions of the topic, if it is made here.",
)  # fmt: skip
_rate = click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N",
    help="Messages a second, whatever the broker does; without it, as fast as it goes.",
)  # fmt: skip
_acks = click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
_config = click.option(
    "--client-config", "client", multiple=True, metavar="NAME=VALUE",
    help="A setting of librdkafka, for example security.protocol=ssl; may be repeated.",
)  # fmt: skip


def _count(default: int) -> Callable[[Any], Any]:
    return click.option(
        "--count", type=click.IntRange(min=1), default=default, show_default=True, metavar="N", help="Messages."
    )  # fmt: skip


def _size(default: int) -> Callable[[Any], Any]:
    return click.option(
        "--size", type=Size(), default=default, show_default=True, help="Bytes of one message."
    )


@click.group()
def bench() -> None:
    """Measure the broker at an address: any that speaks Kafka's protocol.

    Percentiles go up to p99.99. With --rate the load is an open loop: a broker that falls behind is seen by every
    message that was due meanwhile. One message to each partition goes first and is not timed, so that connecting and
    the first metadata are in no percentile.
    """


@bench.command()
@_topic
@_count(1_000_000)
@_size(1_000)
@_rate
@_acks
@_partitions
@click.option(
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option("--linger-ms", type=click.FloatRange(min=0), default=5.0, show_default=True, metavar="MS")
@click.option("--batch-size", "batch_bytes", type=Size(), default=1_000_000, show_default=True)
@_config
@bootstrap_option
@output_option
def produce(output: str, **asked: Any) -> None:
    """Write messages and wait for every acknowledgement."""
    from penstock.apps.load.producing import produce as load

    plan = _plan(**asked)
    _make_topic(plan)
    _run(load, plan, output)


@bench.command()
@_topic
@_count(1_000_000)
@_config
@bootstrap_option
@output_option
def consume(output: str, **asked: Any) -> None:
    """Read a topic from its start: as many messages as asked for, or all there are."""
    from penstock.apps.load.consuming import consume as load

    _run(load, _plan(size=0, **asked), output)


@bench.command("e2e")
@_topic
@_count(10_000)
@_size(1_000)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), default=1_000.0, show_default=True, metavar="N",
              help="Messages a second, whatever the broker does.")  # fmt: skip
@_acks
@_partitions
@click.option("--linger-ms", type=click.FloatRange(min=0), default=0.0, show_default=True, metavar="MS")
@_config
@bootstrap_option
@output_option
def end_to_end(output: str, **asked: Any) -> None:
    """Time each message from when it was due until a second process has read it."""
    from penstock.apps.load.end_to_end import end_to_end as load

    plan = _plan(**asked)
    _make_topic(plan)
    _run(load, plan, output)


@bench.command()
@_topic
@_count(10_000)
@_size(256)
@_partitions
@click.option("--workers", type=click.IntRange(1, 500), default=16, show_default=True, metavar="N")
@_config
@queue_option
@bootstrap_option
@output_option
def queue(output: str, workers: int, queue: str, **asked: Any) -> None:
    """Let many workers share a subscription, each message acknowledged by itself. For Penstock's queue door."""
    from penstock.apps.load.queueing import work

    plan = _plan(**asked)
    _make_topic(plan)
    _run(lambda plan, step: work(plan, partial(queue_client, queue), workers, step), plan, output)


@bench.command()
@click.argument("rows", nargs=-1, metavar="[ROW]...")
@click.option(
    "--quick", is_flag=True, help="Two laps of less data, hardly warmed: a look within five minutes."
)
@click.option(
    "--resume", is_flag=True, help="Keep the rows that --out or --page already has; run the missing ones."
)
@click.option("--peers", metavar="NAMES", help="Only these, comma-separated; Penstock always runs.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write race.md, race.json, race.svg and race-full.svg here.",
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the result between the marks of this page, data and charts beside it.")  # fmt: skip
def compare(
    rows: tuple[str, ...], quick: bool, resume: bool, peers: str | None, out: Path | None, page: Path | None
) -> None:
    """Run Penstock beside Kafka, NATS, Redis and RabbitMQ on this machine, in turns; missing ones are installed.

    Without ROW all rows run except steady-memory, which takes ten minutes. The result is written after every row.
    Named rows replace those that --out or --page has. A row that breaks is reported, and the next one runs.
    """
    from rich.console import Console

    try:
        from penstock.apps.race import contest, outcome, result, tables
    except ModuleNotFoundError as error:
        raise LoadStopped(
            f"The race needs the package {error.name}; install it with: pip install 'penstock[bench]'"
        ) from error

    known = [*contest.ROWS, *contest.LONG_ROWS]
    unknown = [name for name in rows if name not in known]
    if unknown:
        raise click.UsageError(f"There is no row {unknown[0]}; there are {', '.join(known)}.")

    try:
        if page is not None:
            result.place_in(page)
    except result.NoPlace as error:
        raise click.BadParameter(str(error), param_hint="--page") from error

    def write(found: outcome.Outcome) -> None:
        if out is not None:
            result.write_files(out, found)
        if page is not None:
            result.write_page(page, found)

    data = out / result.DATA if out is not None else result.data_of(page) if page is not None else None
    before = None if data is None else outcome.read(data)
    console = Console() if sys.stdout.isatty() else Console(width=PAGE_COLUMNS)
    found = contest.hold_race(
        console, rows, peers, write, is_quick=quick, before=before, is_resumed=resume
    )  # fmt: skip
    tables.show(console, found.standings)
    for name in filter(None, (out, page)):
        console.print(f"written: {name}")


def _plan(client: tuple[str, ...], **asked: Any) -> Plan:
    return Plan(client=parse_pairs(client, "--client-config"), **asked)


def _make_topic(plan: Plan) -> None:
    from penstock.apps.cli.client import connect_admin

    connect_admin(plan.bootstrap).create_topic(plan.topic, plan.partitions, if_not_exists=True)


def _run(load: Load, plan: Plan, output: str) -> None:
    """Carry it out with a bar on the terminal, then say one line."""
    from penstock.apps.cli.client import connect_admin

    connect_admin(plan.bootstrap)
    try:
        outcome = _with_bar(load, plan) if sys.stderr.isatty() else load(plan, lambda _done: None)
    except (LoadFailed, MissingPiece) as error:
        raise LoadStopped(str(error)) from error
    click.echo(json.dumps(outcome.as_json()) if output == "json" else outcome.line())


def _with_bar(load: Load, plan: Plan) -> Outcome:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(plan.topic, total=plan.count)
        return load(plan, lambda done: progress.update(task, completed=done))
