"""What a campaign is asked for, what it leaves out with which reason, and the figures that it reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checker.__main__ import parser, plan_of, report_path, skip
from checker.analysis import analyse
from checker.cluster_nemesis import CLUSTER_FAULTS, needs
from checker.model import Model
from checker.plan import Outcome, Plan
from checker.plants import PLANTS, planted
from checker.report import Report


@pytest.mark.parametrize(
    ("options", "rf", "min_isr"),
    [
        ([], 1, 1),
        (["--nodes", "2"], 2, 1),
        (["--nodes", "3"], 3, 2),
        (["--nodes", "5"], 3, 2),
        (["--nodes", "5", "--rf", "5", "--min-isr", "3"], 5, 3),
        (["--nodes", "3", "--rf", "1"], 1, 1),
    ],
)
def test_replicas_follow_from_the_number_of_brokers(options: list[str], rf: int, min_isr: int) -> None:
    plan = plan_of(parser().parse_args(["run", *options]), 1)
    assert (plan.rf, plan.min_isr) == (rf, min_isr)


def test_brokers_die_for_good_only_if_the_replicas_can_spare_them() -> None:
    replicated = [Plan(seed, nodes=3, rf=3, min_isr=2).dead for seed in range(30)]
    assert set(replicated) == {0, 1}
    assert {Plan(seed, nodes=3, rf=3, min_isr=3).dead for seed in range(30)} == {0}


def test_what_kafka_does_not_have_is_left_out_with_a_reason() -> None:
    args = parser().parse_args(["run", "--nodes", "3", "--peer", "kafka", "--mode", "plain,queue"])
    skipped = skip(args)
    assert args.mode == ("plain",)
    assert skipped["mode queue"] == "Kafka has no queue door"
    plan = plan_of(args, 1)
    assert {f"fault {fault}" for fault in CLUSTER_FAULTS if fault not in plan.faults} | {"mode queue"} == set(
        skipped
    )
    assert not any("store" in needs(fault) for fault in plan.faults)
    assert skip(parser().parse_args(["run", "--nodes", "3"])) == {}


def test_a_run_with_too_few_operations_is_not_judged(tmp_path: Path) -> None:
    events = Model(1).history(100)
    good, few, bad = (
        Outcome(Plan(seed, nodes=3, rf=3, min_isr=2, ops_min=100), load_ops=ops, verdict=analyse(found))
        for seed, ops, found in (
            (1, 100, events),
            (2, 99, events),
            (3, 120, planted(PLANTS["G1a"], events)),
        )
    )
    good.faults, bad.faults = {"kill-leader": 2, "killed": 2}, {"kill-leader": 1}
    assert (good.is_good, few.is_good, bad.is_good) == (True, False, False)

    path = tmp_path / "figures.json"
    Report([good, few, bad], {"mode queue": "none"}).write(path)
    figures = json.loads(path.read_text())
    assert (figures["runs"], figures["judged"], figures["good"]) == (3, 2, 1)
    assert (figures["operations"], figures["operations_fewest"]) == (319, 99)
    assert figures["anomalies"] == {"G1a": 1}
    assert figures["faults"] == {"kill-leader": 3}
    assert figures["skipped"] == {"mode queue": "none"}
    assert [one["seed"] for one in figures["each"]] == [1, 2, 3]


def test_campaigns_in_parallel_write_to_files_of_their_own(tmp_path: Path) -> None:
    args = parser().parse_args(["run", "--nodes", "3", "--report", str(tmp_path)])
    assert report_path(args, 1) != report_path(args, 2)
