"""The same seed gives the same run: in this process, in another one, and whatever the hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sim.loop import Order, SimLoop
from sim.toy_log import Bugs, lost_to_power

TESTS = Path(__file__).parents[1]


def digest_of(seed: int, order: Order = Order.HOSTS) -> str:
    """The hash of every step of one run with clients, a server, power losses and a broken disk."""
    loop = SimLoop(seed, order=order)
    loop.run(lambda loop: lost_to_power(loop, Bugs(acks_before_sync=True)))
    return f"{loop.digest()} {loop.steps}"


def _digest_in_another_process(seed: int, hash_seed: str) -> str:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    code = f"from sim.test_trace import digest_of; print(digest_of({seed}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
    )
    return done.stdout.strip()


def test_equal_seeds_give_equal_traces_and_others_do_not() -> None:
    for order in Order:
        assert digest_of(11, order) == digest_of(11, order)
    assert len({digest_of(seed) for seed in range(10)}) == 10


def test_the_trace_is_the_same_in_other_processes_and_under_other_hash_seeds() -> None:
    here = digest_of(11)
    assert [_digest_in_another_process(11, hash_seed) for hash_seed in ("0", "1", "4242")] == [here] * 3


def test_the_log_shows_what_was_hashed() -> None:
    lines: list[str] = []
    loop = SimLoop(11, log=lines.append)
    loop.run(lambda loop: lost_to_power(loop, Bugs()))
    assert any("boot server life 1" in line for line in lines)
    assert any("crash server" in line for line in lines)
    assert not any(" at 0x" in line for line in lines)
