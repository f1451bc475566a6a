"""Runs in a row: a line for each, the whole story of those that are not good, and a table of all at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from checker.analysis import Verdict
from checker.plan import Outcome
from checker.report import Report, faults_of

HEADINGS = ("run", "seed", "mode", "s", "ops", "ok", "info", "fail", "acked", "polled", "faults", "anomalies")


def anomalies(verdict: Verdict) -> str:
    return ", ".join(f"{kind} {verdict.findings.counts[kind]}" for kind in verdict.invalid_kinds)


def fault_words(outcome: Outcome) -> str:
    return ", ".join(f"{what} {count}" for what, count in faults_of([outcome]).items())


def mode_words(outcome: Outcome) -> str:
    how = "subscribe" if outcome.plan.subscribes else "assign"
    more = (" moves" if outcome.plan.moves else "") + (" dead" if outcome.plan.dead else "")
    return f"{outcome.plan.mode} {how}{more}"


def show_verdict(console: Console, verdict: Verdict) -> None:
    counts = verdict.counts
    table = Table(title=None)
    for name in ("ops", "ok", "info", "fail", "acked", "polled", "lag p99 ms", "lag worst ms", "anomalies"):
        table.add_column(name, justify="right")
    table.add_row(
        *(str(n) for n in (counts.ops, counts.ok, counts.info, counts.fail, counts.acked, counts.polled)),
        f"{verdict.lag.p99_ms:.0f}",
        f"{verdict.lag.worst_ms:.0f}",
        anomalies(verdict) or "none",
    )
    console.print(table)
    for kind in verdict.findings.kinds():
        if kind in verdict.allowed:
            console.print(f"  allowed: {kind} {verdict.findings.counts[kind]}")
        else:
            for example in verdict.findings.examples[kind]:
                console.print(f"  {kind}: {example}", style="red", highlight=False)


def show_outcome(console: Console, outcome: Outcome) -> None:
    """The whole story of a run."""
    plan = outcome.plan
    where = (
        f", {plan.nodes} brokers of {plan.peer} with {plan.store}, RF {plan.rf}, min ISR {plan.min_isr}"
        if plan.nodes > 1
        else ""
    )
    console.print(
        f"run: seed {plan.seed}, mode {mode_words(outcome)}{where}, {plan.seconds:g} s", highlight=False
    )
    if outcome.missing:
        console.print(f"  not run: the broker does not offer {', '.join(outcome.missing)}", style="yellow")
        return
    for part, why in outcome.lacks.items():
        console.print(f"  no faults to the {part}: {why}", style="yellow", markup=False)
    console.print(f"  faults: {fault_words(outcome) or 'none'}", highlight=False)
    for stack, counts in outcome.by_stack.items():
        figures = ", ".join(f"{what} {count}" for what, count in counts.items())
        console.print(f"  {stack}: {figures}", highlight=False)
    console.print(
        f"  leader changes {outcome.leader_changes}, ISR changes {outcome.isr_changes}, moves {outcome.moves},"
        f" preferred elections {outcome.elections}",
        highlight=False,
    )
    if outcome.verdict is not None:
        show_verdict(console, outcome.verdict)
    for problem in outcome.problems:
        console.print(f"  problem: {problem}", style="red", highlight=False, markup=False)


def row(number: int, outcome: Outcome) -> list[str]:
    """The cells of a run."""
    plan, verdict = outcome.plan, outcome.verdict
    head = [str(number), str(plan.seed), mode_words(outcome), f"{outcome.took_s:.0f}"]
    if verdict is None:
        return [*head, *["-"] * 6, fault_words(outcome), "not finished"]
    counts = verdict.counts
    figures = (outcome.load_ops, counts.ok, counts.info, counts.fail, counts.acked, counts.polled)
    bad = anomalies(verdict) or (f"problems {len(outcome.problems)}" if outcome.problems else "none")
    if not outcome.is_judged:
        bad = f"too few operations, {bad}"
    return [*head, *map(str, figures), fault_words(outcome), bad]


def show_summary(console: Console, outcomes: Sequence[Outcome], report: Report) -> None:
    """A row for each run, and what they come to together."""
    table = Table(title=None)
    for heading in HEADINGS:
        is_text = heading in ("mode", "faults", "anomalies")
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=heading != "faults")
    for number, outcome in enumerate(outcomes, 1):
        table.add_row(*row(number, outcome), style=None if outcome.is_good else "red")
    console.print(table)
    for line in summary_lines(report.figures(), report.skipped):
        console.print(line, highlight=False, markup=False)


def summary_lines(figures: dict[str, Any], skipped: dict[str, str]) -> list[str]:
    def listed(counts: dict[str, int]) -> str:
        return ", ".join(f"{what} {count}" for what, count in counts.items()) or "none"

    return [
        f"{figures['runs']} runs, {figures['judged']} judged, {figures['good']} good, {figures['seconds']} s",
        f"operations {figures['operations']} (fewest in a run: {figures['operations_fewest']}),"
        f" acknowledged records {figures['acknowledged_records']},"
        f" operations of unknown outcome {figures['operations_unknown']}",
        f"leader changes {figures['leader_changes']}, ISR changes {figures['isr_changes']},"
        f" moves of replicas {figures['moves']}, preferred elections {figures['preferred_elections']},"
        f" changes of topics {figures['topic_changes']}",
        f"faults: {listed(figures['faults'])}",
        f"anomalies: {listed(figures['anomalies'])}; other problems: {figures['problems']}",
        *(f"skipped: {what}: {why}" for what, why in skipped.items()),
    ]


def run_campaign(
    console: Console,
    seeds: Sequence[int],
    outcomes_of: Callable[[Sequence[int]], Iterable[Outcome]],
    again: Callable[[int], str],
    skipped: dict[str, str],
    path: Path | None,
) -> list[Outcome]:
    """`again` is the command that repeats a run, `skipped` what was asked for and is not done, `path` the report."""
    outcomes: list[Outcome] = []
    report = Report(outcomes, skipped)
    for number, outcome in enumerate(outcomes_of(seeds), 1):
        outcomes.append(outcome)
        if path is not None:
            report.write(path)
        if len(seeds) == 1 or not outcome.is_good:
            show_outcome(console, outcome)
            if outcome.kept is not None:
                console.print(f"  kept in {outcome.kept}", highlight=False, markup=False)
            if not outcome.is_good and not outcome.missing:
                console.print(f"  again: {again(outcome.plan.seed)}", highlight=False, markup=False)
        else:
            console.print("  ".join(row(number, outcome)), highlight=False, markup=False, soft_wrap=True)
    if len(seeds) > 1:
        show_summary(console, outcomes, report)
    return outcomes
