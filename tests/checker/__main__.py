"""`python -m checker run …` drives a broker and judges it, `check FILE` a history. Never draws a seed in secret."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from checker.analysis import Verdict, analyse
from checker.history import MalformedHistory, read_history
from checker.nemesis import FAULTS, SURVIVABLE
from checker.workload import MODES, STACKS, Outcome, Plan, run_against, run_with_broker

GOOD, BAD, USAGE, UNSUPPORTED = 0, 1, 2, 3
SEEDS = 1_000_000


def words(text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(filter(None, text.split(",")))
    for word in chosen:
        if word not in allowed:
            raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(allowed)}")
    return chosen


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="checker", description="Drive a broker, write a history, judge it.")
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="one or more runs against a broker of our own")
    run.add_argument("--seconds", type=float, default=20.0, help="of load in each run")
    run.add_argument("--seed", type=int, help="of the first run; drawn and printed if not given")
    run.add_argument("--runs", type=int, default=1, help="how many, with seeds in a row")
    run.add_argument(
        "--nemesis", type=lambda text: words(text, FAULTS), default=SURVIVABLE, help="of kill,pause,forget"
    )
    run.add_argument(
        "--mode", type=lambda text: words(text, MODES), default=("plain",), help="in turn, if several"
    )
    run.add_argument(
        "--via", choices=("assign", "subscribe"), default="", help="how consumers get their keys"
    )
    run.add_argument("--stacks", type=lambda text: words(text, STACKS), default=STACKS)
    run.add_argument("--workers", type=int, default=1, help="processes for each stack")
    run.add_argument("--keys", type=int, default=6)
    run.add_argument("--crash-seconds", type=float, default=30.0, help="mean time between killed workers")
    run.add_argument(
        "--final-seconds", type=float, default=200.0, help="bound on reading everything at the end"
    )
    run.add_argument("--bootstrap", help="a broker that runs already; faults to it are then not possible")
    run.add_argument("--keep", type=Path, help="directory for histories; only bad ones are kept otherwise")
    check = commands.add_parser("check", help="judge a history file")
    check.add_argument("file", type=Path)
    check.add_argument("--ww", action="store_true", help="add the order of versions to the graph")
    return top


def show_verdict(console: Console, verdict: Verdict) -> None:
    counts = verdict.counts
    table = Table(title=None)
    for name in ("ops", "ok", "info", "fail", "acked", "polled", "lag p99 ms", "lag worst ms", "anomalies"):
        table.add_column(name, justify="right")
    bad = ", ".join(f"{kind} {verdict.findings.counts[kind]}" for kind in verdict.invalid_kinds)
    table.add_row(
        *(str(n) for n in (counts.ops, counts.ok, counts.info, counts.fail, counts.acked, counts.polled)),
        f"{verdict.lag.p99_ms:.0f}",
        f"{verdict.lag.worst_ms:.0f}",
        bad or "none",
    )
    console.print(table)
    for kind in verdict.findings.kinds():
        if kind in verdict.allowed:
            console.print(f"  allowed: {kind} {verdict.findings.counts[kind]}")
        else:
            for example in verdict.findings.examples[kind]:
                console.print(f"  {kind}: {example}", style="red", highlight=False)


def show_outcome(console: Console, outcome: Outcome) -> None:
    plan = outcome.plan
    via = "subscribe" if plan.subscribes else "assign"
    console.print(f"run: seed {plan.seed}, mode {plan.mode} via {via}, {plan.seconds:g} s", highlight=False)
    if outcome.missing:
        console.print(f"  not run: the broker does not offer {', '.join(outcome.missing)}", style="yellow")
        return
    assert outcome.verdict is not None
    faults = ", ".join(f"{what} {count}" for what, count in sorted(outcome.faults.items()))
    console.print(f"  faults: {faults or 'none'}", highlight=False)
    for stack, counts in outcome.by_stack.items():
        figures = ", ".join(f"{what} {count}" for what, count in counts.items())
        console.print(f"  {stack}: {figures}", highlight=False)
    show_verdict(console, outcome.verdict)
    for problem in outcome.problems:
        console.print(f"  problem: {problem}", style="red", highlight=False, markup=False)


def run_once(args: argparse.Namespace, seed: int, mode: str, home: Path) -> Outcome:
    plan = Plan(
        seed=seed,
        seconds=args.seconds,
        mode=mode,
        via=args.via,
        faults=() if args.bootstrap else args.nemesis,
        stacks=args.stacks,
        workers_per_stack=args.workers,
        keys=args.keys,
        crash_s_mean=args.crash_seconds,
        final_s_max=args.final_seconds,
    )
    return run_against(plan, home, args.bootstrap) if args.bootstrap else run_with_broker(plan, home)


def run(args: argparse.Namespace, console: Console) -> int:
    first = secrets.randbelow(SEEDS) if args.seed is None else args.seed
    code = GOOD
    for number in range(args.runs):
        mode = args.mode[number % len(args.mode)]
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(prefix=f"checker-{first + number}-", dir=args.keep))
        outcome = run_once(args, first + number, mode, home)
        show_outcome(console, outcome)
        if outcome.missing:
            code = code or UNSUPPORTED
        elif not outcome.is_good:
            code = BAD
        if (outcome.is_good or outcome.missing) and not args.keep:
            discard(home)
        else:
            console.print(f"  kept in {home}", highlight=False)
    return code


def discard(home: Path) -> None:
    for path in sorted(home.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    home.rmdir()


def check(args: argparse.Namespace, console: Console) -> int:
    try:
        verdict = analyse(read_history(args.file), ww_edges=args.ww)
    except (MalformedHistory, OSError) as error:
        console.print(str(error), style="red", markup=False)
        return USAGE
    show_verdict(console, verdict)
    return GOOD if verdict.is_valid else BAD


def main(arguments: list[str]) -> int:
    args = parser().parse_args(arguments)
    console = Console(width=140 if not sys.stdout.isatty() else None)
    return run(args, console) if args.command == "run" else check(args, console)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
