"""Topic to topic while driver, worker and broker are killed with -9: each input record comes out exactly once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from penstock.wire.kafka import ApiKey
from spark.kills import Kill, Ordeal, TopicTally, plan
from spark.passage import Point

KILLS = int(os.environ.get("SPARK_KILLS", "50"))
SEED = int(os.environ.get("SPARK_SEED", "1"))


def copier(home: Path) -> Callable[[str], Sequence[str]]:
    """How the copy is started, whenever it is."""
    return lambda bootstrap: ["-m", "spark.copying", bootstrap, str(home / "checkpoint")]


def survive(home: Path, kills: Sequence[Kill]) -> str:
    with Ordeal(home, copier(home)) as ordeal:
        with closing(TopicTally(ordeal.bootstrap)) as tally:
            ordeal.run(kills, tally)
            ordeal.finish(tally)
        return ordeal.report()


@pytest.mark.timeout(900)
def test_a_copy_survives_one_kill_of_each(tmp_path: Path) -> None:
    kills = [
        Kill("worker", Point(ApiKey.TXN_OFFSET_COMMIT, 1, is_answered=False)),
        Kill("broker", Point(ApiKey.END_TXN, 4, is_answered=False)),
        Kill("driver", Point(ApiKey.END_TXN, 2, is_answered=True)),
    ]
    print(survive(tmp_path, kills))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_copy_survives_many_kills(tmp_path: Path) -> None:
    print(survive(tmp_path, plan(SEED, KILLS)))
