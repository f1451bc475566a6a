"""`python -m checker run …` drives a broker and judges it, `check FILE` a history. Never draws a seed in secret."""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path

from rich.console import Console

from checker.analysis import analyse
from checker.campaign import run_campaign, show_verdict
from checker.cluster_nemesis import CLUSTER_FAULTS, needs
from checker.cluster_run import run_with_cluster
from checker.history import MalformedHistory, read_history
from checker.kafka_site import LACKS
from checker.nemesis import FAULTS, SURVIVABLE
from checker.plan import (
    KAFKA,
    MODES,
    PEERS,
    PENSTOCK,
    STACKS,
    Outcome,
    Plan,
    default_min_isr,
    default_rf,
)
from checker.side_by_side import run_side_by_side
from checker.site import QUEUE_DOOR
from checker.store import COORDINATOR, STORES
from checker.workload import run_against, run_with_broker

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
    run = commands.add_parser("run", help="one or more runs against brokers of our own")
    run.add_argument("--seconds", type=float, default=20.0, help="of load in each run")
    run.add_argument("--seed", type=int, help="of the first run; drawn and printed if not given")
    run.add_argument("--runs", type=int, default=1, help="how many, with seeds in a row")
    run.add_argument("--jobs", type=int, default=1, help="runs side by side")
    run.add_argument(
        "--nemesis",
        type=lambda text: words(text, (*FAULTS, *CLUSTER_FAULTS)),
        help=f"faults; of one broker: {', '.join(FAULTS)}; of a cluster: {', '.join(CLUSTER_FAULTS)}",
    )
    run.add_argument("--nodes", type=int, default=1, help="brokers; several are a cluster")
    run.add_argument(
        "--rf", type=int, default=0, help="replicas of each partition; default: 3, at most --nodes"
    )
    run.add_argument("--min-isr", type=int, default=0, help="min.insync.replicas; default: RF-1 from RF 3 on")
    run.add_argument("--peer", choices=PEERS, default=PENSTOCK, help="whose brokers are driven")
    run.add_argument("--report", type=Path, help="file for the figures of all runs, as JSON")
    run.add_argument("--store", choices=STORES, default=COORDINATOR, help="metadata store of a cluster")
    run.add_argument(
        "--ops", type=int, default=0, help="go on without faults until there are so many operations"
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


def plan_of(args: argparse.Namespace, seed: int) -> Plan:
    """All follows from the seed, the mode too: several take turns."""
    is_cluster = args.nodes > 1
    faults = args.nemesis
    if faults is None:
        faults = CLUSTER_FAULTS if is_cluster else SURVIVABLE
    if args.peer == KAFKA:
        faults = tuple(fault for fault in faults if fault not in skipped_faults())
    return Plan(
        seed=seed,
        seconds=args.seconds,
        mode=args.mode[seed % len(args.mode)],
        via=args.via,
        faults=() if args.bootstrap else faults,
        nodes=args.nodes,
        rf=(rf := args.rf or default_rf(args.nodes)),
        min_isr=args.min_isr or default_min_isr(rf),
        peer=args.peer,
        store=args.store,
        ops_min=args.ops,
        stacks=args.stacks,
        workers_per_stack=args.workers,
        keys=args.keys,
        crash_s_mean=args.crash_seconds,
        final_s_max=args.final_seconds,
    )


def run_once(args: argparse.Namespace, seed: int) -> Outcome:
    """One run in a directory of its own, which is kept if the run is not good."""
    plan = plan_of(args, seed)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix=f"checker-{seed}-", dir=args.keep))
    began_s = time.monotonic()
    try:
        if args.bootstrap:
            outcome = run_against(plan, home, args.bootstrap)
        elif plan.nodes > 1:
            outcome = run_with_cluster(plan, home)
        else:
            outcome = run_with_broker(plan, home)
    except Exception:  # noqa: BLE001
        outcome = Outcome(plan, problems=[traceback.format_exc()])
    outcome.took_s = time.monotonic() - began_s
    if (outcome.is_good or outcome.missing) and not args.keep:
        shutil.rmtree(home)
    else:
        outcome.kept = home
    return outcome


def run(args: argparse.Namespace, console: Console) -> int:
    check_faults(args)
    skipped = skip(args)
    first = secrets.randbelow(SEEDS) if args.seed is None else args.seed
    seeds = range(first, first + args.runs)

    outcomes = run_campaign(
        console,
        seeds,
        lambda seeds: run_side_by_side(partial(run_once, args), seeds, args.jobs),
        lambda seed: again(args, seed),
        skipped,
        report_path(args, first),
    )
    if any(not outcome.is_good and not outcome.missing for outcome in outcomes):
        return BAD
    return UNSUPPORTED if any(outcome.missing for outcome in outcomes) else GOOD


def skipped_faults() -> dict[str, str]:
    """What cannot be done to Kafka, and why."""
    return {fault: LACKS[part] for fault in CLUSTER_FAULTS for part in needs(fault) if part in LACKS} | {
        "cut-member": LACKS["store"]
    }


def skip(args: argparse.Namespace) -> dict[str, str]:
    """Leave out what the peer does not have; returns it with the reasons."""
    if args.peer != KAFKA:
        return {}
    modes = tuple(mode for mode in args.mode if mode != "queue")
    skipped = {"mode queue": LACKS[QUEUE_DOOR]} if modes != args.mode else {}
    if not modes:
        raise SystemExit(LACKS[QUEUE_DOOR])
    args.mode = modes
    asked = args.nemesis or CLUSTER_FAULTS
    return skipped | {f"fault {fault}": why for fault, why in skipped_faults().items() if fault in asked}


def report_path(args: argparse.Namespace, first: int) -> Path | None:
    """A directory gets a file of its own for each campaign."""
    path: Path | None = args.report
    if path is None or not path.is_dir():
        return path
    return path / f"chaos-{args.peer}-{args.nodes}-{args.store}-{first}.json"


def again(args: argparse.Namespace, seed: int) -> str:
    """The command that repeats one run."""
    plan = plan_of(args, seed)
    words = {
        "seed": plan.seed,
        "seconds": f"{plan.seconds:g}",
        "ops": plan.ops_min,
        "mode": ",".join(args.mode),
        "nodes": plan.nodes,
        "rf": plan.rf,
        "min-isr": plan.min_isr,
        "peer": plan.peer,
        "store": plan.store,
        "nemesis": ",".join(args.nemesis or ()),
        "workers": plan.workers_per_stack,
        "keys": plan.keys,
        "crash-seconds": f"{plan.crash_s_mean:g}",
    }
    options = " ".join(f"--{name} {value}" for name, value in words.items() if value)
    return f"PYTHONPATH=tests .venv/bin/python -m checker run {options}"


def check_faults(args: argparse.Namespace) -> None:
    """Faults of one broker and of a cluster are not the same."""
    if args.peer == KAFKA and args.nodes == 1:
        raise SystemExit("--peer kafka needs --nodes 3 or more")
    allowed = CLUSTER_FAULTS if args.nodes > 1 else FAULTS
    for fault in args.nemesis or ():
        if fault not in allowed:
            raise SystemExit(
                f"with {args.nodes} brokers --nemesis may be {', '.join(allowed)}, not {fault!r}"
            )


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
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # clean up; shells let background jobs ignore the first one
        signal.signal(number, signal.default_int_handler)
    return run(args, console) if args.command == "run" else check(args, console)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
