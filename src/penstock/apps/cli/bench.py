"""`penstock bench`: measure the broker at an address, or compare Penstock with other brokers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from penstock.apps.bench.load.latency import MissingPackage
from penstock.apps.bench.load.plan import LoadFailed, LoadPlan, LoadResult, OnStep
from penstock.apps.cli.failures import LoadStopped
from penstock.apps.cli.options import bootstrap_option, output_option, parse_pairs
from penstock.apps.cli.plain_output import TABLE, say_content
from penstock.apps.cli.queue_client import queue_client, queue_option
from penstock.apps.cli.security_options import command_security
from penstock.node.definitions.units import parse_bytes

TOPIC_DEFAULT = "penstock-bench"
PAGE_COLUMNS = 200
"""Width of the table where the output is not a terminal."""

Load = Callable[[LoadPlan, OnStep], LoadResult]


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
    help="Partitions of the topic, if it does not exist yet.",
)  # fmt: skip
_rate = click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="N",
    help="Messages per second, independent of the broker; default: as fast as possible.",
)  # fmt: skip
_acks = click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
_config = click.option(
    "--client-config", "client", multiple=True, metavar="NAME=VALUE",
    help="librdkafka setting, for example security.protocol=ssl; may be repeated.",
)  # fmt: skip


def _count(default: int) -> Callable[[Any], Any]:
    return click.option(
        "--count", type=click.IntRange(min=1), default=default, show_default=True, metavar="N", help="Messages."
    )  # fmt: skip


def _size(default: int) -> Callable[[Any], Any]:
    return click.option(
        "--size", type=Size(), default=default, show_default=True, help="Size of a message in bytes."
    )


@click.group()
def bench() -> None:
    """Measure the broker at an address.

    It only has to speak Kafka's protocol. Percentiles go up to p99.99. With --rate the load is an open loop: if the
    broker falls behind, every message that was due in that time counts the delay. One untimed message per partition
    is sent first, so that connecting and the first metadata request are in no percentile.
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
def produce(output: str, **options: Any) -> None:
    """Write messages and wait for all acknowledgements.

    \b
    penstock bench produce --count 100000 --size 1k
    """
    from penstock.apps.bench.load.producer import produce_load as load

    plan = _plan(**options)
    _create_topic(plan)
    _run(load, plan, output)


@bench.command()
@_topic
@_count(1_000_000)
@_config
@bootstrap_option
@output_option
def consume(output: str, **options: Any) -> None:
    """Read a topic from its start: --count messages, or all of them if there are fewer.

    \b
    penstock bench consume --count 100000
    """
    from penstock.apps.bench.load.consumer import consume as load

    _run(load, _plan(size=0, **options), output)


@bench.command("e2e")
@_topic
@_count(10_000)
@_size(1_000)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), default=1_000.0, show_default=True, metavar="N",
              help="Messages per second, independent of the broker.")  # fmt: skip
@_acks
@_partitions
@click.option("--linger-ms", type=click.FloatRange(min=0), default=0.0, show_default=True, metavar="MS")
@_config
@bootstrap_option
@output_option
def end_to_end(output: str, **options: Any) -> None:
    """Measure the time from when each message was due until a second process has read it.

    \b
    penstock bench e2e --rate 1000
    """
    from penstock.apps.bench.load.end_to_end import end_to_end as load

    plan = _plan(**options)
    _create_topic(plan)
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
def queue(output: str, workers: int, queue: str, **options: Any) -> None:
    """Let workers share a subscription and acknowledge each message. Uses Penstock's queue protocol.

    \b
    penstock bench queue --workers 16
    """
    from penstock.apps.bench.load.workers import work

    plan = _plan(**options)
    _create_topic(plan)
    _run(lambda plan, step: work(plan, partial(queue_client, queue), workers, step), plan, output)


@bench.command()
@click.argument("rows", nargs=-1, metavar="[ROW]...")
@click.option(
    "--quick", is_flag=True, help="Two short runs per server with little warm-up; takes about five minutes."
)
@click.option(
    "--resume", is_flag=True, help="Keep the rows that --out or --page already has, and run the others."
)
@click.option(
    "--peers",
    metavar="NAMES",
    help="Peers to run, comma-separated, or none; default: all. Penstock always runs.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write comparison.md, comparison.json and two charts to this directory.",
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the result between the markers of this page, data and charts next to it.")  # fmt: skip
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="PYTHON",
    help="Also run the Penstock that this Python interpreter imports, as Baseline.",
)
def compare(
    rows: tuple[str, ...],
    quick: bool,
    resume: bool,
    peers: str | None,
    out: Path | None,
    page: Path | None,
    baseline: Path | None,
) -> None:
    """Compare Penstock with Kafka, NATS, Redis and RabbitMQ in interleaved runs; missing ones are installed.

    Without ROW all rows run except steady-memory, which takes ten minutes. The result is written after every row.
    Named rows replace those that --out or --page has. A failed row is reported, and the next one runs.

    \b
    penstock bench compare --quick --peers kafka
    """
    try:
        from penstock.apps.bench.compare import comparison
        from penstock.apps.bench.compare.report import files, result, tables
        from penstock.apps.bench.harness.console import report_console
    except ModuleNotFoundError as error:
        raise LoadStopped(
            f"The comparison needs the package {error.name}; install it with: pip install 'penstock[bench]'"
        ) from error

    _check_rows(rows, [*comparison.ROWS, *comparison.CLUSTER_ROWS, *comparison.LONG_ROWS])
    try:
        if page is not None:
            files.around_markers(page)
    except files.MissingMarkers as error:
        raise click.BadParameter(str(error), param_hint="--page") from error

    def write(found: result.ComparisonResult) -> None:
        if out is not None:
            files.write_files(out, found)
        if page is not None:
            files.write_page(page, found)

    data = out / files.DATA if out is not None else files.data_of(page) if page is not None else None
    before = None if data is None else result.read_result(data)
    console = report_console(PAGE_COLUMNS)
    found = comparison.compare_brokers(
        console, rows, peers, write, is_quick=quick, before=before, is_resumed=resume, baseline=baseline
    )
    tables.show(console, found.lines)
    for name in filter(None, (out, page)):
        console.print(f"written: {name}")


def _check_rows(rows: tuple[str, ...], known: list[str]) -> None:
    unknown = [name for name in rows if name not in known]
    if unknown:
        raise click.UsageError(f"Row {unknown[0]} does not exist; choose from {', '.join(known)}.")


def _plan(client: tuple[str, ...], **options: Any) -> LoadPlan:
    return LoadPlan(client=parse_pairs(client, "--client-config"), security=command_security(), **options)


def _create_topic(plan: LoadPlan) -> None:
    from penstock.apps.cli.client import connect_admin

    connect_admin(plan.bootstrap).create_topic(plan.topic, plan.partitions, if_not_exists=True)


def _run(load: Load, plan: LoadPlan, output: str) -> None:
    """Run the load with a progress bar on a terminal, then print the result."""
    from penstock.apps.cli.client import connect_admin

    connect_admin(plan.bootstrap)
    try:
        result = _with_bar(load, plan) if sys.stderr.isatty() else load(plan, lambda _done: None)
    except (LoadFailed, MissingPackage) as error:
        raise LoadStopped(str(error)) from error
    if output == TABLE:
        click.echo(result.line())
    else:
        say_content(result.as_json(), output)


def _with_bar(load: Load, plan: LoadPlan) -> LoadResult:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(plan.topic, total=plan.count)
        return load(plan, lambda done: progress.update(task, completed=done))
