"""Real brokers with a planted bug: some run out of a few is found bad, so a good campaign says something."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker.cluster_run import run_with_cluster
from checker.network import network_problem
from checker.plan import Plan
from checker.skewed_broker import PLANT

SEEDS = range(4)
FAULTS = {
    "acks-before-replication": ("isolate-broker", "isolate-leader"),
    "elects-any-replica": ("strand-follower",),
    "truncates-to-high-watermark": ("kill-all", "kill-two"),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("plant", FAULTS)
def test_a_planted_bug_is_found(plant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if problem := network_problem():
        pytest.skip(problem)
    monkeypatch.setenv(PLANT, plant)
    found = {}
    for seed in SEEDS:
        plan = Plan(seed, seconds=25, faults=FAULTS[plant], nodes=3, rf=3, min_isr=2, final_s_max=20)
        outcome = run_with_cluster(plan, tmp_path / str(seed))
        assert outcome.verdict is not None, outcome.problems
        found[seed] = outcome.verdict.invalid_kinds
        if found[seed]:
            return
    pytest.fail(f"{plant} was not found: {found}")
