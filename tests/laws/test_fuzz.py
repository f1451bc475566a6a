"""A taste of the fuzzing in every run: each target for some hundred inputs. `make fuzz` goes on for minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.__main__ import Campaign, all_targets, run_seeded
from fuzz.target import Target

EXECUTIONS = 150


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_broken_bytes_do_no_harm(target: Target) -> None:
    campaign = Campaign(target, seed=1)
    campaign.run_rounds(EXECUTIONS)
    assert len(campaign.outcomes) > 1, "it reads some and refuses some"


STATELESS = [target for target in all_targets() if not target.name.endswith("door")]


@pytest.mark.parametrize("target", STATELESS, ids=lambda target: target.name)
def test_a_seed_always_does_the_same(target: Target) -> None:
    first, second = Campaign(target, seed=2), Campaign(target, seed=2)
    first.run_rounds(10)
    second.run_rounds(10)
    assert first.outcomes == second.outcomes


def test_a_finding_is_kept_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def read(content: bytes) -> str:
        if content != b"good":
            raise ZeroDivisionError
        return "read"

    assert run_seeded([Target("planted", lambda rng: b"good", read)], 1, 0, tmp_path) == 1
    [kept] = tmp_path.iterdir()
    assert kept.read_bytes() != b"good"
    assert str(kept) in capsys.readouterr().out
