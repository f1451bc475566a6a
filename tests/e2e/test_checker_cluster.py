"""Three brokers with their store and network under faults: a history without a flaw. Never asserts how fast it went."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker.cluster_nemesis import NEEDS
from checker.cluster_run import run_with_cluster
from checker.store import COORDINATOR, ETCD
from checker.workload import Outcome, Plan

SEED = 20


def assert_good(outcome: Outcome) -> None:
    assert outcome.verdict is not None, outcome.problems
    assert outcome.verdict.invalid_kinds == [], outcome.verdict.findings.examples
    assert outcome.problems == []
    assert outcome.is_good
    for fault in outcome.plan.faults:
        if NEEDS[fault] not in outcome.lacks:
            assert outcome.faults[fault] >= 1


@pytest.mark.timeout(600)
def test_transactions_with_killed_and_isolated_brokers(tmp_path: Path) -> None:
    faults = ("kill-controller", "isolate-broker", "kill-store")
    plan = Plan(
        SEED,
        seconds=20,
        mode="txn",
        faults=faults,
        nodes=3,
        store=COORDINATOR,
        crash_s_mean=15,
        final_s_max=60,
    )
    assert_good(run_with_cluster(plan, tmp_path))


@pytest.mark.timeout(600)
def test_groups_on_etcd_that_loses_its_majority(tmp_path: Path) -> None:
    faults = ("kill-majority", "kill-broker", "cut-store-one-way")
    plan = Plan(
        SEED,
        seconds=20,
        mode="groups",
        faults=faults,
        nodes=3,
        store=ETCD,
        crash_s_mean=15,
        final_s_max=60,
    )
    assert_good(run_with_cluster(plan, tmp_path))
