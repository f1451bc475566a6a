"""The example project of `penstock pipeline init`, which a test runs. Never overwrites a file.

Its topics begin with the name of the project, so that several projects can share a broker.
"""

from __future__ import annotations

import re
from pathlib import Path

from penstock.apps.cli.failures import StartFailed

PROJECT = "PROJECT"
"""Stands for the name of the project in the files below."""

FILES = {
    "pipelines.yaml": """\
# Orders go to a table, bad ones to a dead-letter topic; revenue per minute goes to a topic.
# Check with `penstock pipeline validate`, run with `penstock pipeline run`.
bootstrap: ${PENSTOCK_BOOTSTRAP:-127.0.0.1:9092}
state_dir: .pipelines
spark:
  master: local[2]

pipelines:
  orders-lake:
    source: {topics: [PROJECT_orders]}
    decode:
      format: json
      schema: order_id bigint, customer string, amount double, ordered_at timestamp
      required: [order_id, amount]
      expect: {positive amount: amount > 0}
      dead_letters: {topic: PROJECT_orders.dlq}
    sink:
      table: lake/orders
      partition_by: [_date]
      keep_raw: true

  revenue:
    source: {topics: [PROJECT_orders]}
    decode:
      schema: order_id bigint, customer string, amount double, ordered_at timestamp
      dead_letters: {table: lake/revenue-dlq}
    steps:
      - python: steps:sensible_orders
      - window:
          time: ordered_at
          size: 1 minute
          # A window closes when an order arrives whose ordered_at is at least 10 s past its end. Until then late orders
          # still count. The last windows stay open until a newer order arrives, however much time passes.
          watermark: 10 seconds
          compute: {orders: count(*), revenue: "round(sum(amount), 2)"}
    sink: {topic: PROJECT_revenue, key: window_start}
""",
    "steps.py": '''\
"""Steps of the pipelines: each takes a DataFrame and returns one."""

from pyspark.sql import DataFrame


def sensible_orders(orders: DataFrame) -> DataFrame:
    return orders.where("amount between 0 and 10000")
''',
    "make_orders.sh": """\
#!/bin/sh
# Writes a few sample orders; the last two are invalid on purpose.
set -e
penstock topic create --if-not-exists --partitions 2 PROJECT_orders
penstock topic create --if-not-exists PROJECT_orders.dlq PROJECT_revenue
{
  for number in 1 2 3 4 5 6 7 8; do
    printf '{"order_id": %d, "customer": "c%d", "amount": %d.5, ' $number $number $number
    printf '"ordered_at": "2026-01-01T10:0%d:00Z"}\\n' $number
  done
  echo '{"order_id": 9, "amount": "a lot"}'
  echo 'not even JSON'
} | penstock pub --topic PROJECT_orders
""",
}


def write_project(directory: Path) -> list[Path]:
    """Write all files, or none if one of them exists."""
    there = [directory / name for name in FILES if (directory / name).exists()]
    if there:
        raise StartFailed(
            f"{there[0]} already exists. Choose another directory: penstock pipeline init DIRECTORY"
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (directory / name).write_text(content.replace(PROJECT, project_name(directory)), "utf-8")
    (directory / "make_orders.sh").chmod(0o755)
    return [directory / name for name in FILES]


def project_name(directory: Path) -> str:
    """The name of a directory as the beginning of topic names that SQL takes without quotes: `first_shop`."""
    found = re.sub(r"[^a-z0-9]+", "_", directory.resolve().name.lower()).strip("_")
    return found if found[:1].isalpha() else f"project_{found}".rstrip("_")
