"""`make sim`: many seeds of the simulated cluster, or one seed again with its story. A seed names a run, everywhere."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import NamedTuple

from sim.cluster_scene import STEPS_MAX, scene_of, simulate
from sim.loop import SimLoop

CHUNK = 20
"""Seeds that a process runs before it reports."""
PROGRESS_S = 10.0


class Outcome(NamedTuple):
    """What some seeds came to."""

    seeds: int
    failures: dict[int, str]
    faults: Counter[str]
    numbers: Counter[str]


def run_seeds(seeds: Sequence[int]) -> Outcome:
    """Run these seeds one after the other; a failure does not end them."""
    outcome = Outcome(len(seeds), {}, Counter(), Counter())
    for seed in seeds:
        try:
            scene = simulate(seed)
        except Exception as error:  # noqa: BLE001
            outcome.failures[seed] = f"{type(error).__name__}: {error}"
            continue
        outcome.faults.update(scene.faults.counts)
        outcome.numbers.update(scene.numbers())
    return outcome


def run_many(first: int, count: int, jobs: int) -> int:
    """Run all seeds with progress on the way; the number of those that failed."""
    total, begun_s, told_s = Outcome(0, {}, Counter(), Counter()), time.monotonic(), time.monotonic()
    chunks = [range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]
    with ProcessPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run_seeds, chunk) for chunk in chunks]):
            part = done.result()
            total = Outcome(
                total.seeds + part.seeds,
                total.failures | part.failures,
                total.faults + part.faults,
                total.numbers + part.numbers,
            )
            for seed, failure in part.failures.items():
                print(f"seed {seed} failed: {failure}\n  repeat it with: make sim SEED={seed}", flush=True)
            if time.monotonic() > told_s + PROGRESS_S:
                told_s = time.monotonic()
                rate = total.seeds / (told_s - begun_s)
                print(
                    f"{total.seeds} of {count} seeds, {rate:.1f}/s, {len(total.failures)} failed", flush=True
                )
    print(f"{total.seeds} seeds in {time.monotonic() - begun_s:.0f} s, {len(total.failures)} failed")
    for title, counts in (("faults", total.faults), ("seen", total.numbers)):
        print(f"{title}: " + ", ".join(f"{name} {number}" for name, number in sorted(counts.items())))
    if total.failures:
        print(f"failed seeds: {sorted(total.failures)}; repeat one with: make sim SEED={min(total.failures)}")
    return len(total.failures)


def tell(seed: int) -> None:
    """Run one seed and print what happened: faults, crashes, cuts, troubles of clients, and what brokers log."""
    loops: list[SimLoop] = []

    def note(line: str) -> None:
        _, now, text = line.split(" ", 2)
        if not loops or not loops[0].knows(text.partition(" ")[0]):  # not a single step
            print(f"{float(now):10.4f} {text}")

    loop = SimLoop(seed, log=note, run_steps_max=STEPS_MAX)  # type: ignore[abstract]
    loops.append(loop)
    with _logs_of(loop):
        scene = loop.run(scene_of())
    print(f"seed {seed} passed: {dict(scene.numbers())}")


@contextmanager
def _logs_of(loop: SimLoop) -> Iterator[None]:
    class Print(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            where = loop.here().name
            print(f"{loop.time():10.4f} {where} {record.levelname} {record.name}: {self.format(record)}")

    logger, handler = logging.getLogger("penstock"), Print(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sim.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, help="run only this one, and tell its story")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        tell(arguments.seed)
        return 0
    return 1 if run_many(arguments.first, arguments.seeds, arguments.jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
