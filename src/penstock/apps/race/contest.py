"""The race itself: find who takes part, run the rows in turns, say each result at once. Never ends because one lap did.

Results are handed on after every row, so that a run which is cut short leaves a table of what it had.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.apps.measuring import machine
from penstock.apps.measuring.header import show_header
from penstock.apps.race import tables
from penstock.apps.race.ceiling import loader_ceiling
from penstock.apps.race.course import Course
from penstock.apps.race.entrants import ENTRANTS, OURS, Entrant
from penstock.apps.race.rows import growing, python_clients, starting, steady, streaming, working
from penstock.apps.race.servers.installing import Missing
from penstock.apps.race.standing import Standing

Row = Callable[[Course], list[Standing]]

ROWS: dict[str, Row] = {
    "ingest-small": streaming.ingest_small,
    "ingest-kb": streaming.ingest_kb,
    "durable-ingest": streaming.durable_ingest,
    "ack-latency": streaming.ack_latency,
    "replay": streaming.replay,
    "end-to-end": streaming.end_to_end,
    "fan-out": streaming.fan_out,
    "work-queue": working.work_queue,
    "python-clients": python_clients.python_clients,
    "first-message": starting.first_message,
    "partition-cost": growing.partition_cost,
}
QUICK_S_MAX = 210.0
"""What all rows of a quick race share; a row that takes more than its part of it has one lap only."""
OURS_ALONE = {"partition-cost"}
"""About how we grow, not about others: a quick race leaves them out unless they are asked for."""
LONG_ROWS: dict[str, Row] = {"steady-memory": steady.steady_memory}
"""Run only when they are asked for by name."""


@dataclass(slots=True)
class Outcome:
    """What a run has found so far."""

    facts: dict[str, str]
    missing: Mapping[str, str]
    standings: list[Standing] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """Rows that could not be run at all, and why."""

    @property
    def date(self) -> str:
        return self.facts["date"]


OnRow = Callable[[Outcome], None]


def hold_race(
    console: Console, rows: Sequence[str], peers: str | None, on_row: OnRow, *, is_quick: bool
) -> Outcome:
    """Run the rows against everybody who can be had; `on_row` gets what there is after each of them."""
    cpus = machine.find_cpus()
    entrants, versions, missing = _prepare(console, peers)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpus.loader})
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-race-") as scratch:
            course = Course(Path(scratch), cpus, is_quick, entrants, lambda _doing: None)
            facts = machine.describe(Path(scratch), cpus)
            facts |= {"runners": ", ".join(versions), "the load's own ceiling": loader_ceiling(course)}
            facts["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC") + (
                " (quick)" if is_quick else ""
            )
            show_header(console, facts)
            for name, why in missing.items():
                console.print(f"[yellow]{name} is missing: {why}")
            outcome = Outcome(facts, missing)
            chosen = list(rows) or [name for name in ROWS if not is_quick or name not in OURS_ALONE]
            _run(console, course, chosen, outcome, on_row)
    finally:
        os.sched_setaffinity(0, before)
    return outcome


def _prepare(console: Console, peers: str | None) -> tuple[list[Entrant], list[str], dict[str, str]]:
    """Who is here, their versions, and who cannot be had and why."""
    wanted = None if peers is None else {name.strip().lower() for name in peers.split(",")}
    entrants, versions, missing = [], [], {}
    for entrant in ENTRANTS:
        name = entrant.runner.name
        if wanted is not None and name != OURS and name.lower() not in wanted:
            continue
        with console.status(f"finding {name}"):
            try:
                versions.append(f"{name} {entrant.runner.prepare()}")
            except Missing as error:
                missing[name] = str(error)
            else:
                entrants.append(entrant)
    return entrants, versions, missing


def _run(console: Console, course: Course, chosen: list[str], outcome: Outcome, on_row: OnRow) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # No refreshing thread: it would run on the load's CPU while the clock runs.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("the race", total=len(chosen) * course.laps * len(course.entrants))

        def step(doing: str) -> None:
            progress.update(task, description=doing, refresh=True)
            progress.advance(task)

        course.on_step = step
        began_s = time.monotonic()
        for number, name in enumerate(chosen, 1):
            if course.is_quick:
                course.over_at_s = began_s + QUICK_S_MAX * number / len(chosen)
            _run_row(console, course, name, outcome)
            on_row(outcome)


def _run_row(console: Console, course: Course, name: str, outcome: Outcome) -> None:
    try:
        standings = (ROWS | LONG_ROWS)[name](course)
    except Exception as error:  # noqa: BLE001 - told in the result, and the other rows still run
        outcome.broken[name] = f"{type(error).__name__}: {error}"
        console.print(f"[red]{name} broke: {outcome.broken[name]}", highlight=False)
        return
    outcome.standings += [one.without(course.take_breaks()) for one in standings]
    for one in outcome.standings[-len(standings) :]:
        console.print(f"{one.number:>4}  {one.row}: {tables.line(one)}", highlight=False)
