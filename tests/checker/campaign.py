"""Runs in a row: a line for each, the whole story of those that are not good, and a table of all at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from checker.analysis import Verdict
from checker.cluster_nemesis import CLUSTER_FAULTS
from checker.workload import Outcome

FAULTS_SHOWN = frozenset(CLUSTER_FAULTS) | {"kill-broker", "pause-broker", "kill-worker", "cut-logs"}
"""Of what the nemesis notes, the faults; the rest says when they were healed."""
HEADINGS = ("run", "seed", "mode", "s", "ops", "ok", "info", "fail", "acked", "polled", "faults", "anomalies")


def anomalies(verdict: Verdict) -> str:
    return ", ".join(f"{kind} {verdict.findings.counts[kind]}" for kind in verdict.invalid_kinds)


def fault_words(outcome: Outcome) -> str:
    return ", ".join(
        f"{what} {count}" for what, count in sorted(outcome.faults.items()) if what in FAULTS_SHOWN
    )


def mode_words(outcome: Outcome) -> str:
    return f"{outcome.plan.mode} {'subscribe' if outcome.plan.subscribes else 'assign'}"


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
    where = f", {plan.nodes} brokers with {plan.store}" if plan.nodes > 1 else ""
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
    return [*head, *map(str, figures), fault_words(outcome), bad]


def show_summary(console: Console, outcomes: Sequence[Outcome]) -> None:
    """A row for each run, and what they come to together."""
    table = Table(title=None)
    for heading in HEADINGS:
        is_text = heading in ("mode", "faults", "anomalies")
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=heading != "faults")
    for number, outcome in enumerate(outcomes, 1):
        table.add_row(*row(number, outcome), style=None if outcome.is_good else "red")
    console.print(table)
    judged = [outcome.verdict.counts for outcome in outcomes if outcome.verdict is not None]
    faults = sum((Counter(outcome.faults) for outcome in outcomes), Counter[str]())
    shown = ", ".join(f"{what} {count}" for what, count in sorted(faults.items()) if what in FAULTS_SHOWN)
    bad = [outcome for outcome in outcomes if not outcome.is_good]
    lines = [
        f"{len(outcomes)} runs, {len(bad)} of them not good, {sum(outcome.took_s for outcome in outcomes):.0f} s",
        f"operations {sum(outcome.load_ops for outcome in outcomes)} (fewest in a run:"
        f" {min(outcome.load_ops for outcome in outcomes)}), acknowledged records {sum(one.acked for one in judged)},"
        f" of unknown outcome {sum(one.info for one in judged)},"
        f" changes of topics {sum(outcome.topic_changes for outcome in outcomes)}",
        f"faults: {shown or 'none'}",
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False)


def run_campaign(
    console: Console, seeds: Sequence[int], run: Callable[[int], Outcome], again: Callable[[int], str]
) -> list[Outcome]:
    """`again` is the command that repeats a run."""
    outcomes: list[Outcome] = []
    for number, seed in enumerate(seeds, 1):
        outcome = run(seed)
        outcomes.append(outcome)
        if len(seeds) == 1 or not outcome.is_good:
            show_outcome(console, outcome)
            if outcome.kept is not None:
                console.print(f"  kept in {outcome.kept}", highlight=False, markup=False)
            if not outcome.is_good and not outcome.missing:
                console.print(f"  again: {again(seed)}", highlight=False, markup=False)
        else:
            console.print("  ".join(row(number, outcome)), highlight=False, markup=False, soft_wrap=True)
    if len(seeds) > 1:
        show_summary(console, outcomes)
    return outcomes
