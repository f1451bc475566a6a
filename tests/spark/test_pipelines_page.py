"""docs/pipelines.md is true: every project in it runs, and ends as it says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.spark.pipelines import load_project
from penstock.spark.pipelines.analysis import analyse
from penstock.spark.pipelines.runner import wait_until
from penstock.spark.pipelines.state import PipelineState
from penstock.testing import Broker
from spark.shop import Shop, shell

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text("utf-8")
SECONDS_MAX = 240


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks("yaml"))))
def test_projects_of_the_page_run(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", broker.bootstrap)
    prefix = f"page{number}-"
    text = re.sub(r"\b(topics: \[|topic: )(?=[a-z])", rf"\1{prefix}", blocks("yaml")[number])
    (tmp_path / "pipelines.yaml").write_text(text)
    project = load_project(tmp_path / "pipelines.yaml")
    shop = Shop(broker, tmp_path, prefix.rstrip("-"))
    wanted = set(re.findall(rf"{prefix}([a-z.-]+)", text)) | {
        f"{topic.removeprefix(prefix)}.dlq" for one in project.pipelines for topic in one.source.topics
    }
    for name in sorted(wanted):
        shop.topic(name, 1)
    row = {
        "order_id": 1,
        "id": 1,
        "customer": "c",
        "name": "n",
        "amount": 200.5,
        "at": "2026-01-01T00:00:00Z",
    }
    for topic in sorted({topic for one in project.pipelines for topic in one.source.topics}):
        shop.put(topic, [{**row, "ordered_at": "2026-01-01T00:00:00Z"}])
    analyse(spark, project, project.pipelines)
    for one in project.pipelines:
        assert shop.run(spark, project, one.name)[one.name].error == ""


def test_the_python_of_the_page_is_a_project(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(blocks("python")[0])
    project = load_project(tmp_path / "shop.py")
    analyse(spark, project, project.pipelines)
    assert [one.name for one in project.pipelines] == ["large-purchases"]


def test_ctrl_c_ends_it_at_a_batch(broker: Broker, shop: Shop, tmp_path: Path) -> None:
    orders = shop.topic("orders", 1)
    shop.put(orders, [{"id": 1}])
    pipeline = {"source": {"topics": [orders]}, "decode": {"schema": "id bigint"}, "sink": {"table": "lake"}}
    project = {"bootstrap": broker.bootstrap, "spark": {"master": "local[1]"}, "pipelines": {"p": pipeline}}
    (tmp_path / "pipelines.yaml").write_text(yaml.safe_dump(project))
    command = [sys.executable, "-m", "penstock", "pipeline", "run", "--metrics-port", "0"]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=shell(broker), stdout=out, stderr=err, start_new_session=True
        )
    try:
        assert wait_until(lambda: len(shop.rows("lake")) == 1, SECONDS_MAX, 0.2), (
            tmp_path / "err"
        ).read_text()
        shop.put(orders, [{"id": 2}])
        assert wait_until(lambda: len(shop.rows("lake")) == 2, SECONDS_MAX, 0.2)
        address = re.search(r"http://\S+", (tmp_path / "err").read_text())
        assert address is not None
        assert (
            b'penstock_pipeline_up{pipeline="p"} 1.0' in urllib.request.urlopen(address[0], timeout=30).read()
        )
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to Spark's Java and its workers as well
        assert process.wait(SECONDS_MAX) == 0, (tmp_path / "err").read_text()[-3000:]
    finally:
        process.kill()
        process.wait()
    last = json.loads((tmp_path / "out").read_text().splitlines()[-1])
    assert (last["state"], last["rows_total"]) == ("stopped", 2)
    assert [row["id"] for row in shop.rows("lake")] == [1, 2]
    said = (tmp_path / "err").read_text()
    assert "\tat " not in said, said
    assert "Traceback" not in said, said
    status = PipelineState(tmp_path / ".pipelines" / "p").status()
    assert status is not None
    assert (status["state"], status["rows_total"]) == ("stopped", 2)
