"""The options on docs/spark.md are the ones there are. tests/docs/test_one_broker.py runs its blocks."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.client.access import OPTIONS as ACCESS_OPTIONS
from penstock.spark.options import KAFKA_OPTIONS, OPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")


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
