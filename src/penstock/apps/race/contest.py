"""The comparison itself: find who takes part, run the rows, hand the result on after each. One row never ends it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.apps.measuring import machine
from penstock.apps.measuring.header import show_header
from penstock.apps.race import tables
from penstock.apps.race.ceiling import loader_ceiling
from penstock.apps.race.course import Course
from penstock.apps.race.entrants import ENTRANTS, OURS, Entrant
from penstock.apps.race.fleet import Fleet
from penstock.apps.race.outcome import Outcome, Peer, RowResult
from penstock.apps.race.rows import growing, python_clients, real_client, starting, steady, streaming, working
from penstock.apps.race.schedule import Schedule, show_s
from penstock.apps.race.servers.installing import Missing
from penstock.apps.race.standing import Standing

Measure = Callable[[Course], list[Standing]]

ROWS: dict[str, Measure] = {
    "ingest-small": streaming.INGEST_SMALL,
    "ingest-kb": streaming.INGEST_KB,
    "ack-latency": streaming.ACK_LATENCY,
    "replay": streaming.REPLAY,
    "end-to-end": streaming.END_TO_END,
    "fan-out": streaming.FAN_OUT_ROW,
    "work-queue": working.WORK_QUEUE,
    "python-clients": python_clients.PYTHON_CLIENTS,
    "client-ingest": real_client.CLIENT_INGEST,
    "client-end-to-end": real_client.CLIENT_END_TO_END,
    "partition-cost": growing.PARTITION_COST,
    "durable-ingest": streaming.DURABLE_INGEST,
    "first-message": starting.first_message,
}
"""In the order in which they run: rows of one durability share their servers, starts come last."""
OURS_ALONE = {"partition-cost"}
"""About how Penstock grows, not about others: a quick run leaves it out unless it is named."""
LONG_ROWS: dict[str, Measure] = {"steady-memory": steady.steady_memory}
"""Run only when they are named."""

OnRow = Callable[[Outcome], None]


def hold_race(
    console: Console,
    rows: Sequence[str],
    peers: str | None,
    on_row: OnRow,
    *,
    is_quick: bool,
    before: Outcome | None = None,
    is_resumed: bool = False,
) -> Outcome:
    """Run the rows against all peers that can be installed; `on_row` gets the result after each of them.

    Named rows replace those of `before`, and the others of it stay. A resumed run leaves out what `before` has.
    """
    cpus = machine.find_cpus()
    entrants, found, missing = _prepare(console, peers)
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpus.loader})
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-race-") as scratch:
            fleet = Fleet(Path(scratch), cpus.server)
            course = Course(fleet, cpus, is_quick, entrants, lambda _doing: None)
            try:
                outcome = Outcome(_facts(course, Path(scratch)), missing, found, is_quick=is_quick)
                if before is not None and (rows or is_resumed):
                    outcome.take_over(before)
                chosen = _choose(rows, outcome, is_resumed=is_resumed)
                _show_start(console, outcome)
                _run(console, course, chosen, outcome, on_row)
            finally:
                fleet.close()
    finally:
        os.sched_setaffinity(0, affinity)
    return outcome


def _facts(course: Course, directory: Path) -> dict[str, str]:
    facts = machine.describe(directory, course.cpus)
    facts["the load's own ceiling"] = loader_ceiling(course)
    facts["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC") + (" (quick)" if course.is_quick else "")
    return facts


def _choose(rows: Sequence[str], outcome: Outcome, *, is_resumed: bool) -> list[str]:
    chosen = list(rows) or [name for name in ROWS if not outcome.is_quick or name not in OURS_ALONE]
    return [name for name in chosen if not is_resumed or name not in outcome.rows]


def _prepare(console: Console, peers: str | None) -> tuple[list[Entrant], dict[str, Peer], dict[str, str]]:
    """Who takes part, with version and settings, and who cannot be installed and why."""
    wanted = None if peers is None else {name.strip().lower() for name in peers.split(",")}
    entrants: list[Entrant] = []
    found: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for entrant in ENTRANTS:
        name = entrant.runner.name
        if wanted is not None and name != OURS and name.lower() not in wanted:
            continue
        with console.status(f"finding {name}"):
            try:
                found[name] = Peer(entrant.runner.prepare(), dict(entrant.runner.settings))
            except Missing as error:
                missing[name] = str(error)
            else:
                entrants.append(entrant)
    return entrants, found, missing


def _show_start(console: Console, outcome: Outcome) -> None:
    show_header(console, outcome.facts)
    console.print("servers: " + ", ".join(f"{name} {peer.version}" for name, peer in outcome.peers.items()))
    for name, why in outcome.missing.items():
        console.print(f"[yellow]{name} is missing: {why}")
    if outcome.rows:
        console.print(f"from an earlier run: {', '.join(outcome.rows)}", highlight=False)


def _run(console: Console, course: Course, chosen: list[str], outcome: Outcome, on_row: OnRow) -> None:
    schedule = Schedule(chosen, is_quick=course.is_quick)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    # No refreshing thread: it would run on the load's CPU while the clock runs.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("", total=len(chosen))

        def step(doing: str) -> None:
            left = show_s(schedule.left_s())
            progress.update(task, description=f"{doing} (about {left} left)", refresh=console.is_terminal)

        course.on_step = step
        for number, name in enumerate(chosen, 1):
            left = show_s(schedule.left_s())
            console.print(
                f"[{number}/{len(chosen)}] {name}, about {left} left", markup=False, highlight=False
            )
            course.over_at_s = schedule.over_at_s(name)
            _run_row(console, course, name, outcome)
            schedule.finish(name)
            progress.advance(task)
            on_row(outcome)


def _run_row(console: Console, course: Course, name: str, outcome: Outcome) -> None:
    outcome.broken.pop(name, None)
    try:
        standings = (ROWS | LONG_ROWS)[name](course)
    except Exception as error:  # noqa: BLE001 - shown in the result, and the other rows still run
        outcome.rows.pop(name, None)
        outcome.broken[name] = f"{type(error).__name__}: {error}"
        console.print(f"{name} broke: {outcome.broken[name]}", style="red", markup=False, highlight=False)
        return
    outcome.rows[name] = RowResult(outcome.date, standings)
    for one in standings:
        console.print(f"{one.number:>4}  {one.row}: {tables.line(one)}", markup=False, highlight=False)
