"""Five brokers, their metadata store and their clients under every fault: no promise is broken, and all come back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sim.cluster_scene import scene_of, simulate
from sim.loop import Order, SimLoop

TESTS = Path(__file__).parents[1]
SEEDS, CHUNK = range(300), 50
FORMERLY = (1194, 1204, 1495, 1528, 1669, 1672, 1893, 1993, 2378, 2743, 3057, 3638, 20028)
"""Seeds that have found faults that others had not. Of brokers: 1495 and 1993 (a start that died after it had
registered), 1669 and 2378 (the end of a log, told by a replaced leader), 3638 (a copy in sync that was thrown away),
20028 (a replica that lacked space for a moment), 1194 and 1672 (a replica that had failed out of sync was admitted
without its records). The rest were faults of the simulation."""
KINDS_MIN = 22
"""Of 25 kinds of faults, so many at least happen within a chunk of seeds."""


@pytest.mark.parametrize("seed", FORMERLY)
def test_what_was_broken_once_holds(seed: int) -> None:
    simulate(seed)


@pytest.mark.parametrize("first", SEEDS[::CHUNK])
def test_no_promise_is_broken_and_everything_comes_back(first: int) -> None:
    faults: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        scene = simulate(seed)
        faults += scene.faults.counts
        numbers += scene.numbers()
    assert len(faults) >= KINDS_MIN, faults
    assert numbers["records compared"] > 100 * CHUNK / 2, numbers
    assert numbers["troubles"] > 10 * CHUNK and numbers["transactions"] > 5 * CHUNK, numbers


def test_no_promise_rests_on_the_order_of_callbacks() -> None:
    for seed in range(1_000, 1_010):
        simulate(seed, order=Order.ANY)


def digest_of(seed: int) -> str:
    """The hash of every step of one run."""
    loop = SimLoop(seed)  # type: ignore[abstract]
    loop.run(scene_of())
    return f"{loop.digest()} {loop.steps}"


def _digest_in_another_process(seed: int, hash_seed: str) -> str:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    code = f"from sim.test_cluster import digest_of; print(digest_of({seed}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
    )
    return done.stdout.strip()


def test_a_seed_names_a_run_in_every_process_and_with_every_hash_seed() -> None:
    here = digest_of(7)
    assert here == digest_of(7)
    assert [_digest_in_another_process(7, hash_seed) for hash_seed in ("0", "4242")] == [here] * 2


def test_a_run_without_a_trace_takes_the_same_steps() -> None:
    quiet, traced = SimLoop(8, is_traced=False), SimLoop(8)  # type: ignore[abstract]
    quiet.run(scene_of())
    traced.run(scene_of())
    assert (quiet.steps, quiet.time()) == (traced.steps, traced.time())
