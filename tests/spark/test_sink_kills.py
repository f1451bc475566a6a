"""Topic to topic while driver, worker and broker are killed with -9: each input record comes out exactly once.

By a stream, which Spark continues at its checkpoint, and by batch jobs with versions.
"""

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
NODES = int(os.environ.get("SPARK_NODES", "1"))
SEED = int(os.environ.get("SPARK_SEED", "1"))


def copier(home: Path) -> Callable[[str], Sequence[str]]:
    """How the copy is started, whenever it is."""
    return lambda bootstrap: ["-m", "spark.copying", bootstrap, str(home / "checkpoint")]


def batches(home: Path) -> Callable[[str], Sequence[str]]:
    """How the batch jobs are started, whenever they are."""
    return lambda bootstrap: ["-m", "spark.batches", bootstrap, str(home / "batch.json")]


def survive(home: Path, child: Callable[[str], Sequence[str]], kills: Sequence[Kill], nodes: int = 1) -> str:
    with Ordeal(home, child, nodes) as ordeal:
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
    print(survive(tmp_path, copier(tmp_path), kills))


@pytest.mark.timeout(900)
def test_a_copy_survives_kills_of_each_broker_of_a_cluster(tmp_path: Path) -> None:
    """One of them leads the transaction, others the partitions; the last one stays away for a while."""
    calls = {ApiKey.PRODUCE: "broker", ApiKey.TXN_OFFSET_COMMIT: "broker", ApiKey.END_TXN: "leader"}
    kills = [Kill(victim, Point(call, 2, is_answered=False)) for call, victim in calls.items()]
    print(survive(tmp_path, copier(tmp_path), kills, nodes=3))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_copy_survives_many_kills(tmp_path: Path) -> None:
    print(survive(tmp_path, copier(tmp_path), plan(SEED, KILLS, nodes=NODES), NODES))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_batches_survive_many_kills(tmp_path: Path) -> None:
    print(survive(tmp_path, batches(tmp_path), plan(SEED, KILLS, nodes=NODES), NODES))
