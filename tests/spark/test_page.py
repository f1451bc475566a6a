"""docs/spark.md is true: all its blocks run, one after the other, and its options are the ones there are."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pages import ON_SPARK, commands
from penstock.client.access import OPTIONS as ACCESS_OPTIONS
from penstock.spark.options import KAFKA_OPTIONS, OPTIONS
from penstock.testing import Broker, running_broker
from spark.shop import Shop, shell

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
FENCES = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
PLACES = ("orders-table", "orders-checkpoint", "shipped-checkpoint")
"""Where the page writes to. Spark would take them for directories beside the one that it was started in."""
RUN_S_MAX = 240


def run(script: str, broker: Broker, home: Path) -> str:
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=home,
        env=shell(broker),
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def test_every_block_runs(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", broker.bootstrap)
    names: dict[str, Any] = {}
    said = []
    for language, block in FENCES:
        if language == "bash":
            said.append(run(block, broker, tmp_path))
            continue
        assert language == "python"
        here = block.replace("127.0.0.1:9092", broker.bootstrap)
        for name in PLACES:
            here = here.replace(f'"{name}"', f'"{tmp_path}/{name}"')
        exec(here, names)
    assert names["spark"] is spark or names["spark"].sparkContext is spark.sparkContext
    assert spark.read.parquet(f"{tmp_path}/orders-table").count() == 10
    shop = Shop(broker, tmp_path, "")
    orders, shipped = (
        Counter(one["value"].upper() for one in shop.read(name)) for name in ("orders", "shipped")
    )
    assert shipped == Counter({value: 3 * count for value, count in orders.items()})
    five_minutes, revenue = said
    lines = [json.loads(line) for line in five_minutes.splitlines() if line.startswith("{")]
    rows = {line["pipeline"]: line["rows_total"] for line in lines if "pipeline" in line}
    assert rows == {"orders-lake": 10, "revenue": 10}
    assert '"pipeline": "orders-lake", "state": "stopped"' in five_minutes
    assert len([line for line in lines if "topic" in line]) == 2, "dead letters"
    assert "no errors" in five_minutes
    assert re.search(r"2026-01-01T10:01:00\S*.*\b1\b.*1\.5", revenue), revenue


def test_the_commands_of_readme_run_one_after_the_other(tmp_path: Path) -> None:
    """On a broker that is new but for what README wrote before. The run itself is that of the page, word for word:
    `test_every_block_runs` has it."""
    typed = [command for command, _ in commands("README.md") if command.startswith(ON_SPARK)]
    *looks, last = typed
    assert len(looks) >= 2
    with running_broker(storage="memory") as new:
        run("penstock pub --topic sales --message '{}'", new, tmp_path)
        said = [run(command, new, tmp_path) for command in looks]
        run("penstock pipeline init shop", new, tmp_path)
    (next_command,) = re.findall(r"then: (.*)", "".join(said))
    assert next_command == last, "what `pipeline init` says is what README says"
    project = re.search(r"cd (\S+) && ", last)
    assert project is not None and (tmp_path / project[1]).is_dir()
    steps = last.replace(project[1], "shop").split(" && ")
    five_minutes = next(block for language, block in FENCES if language == "bash")
    assert [line for line in five_minutes.splitlines() if line in steps] == steps


def test_every_option_has_its_row() -> None:
    table = PAGE.partition("## Options")[2].partition("## When")[0]
    written = set(re.findall(r"`([A-Za-z.]+)`", table))
    known = {*OPTIONS, *(f"kafka.{name}" for name in (*KAFKA_OPTIONS, *ACCESS_OPTIONS))}
    left_out = {
        name
        for name in known - written
        if not name.startswith(
            ("kafka.sasl.", "kafka.ssl.", "kafka.socket.", "kafka.client.", "kafka.check.")
        )
    }
    assert left_out == {"groupIdPrefix"}
