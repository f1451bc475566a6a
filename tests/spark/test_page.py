"""docs/spark.md is true: its blocks about reading run as they stand, and its options are the ones there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from feeding import connected, create, put
from penstock.client.access import OPTIONS as ACCESS_OPTIONS
from penstock.spark.options import KAFKA_OPTIONS, OPTIONS
from penstock.testing import Broker

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
SECTIONS = ("A session", "Reading a topic", "Reading a stream", "One line for notebooks")
"""Those about reading; what is said of writing and of pipelines is tried where they are."""


def blocks() -> list[str]:
    """The Python of these sections, in order."""
    found = []
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE):
        if section.splitlines()[0] in SECTIONS:
            found += re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return found


def test_the_blocks_run(spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(broker) as cluster:
        create(cluster, "orders")
        put(cluster, "orders", [json.dumps({"status": "new", "id": one}).encode() for one in range(5)])
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", broker.bootstrap)
    names: dict[str, Any] = {}
    assert len(blocks()) >= len(SECTIONS)
    for block in blocks():
        here = block.replace("127.0.0.1:9092", broker.bootstrap)
        for name in ("orders-table", "orders-checkpoint"):  # Spark's own directory is where it was started
            here = here.replace(f'"{name}"', f'"{tmp_path}/{name}"')
        exec(here, names)
    assert names["spark"] is spark or names["spark"].sparkContext is spark.sparkContext
    assert spark.read.parquet(f"{tmp_path}/orders-table").count() == 5


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
