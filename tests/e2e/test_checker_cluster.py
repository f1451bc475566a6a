"""Replicated brokers with their store and network under faults: a history without a flaw. Never asserts how fast it
went."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker.cluster_nemesis import needs
from checker.cluster_run import run_with_cluster
from checker.plan import Outcome, Plan
from checker.store import COORDINATOR, ETCD

SEED = 20
SEED_OF_DEATH = next(seed for seed in range(100) if Plan(seed, nodes=3, rf=3, min_isr=2).dead)


def plan_of(seed: int, mode: str, store: str, faults: tuple[str, ...]) -> Plan:
    return Plan(
        seed,
        seconds=20,
        mode=mode,
        faults=faults,
        nodes=3,
        rf=3,
        min_isr=2,
        store=store,
        crash_s_mean=15,
        final_s_max=60,
    )


def assert_good(outcome: Outcome) -> None:
    assert outcome.verdict is not None, outcome.problems
    assert outcome.verdict.invalid_kinds == [], outcome.verdict.findings.examples
    assert outcome.problems == []
    assert outcome.is_good
    for fault in outcome.plan.faults:
        if not outcome.lacks.keys() & set(needs(fault)):
            assert outcome.faults[fault] >= 1


@pytest.mark.timeout(600)
def test_transactions_with_killed_and_isolated_brokers(tmp_path: Path) -> None:
    faults = ("kill-controller", "isolate-leader", "kill-store")
    assert_good(run_with_cluster(plan_of(SEED, "txn", COORDINATOR, faults), tmp_path))


@pytest.mark.timeout(600)
def test_groups_on_etcd_that_loses_its_majority(tmp_path: Path) -> None:
    faults = ("kill-majority", "kill-leader", "cut-store-one-way")
    assert_good(run_with_cluster(plan_of(SEED, "groups", ETCD, faults), tmp_path))


@pytest.mark.timeout(600)
def test_everything_can_be_read_while_a_broker_is_down(tmp_path: Path) -> None:
    plan = plan_of(SEED_OF_DEATH, "plain", COORDINATOR, ("kill-leader", "cut-clients"))
    outcome = run_with_cluster(plan, tmp_path)
    assert_good(outcome)
    assert outcome.faults["dead-at-the-end"] == 1
