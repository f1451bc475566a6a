"""Topic to Delta while driver, worker and broker are killed with -9: each input record is in the table exactly once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from penstock.spark.lake.tables import open_table
from penstock.wire.kafka import ApiKey
from spark.kills import CLIENT_ID, INPUT, Kill, Ordeal, plan
from spark.passage import Point

KILLS = int(os.environ.get("SPARK_KILLS", "50"))
NODES = int(os.environ.get("SPARK_NODES", "1"))
SEED = int(os.environ.get("SPARK_SEED", "2"))
CALLS = (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA)
"""All that a pipeline to a table asks of the broker."""


def lake(home: Path) -> Callable[[str], Sequence[str]]:
    """How the pipeline is started, whenever it is: by the command, as anybody would."""
    file = home / "pipelines.yaml"

    def words(bootstrap: str) -> Sequence[str]:
        project = {
            "bootstrap": bootstrap,
            "spark": {"master": "local[2,4]"},
            "options": {
                "kafka.client.id": CLIENT_ID,
                "kafka.request.timeout.ms": "10000",
                "kafka.default.api.timeout.ms": "60000",
            },
            "pipelines": {
                "lake": {
                    "source": {"topics": [INPUT], "rows_per_batch_max": 120},
                    "decode": {"format": "raw"},
                    "sink": {"table": "lake"},
                    "trigger": "50ms",
                }
            },
        }
        file.write_text(yaml.safe_dump(project))
        return ["-m", "penstock", "pipeline", "run", "-f", str(file)]

    return words


def survive(home: Path, kills: Sequence[Kill], nodes: int = 1) -> str:
    table = open_table(home / "lake", "delta")

    def tally() -> Counter[str]:
        if not table.exists():
            return Counter()
        return Counter(
            value.decode() for value in table.between(table.spans(), ["_value"])["_value"].to_pylist()
        )

    with Ordeal(home, lake(home), nodes) as ordeal:
        ordeal.run(kills, tally)
        ordeal.finish(tally)
        return ordeal.report()


@pytest.mark.timeout(900)
def test_a_lake_survives_one_kill_of_each(tmp_path: Path) -> None:
    kills = [
        Kill("worker", Point(ApiKey.FETCH, 3, is_answered=False)),
        Kill("driver", Point(ApiKey.LIST_OFFSETS, 6, is_answered=True)),
        Kill("broker", Point(ApiKey.FETCH, 4, is_answered=True)),
    ]
    print(survive(tmp_path, kills))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_lake_survives_many_kills(tmp_path: Path) -> None:
    print(survive(tmp_path, plan(SEED, KILLS, CALLS, NODES), NODES))
