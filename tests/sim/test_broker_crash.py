"""The whole node loses its power, is killed, and is stopped, at any point; no promise that it made is broken."""

from __future__ import annotations

import pytest

from penstock.node import janitor
from sim import node
from sim.crashing import Trial
from sim.loop import SimLoop, run

SEEDS = range(30)


@pytest.fixture(autouse=True)
def small_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery points are taken all the time, not after megabytes."""
    monkeypatch.setattr(janitor, "CHECKPOINT_BYTES_MIN", node.CHECKPOINT_BYTES_MIN)


async def crash_often(loop: SimLoop) -> Trial:
    trial = Trial(loop)
    with node.complaints() as complaints:
        await trial.run()
    assert complaints == []
    return trial


@pytest.mark.parametrize("seed", SEEDS)
def test_no_promise_is_broken(seed: int) -> None:
    trial = run(seed, crash_often)
    assert trial.ledger.checked > 0
