"""Exactly-once workers of librdkafka under kills: with the documented setting none of them stands still."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat.stalls import Outcome, play_many

RUNS = 5


@pytest.mark.slow
def test_no_worker_stands_still_without_rebootstrap(tmp_path: Path) -> None:
    """With librdkafka's default, `rebootstrap`, some do, on Apache Kafka as well: see docs/clients.md."""
    told: list[Outcome] = []
    play_many("penstock", range(1, RUNS + 1), {"recovery": "none"}, tmp_path, told.append)
    assert len(told) == RUNS and sum(one.broker_kills for one in told) >= RUNS
    assert [(one.copied, one.twice, one.calls) for one in told] == [(one.written, 0, ()) for one in told]
