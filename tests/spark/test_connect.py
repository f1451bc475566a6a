"""`penstock pipeline` against a Spark Connect server: it ends by itself whatever happens, and says little."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.spark.pipelines.state import PipelineState
from spark.clusters import connect_server, environment
from spark.shop import Shop, order

SECONDS_MAX = 120
SAID_BYTES_MAX = 3_000
SCHEMA = "id bigint, amount double"


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect"), "local[2]") as url:
        yield url


def run(shop: Shop, remote: str, pipelines: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    """The command as anybody would call it. One that hangs fails the test."""
    project = {"bootstrap": shop.bootstrap, "spark": {"remote": remote}, "pipelines": pipelines}
    (shop.home / "pipelines.yaml").write_text(yaml.safe_dump(project))
    return subprocess.run(
        [sys.executable, "-m", "penstock", "pipeline", *words],
        cwd=shop.home,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )


def lake(topic: str, table: str, **more: Any) -> dict[str, Any]:
    return {
        "source": {"topics": [topic]},
        "decode": {"schema": SCHEMA, "bad_rows": "fail"},
        "sink": {"table": table},
        **more,
    }


def test_a_query_that_cannot_start_ends_the_run_and_not_its_neighbour(shop: Shop, remote: str) -> None:
    orders = shop.topic("orders", 1)
    shop.put(orders, [order(1)])
    wrong = {"topics": [orders], "options": {"bogus": "1"}}
    done = run(
        shop,
        remote,
        {"good": lake(orders, "good"), "wrong": {**lake(orders, "l2"), "source": wrong}},
        "run",
        "--once",
    )
    assert (done.returncode, done.stderr) == (1, "Error: wrong: there is no option 'bogus'.\n")
    assert [row["id"] for row in shop.rows("good")] == [1]
    status = PipelineState(Path(shop.home) / ".pipelines" / "wrong").status()
    assert status is not None
    assert (status["state"], status["error"]) == ("failed", "wrong: there is no option 'bogus'.")


def test_wrong_queries_are_told_in_a_line_each(shop: Shop, remote: str) -> None:
    orders = shop.topic("orders", 1)
    wrong = {
        "a": lake(orders, "a", steps=[{"sql": "select amuont from input"}]),
        "b": lake(orders, "b", steps=[{"sql": "selct 1"}]),
    }
    done = run(shop, remote, wrong, "validate")
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 2, done.stderr
    assert len(done.stderr) < SAID_BYTES_MAX
    assert "pipelines.yaml:8: pipelines.a.steps[0].sql: [UNRESOLVED_COLUMN" in done.stderr
