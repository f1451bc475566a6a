"""Runs a comparison: prepare the contenders, run the rows, report after each. A failed row does not end it."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from penstock.apps.bench.compare.ceiling import loader_ceiling
from penstock.apps.bench.compare.report import tables
from penstock.apps.bench.compare.report.result import ComparisonResult, Peer, RowResult
from penstock.apps.bench.compare.rows import (
    faults,
    first_message,
    librdkafka,
    partition_cost,
    python_clients,
    replicated,
    steady_memory,
    streams,
    work_queue,
)
from penstock.apps.bench.compare.runs.contenders import (
    BASELINE,
    CONTENDERS,
    OURS,
    Contender,
    baseline_contender,
    cluster_contender,
)
from penstock.apps.bench.compare.runs.line_result import LineResult
from penstock.apps.bench.compare.runs.row_runner import RowRunner
from penstock.apps.bench.compare.runs.server_pool import ServerPool
from penstock.apps.bench.compare.runs.time_budget import TimeBudget, show_s
from penstock.apps.bench.compare.servers.install import CannotInstall
from penstock.apps.bench.harness import machine
from penstock.apps.bench.harness.console import quiet_progress, show_header

Measure = Callable[[RowRunner], list[LineResult]]

ROWS: dict[str, Measure] = {
    "ingest-small": streams.INGEST_SMALL,
    "ingest-kb": streams.INGEST_KB,
    "ack-latency": streams.ACK_LATENCY,
    "replay": streams.REPLAY,
    "end-to-end": streams.END_TO_END,
    "fan-out": streams.FAN_OUT_ROW,
    "work-queue": work_queue.WORK_QUEUE,
    "python-clients": python_clients.PYTHON_CLIENTS,
    "client-ingest": librdkafka.CLIENT_INGEST,
    "client-end-to-end": librdkafka.CLIENT_END_TO_END,
    "partition-cost": partition_cost.PARTITION_COST,
    "durable-ingest": streams.DURABLE_INGEST,
    "first-message": first_message.first_message,
}
"""In the order in which they run: rows of one durability share their servers, and starts come last."""
CLUSTER_ROWS: dict[str, Measure] = {
    "replicated-ingest": replicated.INGEST,
    "replicated-latency": replicated.LATENCY,
    "failover": faults.FAILOVER,
    "rolling-restart": faults.ROLLING,
    "catch-up": faults.CATCH_UP,
    "replicated-durable-ingest": replicated.DURABLE_INGEST,
}
"""Rows over three brokers each, after all others."""
NOT_QUICK = {"partition-cost", *CLUSTER_ROWS}
"""Rows about the scaling of Penstock itself, and rows that start clusters: --quick skips them unless named."""
LONG_ROWS: dict[str, Measure] = {"steady-memory": steady_memory.steady_memory}
"""Run only if named."""

OnRow = Callable[[ComparisonResult], None]


def compare_brokers(
    console: Console,
    rows: Sequence[str],
    peers: str | None,
    on_row: OnRow,
    *,
    is_quick: bool,
    before: ComparisonResult | None = None,
    is_resumed: bool = False,
    baseline: Path | None = None,
) -> ComparisonResult:
    """Run the rows against all peers that can be installed, and call `on_row` with the result after each row.

    Named rows replace those of `before`, and its other rows stay. A resumed comparison skips the rows of `before`.
    `baseline` is the interpreter of an environment with another version of Penstock, which is measured as well.
    """
    cpus = machine.find_cpus()
    contenders, found, missing = _prepare(console, peers, baseline)
    with (
        machine.on_cpu(cpus.loader),
        _ended_by_sigterm(),
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch,
        closing(ServerPool(Path(scratch) / "servers", cpus.server)) as pool,
        closing(ServerPool(Path(scratch) / "clusters", cpus.server)) as cluster_pool,
    ):
        runner = RowRunner(pool, cpus, is_quick, contenders, lambda _doing: None)
        clusters = RowRunner(cluster_pool, cpus, is_quick, _clusters(contenders, cpus), lambda _doing: None)
        result = ComparisonResult(_facts(runner, Path(scratch)), missing, found, is_quick=is_quick)
        if before is not None and (rows or is_resumed):
            result.take_over(before)
        chosen = _choose(rows, result, is_resumed=is_resumed)
        result.peers = {**found, **_prepare_clusters(console, clusters, chosen)}
        _show_start(console, result)
        _run(console, runner, clusters, chosen, result, on_row)
    return result


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Unwind on SIGTERM: the paused servers run in their own sessions and would otherwise survive."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _facts(runner: RowRunner, directory: Path) -> dict[str, str]:
    facts = machine.describe_machine(directory, runner.cpus)
    facts["ceiling of the load generator"] = loader_ceiling(runner)
    facts["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC") + (" (quick)" if runner.is_quick else "")
    return facts


def _choose(rows: Sequence[str], result: ComparisonResult, *, is_resumed: bool) -> list[str]:
    every = (*ROWS, *CLUSTER_ROWS)
    chosen = list(rows) or [name for name in every if not result.is_quick or name not in NOT_QUICK]
    return [name for name in chosen if not is_resumed or name not in result.rows]


def _prepare(
    console: Console, peers: str | None, baseline: Path | None
) -> tuple[list[Contender], dict[str, Peer], dict[str, str]]:
    """The contenders, their versions and settings, and the peers that cannot be installed and why."""
    wanted = None if peers is None else {name.strip().lower() for name in peers.split(",")}
    contenders: list[Contender] = []
    found: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for contender in (*CONTENDERS, *([baseline_contender(baseline)] if baseline else ())):
        name = contender.launcher.name
        if wanted is not None and name not in (OURS, BASELINE) and name.lower() not in wanted:
            continue
        with console.status(f"preparing {name}"):
            try:
                found[name] = Peer(contender.launcher.prepare(), dict(contender.launcher.settings))
            except CannotInstall as error:
                missing[name] = str(error)
            else:
                contenders.append(contender)
    return contenders, found, missing


def _clusters(contenders: Sequence[Contender], cpus: machine.Cpus) -> list[Contender]:
    every = tuple(sorted({cpus.server, cpus.loader}))
    return [found for one in contenders if (found := cluster_contender(one, every)) is not None]


def _prepare_clusters(console: Console, clusters: RowRunner, chosen: Sequence[str]) -> dict[str, Peer]:
    """Versions and settings of the clusters, if a chosen row needs them."""
    found: dict[str, Peer] = {}
    for contender in clusters.contenders if any(name in CLUSTER_ROWS for name in chosen) else ():
        name = f"{contender.launcher.name}, three brokers"
        with console.status(f"preparing {name}"):
            found[name] = Peer(contender.launcher.prepare(), dict(contender.launcher.settings))
    return found


def _show_start(console: Console, result: ComparisonResult) -> None:
    show_header(console, result.facts)
    console.print("servers: " + ", ".join(f"{name} {peer.version}" for name, peer in result.peers.items()))
    for name, why in result.missing.items():
        console.print(f"[yellow]{name} is not available: {why}")
    if result.rows:
        console.print(f"rows from an earlier comparison: {', '.join(result.rows)}", highlight=False)


def _run(
    console: Console,
    runner: RowRunner,
    clusters: RowRunner,
    chosen: list[str],
    result: ComparisonResult,
    on_row: OnRow,
) -> None:
    budget = TimeBudget(chosen, is_quick=runner.is_quick)
    with quiet_progress(
        console, TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    ) as progress:
        task = progress.add_task("", total=len(chosen))

        def step(doing: str) -> None:
            left = show_s(budget.left_s())
            progress.update(task, description=f"{doing} (about {left} left)", refresh=console.is_terminal)

        runner.on_step = clusters.on_step = step
        for number, name in enumerate(chosen, 1):
            left = show_s(budget.left_s())
            console.print(
                f"[{number}/{len(chosen)}] {name}, about {left} left", markup=False, highlight=False
            )
            used, unused = (clusters, runner) if name in CLUSTER_ROWS else (runner, clusters)
            unused.pool.close()
            used.over_at_s = budget.over_at_s(name)
            _run_row(console, used, name, result)
            budget.finish(name)
            progress.advance(task)
            on_row(result)


def _run_row(console: Console, runner: RowRunner, name: str, result: ComparisonResult) -> None:
    result.broken.pop(name, None)
    try:
        lines = (ROWS | CLUSTER_ROWS | LONG_ROWS)[name](runner)
    except Exception as error:  # noqa: BLE001 - part of the result, and the other rows go on
        result.rows.pop(name, None)
        result.broken[name] = f"{type(error).__name__}: {error}"
        console.print(f"{name} failed: {result.broken[name]}", style="red", markup=False, highlight=False)
        return
    result.rows[name] = RowResult(result.date, lines)
    for one in lines:
        console.print(f"{one.number:>4}  {one.row}: {tables.line(one)}", markup=False, highlight=False)
