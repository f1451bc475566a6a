"""`python -m bench.race [row…] [--quick]`: install who is missing, run the rows in turns, show and write the result."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import machine, report
from bench.race import chart, tables
from bench.race.ceiling import loader_ceiling
from bench.race.course import Course
from bench.race.entrants import ENTRANTS, OURS, Entrant
from bench.race.rows import python_clients, starting, streaming, working
from bench.race.servers.installing import Missing
from bench.race.standing import Standing

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
}
PAGE_COLUMNS = 200


@click.command()
@click.argument("rows", nargs=-1, type=click.Choice(list(ROWS)), metavar="[ROW]...")
@click.option("--quick", is_flag=True, help="Two laps of less data each: a look in five minutes.")
@click.option("--peers", metavar="NAMES", help="Only these, with commas between them; Penstock always runs.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write race.md, race.json and race.svg here.",
)
def main(rows: tuple[str, ...], quick: bool, peers: str | None, out: Path | None) -> None:
    """Penstock beside the brokers that people would pick instead, in one run on this machine."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=PAGE_COLUMNS)
    cpus = machine.find_cpus()
    entrants, versions, missing = _prepare(console, peers)
    os.sched_setaffinity(0, {cpus.loader})
    with tempfile.TemporaryDirectory(prefix="penstock-race-") as scratch:
        course = Course(Path(scratch), cpus, quick, entrants, lambda _doing: None)
        facts = machine.describe(Path(scratch), cpus)
        facts |= {"runners": ", ".join(versions), "the load's own ceiling": loader_ceiling(course)}
        facts["date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC") + (" (quick)" if quick else "")
        report.show_header(console, facts)
        for name, why in missing.items():
            console.print(f"[yellow]{name} is missing: {why}")
        standings = _run(console, course, list(rows) or list(ROWS))
    tables.show(console, standings)
    if out is not None:
        _write(out, standings, facts, missing)
        console.print(f"written: {out}/race.md, race.json, race.svg")


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


def _run(console: Console, course: Course, chosen: list[str]) -> list[Standing]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    standings: list[Standing] = []
    # No refreshing thread: it would run on the load's CPU while the clock runs.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        task = progress.add_task("the race", total=len(chosen) * course.laps * len(course.entrants))

        def step(doing: str) -> None:
            progress.update(task, description=doing, refresh=True)
            progress.advance(task)

        course.on_step = step
        for name in chosen:
            standings += ROWS[name](course)
    return standings


def _write(out: Path, standings: list[Standing], facts: dict[str, str], missing: dict[str, str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    content = {"machine": facts, "missing": missing, "rows": [one.as_json() for one in standings]}
    (out / "race.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "race.md").write_text(tables.markdown(standings, facts, missing), encoding="utf-8")
    (out / "race.svg").write_text(
        chart.svg(standings, f"Penstock and others, {facts['date']}"), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
