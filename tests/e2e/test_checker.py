"""Three client stacks, a broker that is killed under them, a history without a flaw. Never asserts how fast it went."""

from __future__ import annotations

from pathlib import Path

import pytest

from checker import findings as kinds
from checker.__main__ import BAD, GOOD, UNSUPPORTED, USAGE, main
from checker.history import write_history
from checker.model import Model
from checker.plants import PLANTS, planted
from checker.workload import UNREAD, Plan, run_with_broker
from penstock.testing import running_broker

SEED = 20


@pytest.mark.parametrize(
    ("mode", "via"),
    [("plain", "assign"), ("groups", "subscribe"), ("txn", "assign"), ("txn", "subscribe")],
)
def test_nothing_acknowledged_is_lost(tmp_path: Path, mode: str, via: str) -> None:
    plan = Plan(SEED, seconds=9, mode=mode, via=via, faults=("kill",), crash_s_mean=15, final_s_max=60)
    outcome = run_with_broker(plan, tmp_path)
    if outcome.missing:
        pytest.skip(f"the broker does not offer {', '.join(outcome.missing)}")
    assert outcome.verdict is not None
    assert outcome.verdict.invalid_kinds == [], outcome.verdict.findings.examples
    assert outcome.problems == []
    assert outcome.is_good
    assert outcome.faults["kill-broker"] == outcome.faults["start-broker"] >= 1
    assert outcome.verdict.counts.acked <= outcome.verdict.counts.polled


def test_a_broker_that_forgets_is_caught(tmp_path: Path) -> None:
    """The whole chain can say no. What was cut off was either not read yet, or is missing when all is read again."""
    plan = Plan(SEED, seconds=6, faults=("forget",), stacks=("confluent", "aiokafka"), final_s_max=10)
    outcome = run_with_broker(plan, tmp_path)
    assert outcome.verdict is not None
    assert not outcome.is_good
    assert outcome.verdict.invalid_kinds or any(UNREAD in problem for problem in outcome.problems)


def test_verdicts_are_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = Model(1).history(100)
    good, bad, broken = tmp_path / "good", tmp_path / "bad", tmp_path / "broken"
    write_history(good, events)
    write_history(bad, planted(PLANTS[kinds.G1A], events))
    broken.write_text("not a history\n")
    assert main(["check", str(good)]) == GOOD
    assert main(["check", str(bad)]) == BAD
    assert kinds.G1A in capsys.readouterr().out
    assert main(["check", str(broken)]) == USAGE
    assert main(["check", str(tmp_path / "absent")]) == USAGE


def test_what_the_broker_cannot_do_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("checker.capability.NEEDED", {"plain": {32_000: "Levitate"}})
    with running_broker(storage="memory") as broker:
        code = main(["run", "--bootstrap", broker.bootstrap, "--seed", "1", "--seconds", "1"])
    assert code == UNSUPPORTED
    assert "does not offer Levitate" in capsys.readouterr().out
