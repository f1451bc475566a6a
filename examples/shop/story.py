"""Scenario six: two Spark pipelines over a shop's orders, with the results checked against the input."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from demo.stage import Stage

from penstock.spark.lake.tables import open_table
from penstock.spark.pipelines import load_project
from penstock.spark.pipelines.runner import started, watch
from penstock.spark.pipelines.session import spark_for
from penstock.testing import running_broker
from shop.orders import Order, make_orders

ORDERS = 10_000
TOPICS = {"orders": 2, "orders.dlq": 1, "revenue": 1}
READ_S_MAX = 30.0


def play(stage: Stage) -> bool:
    """Run the scenario; True if all checks passed."""
    stage.act(
        "A data pipeline",
        "orders → validated table and dead letters → revenue per minute → a Kafka consumer",
    )
    with (
        tempfile.TemporaryDirectory(prefix="penstock-shop-") as home,
        running_broker(storage="memory") as broker,
    ):
        os.environ.update(PENSTOCK_BOOTSTRAP=broker.bootstrap, SHOP_HOME=home)
        sent = list(make_orders(ORDERS))
        _send(broker.bootstrap, sent)
        stage.say(f"{len(sent):,} orders are in the topic; some of them are invalid.")
        _run_pipelines(stage)
        revenue = _read_revenue(broker.bootstrap, expected=len({one.minute for one in sent if one.minute}))
        letters = _read(broker.bootstrap, "orders.dlq", 10**9)
        return _check(stage, sent, Path(home), revenue, letters)


def _send(bootstrap: str, orders: list[Order]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, count, 1) for name, count in TOPICS.items()]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for order in orders:
        producer.produce("orders", order.value, order.customer)
        producer.poll(0)
    assert producer.flush(30) == 0, "the broker acknowledged every order"


def _run_pipelines(stage: Stage) -> None:
    began_s = time.monotonic()
    project = load_project(Path(__file__).with_name("pipelines.yaml"))
    with spark_for(project) as spark:
        stage.say(f"Spark started in {time.monotonic() - began_s:.1f} s; two pipelines read the same topic.")
        with started(spark, project, project.pipelines, is_once=True) as running:
            watch(running, lambda looks: None, lambda: False)
        for one in running:
            stage.say(f"{one.pipeline.name}: {one.last.rows_total:,} records in {one.last.batch + 1} batches")


def _read_revenue(bootstrap: str, expected: int) -> dict[str, float]:
    rows = [json.loads(value) for value, _ in _read(bootstrap, "revenue", expected)]
    return {row["minute"]: row["revenue"] for row in rows}


def _read(bootstrap: str, topic: str, most: int) -> list[tuple[bytes, dict[str, bytes]]]:
    """All committed records of a topic, read with a Kafka consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "shop",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found: list[tuple[bytes, dict[str, bytes]]] = []
    ends_s = time.monotonic() + READ_S_MAX
    while len(found) < most and time.monotonic() < ends_s:
        message = consumer.poll(1)
        if message is not None and message.error():
            break
        if message is not None:
            found.append((message.value() or b"", dict(message.headers() or [])))
    consumer.close()
    return found


def _check(
    stage: Stage, sent: list[Order], home: Path, revenue: dict[str, float], letters: list[Any]
) -> bool:
    expected: Counter[str] = Counter()
    for order in sent:
        if order.minute:
            expected[order.minute] += order.amount  # type: ignore[assignment]
    top = max(expected.values())
    rows = [
        (minute, f"{value:,.2f}", "█" * round(30 * value / top)) for minute, value in sorted(revenue.items())
    ]
    stage.table("minute", "revenue", "", rows=rows)
    reasons = Counter(headers["penstock.dlq.reason"].decode()[:60] for _, headers in letters)
    stage.table(
        "invalid orders", "reason", rows=[(str(count), reason) for reason, count in reasons.most_common(4)]
    )
    table = open_table(home / "lake" / "orders", "delta")
    kept = table.between(table.spans(), ["order_id"])["order_id"].to_pylist()
    bad = sum(1 for order in sent if order.minute is None) - 1
    return all(
        [
            stage.check(
                sorted(kept) == sorted(set(kept)) and len(kept) == len(sent) - bad,
                "every valid order is in the table exactly once",
            ),
            stage.check(len(letters) == bad, "every invalid order is a dead letter with a reason"),
            stage.check(
                {minute: round(value, 2) for minute, value in expected.items()} == revenue,
                "revenue per minute matches the input to the cent",
            ),
        ]
    )
