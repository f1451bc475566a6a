"""`python -m bench [ROW]... [--quick] [--json FILE]`: run the rows and print the table. A missed target is no error."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from compileall import compile_dir
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

import penstock
from bench import report
from bench.figures import Figure
from bench.rows import (
    cluster_start,
    cores,
    deliveries,
    doors,
    doors_open,
    forward,
    fsync,
    group_recovery,
    grpc,
    http,
    metadata,
    metadata_etcd,
    offset_commits,
    partitions,
    rdkafka,
    rebalance,
    reopen,
    replay,
    replica_faults,
    replicated,
    requests,
    spark_lake,
    spark_latency,
    spark_read,
    spark_write,
    start,
    transactions,
    transactions_peer,
)
from bench.session import Row, Session
from penstock.apps.bench.harness import machine
from penstock.apps.bench.harness.console import quiet_progress, report_console, show_header

PAGE_COLUMNS = 150
"""Width of the table where the output is not a terminal."""


class Entry(NamedTuple):
    """A row, its description, and its number of steps (full, quick)."""

    measure: Row
    meaning: str
    steps: tuple[int, int]


ROWS = {
    "rdkafka": Entry(rdkafka.measure, "broker CPU per GB in and out, one librdkafka client", (6, 2)),
    "requests": Entry(requests.measure_rate, "single-record produce requests per second", (5, 3)),
    "latency": Entry(requests.measure_latency, "ack latency, one in flight, os", (7, 3)),
    "fsync": Entry(fsync.measure_latency, "ack latency with fsync compared with a flush of the disk", (7, 3)),
    "group-commit": Entry(fsync.measure_group_commit, "1,000 in flight with fsync compared with one", (5, 3)),
    "start": Entry(start.measure, "exec to ready and to the first record; idle memory", (7, 7)),
    "partitions": Entry(partitions.measure, "1,000 topics × 10 partitions: files and memory", (3, 3)),
    "reopen": Entry(reopen.measure, "opening a 1 GB log after a clean stop and after kill -9", (21, 9)),
    "replay": Entry(replay.measure, "reading a 1 GB backlog with one reader", (7, 5)),
    "commits": Entry(offset_commits.measure, "durable offset commits per second of one member", (5, 3)),
    "rebalance": Entry(rebalance.measure, "one rebalance of 50 members and 500 partitions", (6, 4)),
    "group-recovery": Entry(group_recovery.measure, "restart with 10,000 groups", (10, 6)),
    "deliveries": Entry(
        deliveries.measure, "messages to 16 members of a subscription, each acknowledged", (5, 3)
    ),
    "doors": Entry(doors.measure, "pipelined single messages over the text and the JSON protocol", (10, 6)),
    "grpc-publish": Entry(
        grpc.measure_publish, "records through the producer service; its CPU beside a direct client's", (5, 3)
    ),
    "grpc-subscribe": Entry(
        grpc.measure_subscribe, "records from the consumer service; its CPU beside a direct client's", (3, 2)
    ),
    "http": Entry(http.measure, "messages per second over HTTP, in batches", (5, 3)),
    "doors-open": Entry(doors_open.measure, "what all doors add to an idle broker", (7, 3)),
    "metadata": Entry(metadata.measure, "changes of the catalog per second through a coordinator", (5, 3)),
    "metadata-etcd": Entry(
        metadata_etcd.measure, "changes of the catalog per second through three members of etcd", (5, 3)
    ),
    "cluster-start": Entry(
        cluster_start.measure, "five brokers: start, idle cost, 10,000 partitions, a new controller", (10, 5)
    ),
    "cores": Entry(cores.measure, "small batches of librdkafka with `--cores 2` and 1", (6, 2)),
    "replicated": Entry(replicated.measure, "acks=all to three replicas: ingest and latency", (10, 4)),
    "failover": Entry(
        replica_faults.measure_failover, "leaders killed with -9, until writes succeed", (1, 1)
    ),
    "rolling": Entry(replica_faults.measure_rolling, "a rolling restart of three brokers under load", (5, 1)),
    "catch-up": Entry(replica_faults.measure_catch_up, "a replica that missed 1 GB catches up", (3, 1)),
    "forward": Entry(
        forward.measure, "publishes through a broker that does not lead the partition", (16, 16)
    ),
    "transactions": Entry(transactions.measure, "transactions of 100 records per second with fsync", (10, 6)),
    "transactions-peer": Entry(
        transactions_peer.measure,
        "Kafka's own transactional producer test on Penstock and Apache Kafka",
        (8, 4),
    ),
    "spark-read": Entry(spark_read.measure, "10 M records of 100 bytes into Spark, batch and stream", (2, 2)),
    "spark-write": Entry(
        spark_write.measure, "5 M rows of 100 bytes out of Spark, exactly and at least once", (1, 1)
    ),
    "spark-latency": Entry(
        spark_latency.measure, "a small Spark batch, and a record through Spark to a topic", (3, 1)
    ),
    "spark-lake": Entry(
        spark_lake.measure, "5 M records of 100 bytes to a Delta table, exactly once", (2, 2)
    ),
}


def _help() -> str:
    lines = "\n".join(f"  {name:<15} {entry.meaning}" for name, entry in ROWS.items())
    return f"Measure the broker of this repository.\n\n\b\nRows (default: all):\n{lines}"


@click.command(help=_help())
@click.argument("rows", nargs=-1, type=click.Choice(list(ROWS)), metavar="[ROW]...")
@click.option("--quick", is_flag=True, help="Less data and fewer runs; takes about two minutes.")
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), help="Also write all samples to this file."
)
@click.option(
    "--dir", "directory", type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(tempfile.gettempdir()), show_default=True, help="Directory for the data, on the disk to measure.",
)  # fmt: skip
def main(rows: tuple[str, ...], quick: bool, json_path: Path | None, directory: Path) -> None:
    # a broker must not compile sources while it is measured, which it does at every start if it may not store bytecode
    compile_dir(Path(penstock.__file__).parent, quiet=1)
    console = report_console(PAGE_COLUMNS)
    cpus = machine.find_cpus()
    chosen = list(rows) or list(ROWS)
    with (
        machine.on_cpu(cpus.loader),
        tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=directory.resolve()) as scratch,
    ):
        facts = machine.describe_machine(Path(scratch), cpus)
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
    with quiet_progress(console, *columns) as progress:
        whole = progress.add_task("all rows", total=len(chosen))
        for name in chosen:
            entry = ROWS[name]
            task = progress.add_task(name, total=entry.steps[quick])
            others_cpu = machine.OthersCpu()
            figures[name] = entry.measure(Session(root, cpus, quick, _stepper(progress, task)))
            others[name] = others_cpu.share()
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
