"""`python -m bench [row…] [--quick] [--json FILE]`: run the rows, show the table. Never fails for a slow machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench import report
from bench.rows import (
    committing,
    delivering,
    doors,
    doors_open,
    flushing,
    group_recovery,
    http_publishing,
    partitions,
    rdkafka_cost,
    rebalancing,
    reopening,
    replaying,
    requests,
    spark_lake,
    spark_latency,
    spark_reading,
    spark_writing,
    starting,
    transacting,
    transacting_peers,
)
from bench.session import Row, Session
from penstock.apps.measuring import machine
from penstock.apps.measuring.figures import Figure
from penstock.apps.measuring.header import show_header

PAGE_COLUMNS = 150
"""How wide the table is where there is no terminal to fit it to."""


class Entry(NamedTuple):
    """A row, what it is about, and how many steps it takes (full, quick)."""

    measure: Row
    meaning: str
    steps: tuple[int, int]


ROWS = {
    "rdkafka": Entry(rdkafka_cost.measure, "broker CPU per GB in and out, one librdkafka client", (6, 2)),
    "requests": Entry(requests.measure_rate, "single-record produce requests a second", (5, 3)),
    "latency": Entry(requests.measure_latency, "ack latency, one in flight, os", (7, 3)),
    "fsync": Entry(flushing.measure_latency, "ack latency with fsync against the disk's own flush", (7, 3)),
    "group-commit": Entry(flushing.measure_group_commit, "1,000 in flight with fsync against one", (5, 3)),
    "start": Entry(starting.measure, "exec to ready, to the first record; idle memory", (7, 7)),
    "partitions": Entry(partitions.measure, "1,000 topics × 10 partitions: files and memory", (3, 3)),
    "reopen": Entry(reopening.measure, "opening a 1 GB log, clean and after kill -9", (21, 9)),
    "replay": Entry(replaying.measure, "a 1 GB backlog to one reader", (7, 5)),
    "commits": Entry(committing.measure, "durable offset commits a second of one member", (5, 3)),
    "rebalance": Entry(rebalancing.measure, "one round of 50 members and 500 partitions", (6, 4)),
    "group-recovery": Entry(group_recovery.measure, "starting again with 10,000 groups", (10, 6)),
    "deliveries": Entry(
        delivering.measure, "messages to 16 members of a subscription, each acknowledged", (5, 3)
    ),
    "doors": Entry(
        doors.measure, "publishes through the text and the JSON door, one by one, pipelined", (10, 6)
    ),
    "http": Entry(http_publishing.measure, "messages a second published over HTTP, in batches", (5, 3)),
    "doors-open": Entry(doors_open.measure, "what all doors add to an idle broker", (7, 3)),
    "transactions": Entry(transacting.measure, "transactions of 100 records a second with fsync", (10, 6)),
    "transactions-peer": Entry(
        transacting_peers.measure, "transactions of Kafka's own producer tool, beside Apache Kafka", (8, 4)
    ),
    "spark-read": Entry(
        spark_reading.measure, "10 M records of 100 bytes into Spark, batch and stream", (2, 2)
    ),
    "spark-write": Entry(
        spark_writing.measure, "5 M rows of 100 bytes out of Spark, exactly and at least once", (1, 1)
    ),
    "spark-latency": Entry(
        spark_latency.measure, "a small batch of Spark, and a record through it to a topic", (3, 1)
    ),
    "spark-lake": Entry(
        spark_lake.measure, "5 M records of 100 bytes to a Delta table, exactly once", (2, 2)
    ),
}


def _help() -> str:
    lines = "\n".join(f"  {name:<15} {entry.meaning}" for name, entry in ROWS.items())
    return f"Measure a broker and compare.\n\n\b\nRows (all of them if none is named):\n{lines}"


@click.command(help=_help())
@click.argument("rows", nargs=-1, type=click.Choice(list(ROWS)), metavar="[ROW]...")
@click.option("--quick", is_flag=True, help="Less data and fewer repeats: a look in about two minutes.")
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), help="Write every sample to this file too."
)
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(tempfile.gettempdir()), show_default=True, help="Where the data goes; its disk is what is measured.",
)  # fmt: skip
def main(rows: tuple[str, ...], quick: bool, json_path: Path | None, directory: Path) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=PAGE_COLUMNS)
    cpus = machine.find_cpus()
    os.sched_setaffinity(0, {cpus.loader})
    chosen = list(rows) or list(ROWS)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=directory) as scratch:
        facts = machine.describe(Path(scratch), cpus)
        show_header(console, facts)
        figures, others = _run(console, chosen, Path(scratch), cpus, quick)
    report.show(console, figures, others)
    if json_path is not None:
        report.save(json_path, facts, figures, others)


def _run(
    console: Console, chosen: list[str], root: Path, cpus: machine.Cpus, quick: bool
) -> tuple[dict[str, list[Figure]], dict[str, float]]:
    figures: dict[str, list[Figure]] = {}
    others: dict[str, float] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # No refreshing thread: it would run on the load's CPU while the clock runs.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        whole = progress.add_task("all rows", total=len(chosen))
        for name in chosen:
            entry = ROWS[name]
            task = progress.add_task(name, total=entry.steps[quick])
            foreign = machine.OthersCpu()
            figures[name] = entry.measure(Session(root, cpus, quick, _stepper(progress, task)))
            others[name] = foreign.share()
            progress.remove_task(task)
            progress.update(whole, advance=1, refresh=True)
    return figures, others


def _stepper(progress: Progress, task: TaskID) -> Callable[[str], None]:
    is_first = True

    def step(doing: str) -> None:
        nonlocal is_first
        progress.update(task, description=doing, advance=0 if is_first else 1, refresh=True)
        is_first = False

    return step


if __name__ == "__main__":
    main()
