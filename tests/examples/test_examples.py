"""Every example runs against a real broker as its first lines say, and prints what it promises."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Producer
from penstock.testing import Broker, running_broker

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
RUN_S_MAX = 120


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


def hear_ctrl_c() -> None:
    """What is started from a shell's background is deaf to Ctrl-C, unless told otherwise."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(broker: Broker, name: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / name), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "PENSTOCK_BOOTSTRAP": broker.bootstrap,
            "PENSTOCK_QUEUE": f"{broker.host}:{broker.queue_port}",
        },
    )


def finish(process: subprocess.Popen[str], says: str = "") -> str:
    """What it printed; `says` is what it told about its waiting."""
    output, errors = process.communicate(timeout=RUN_S_MAX)
    assert (process.returncode, errors) == (0, says)
    return output


def run(broker: Broker, name: str, *arguments: str) -> str:
    return finish(start(broker, name, *arguments))


def test_produce_and_consume(broker: Broker) -> None:
    sent = run(broker, "produce.py", "kettles", "4")
    assert re.findall(r"kettles partition 0 offset (\d+)", sent) == ["0", "1", "2", "3"]
    reader = start(broker, "consume.py", "kettles", "4")
    read = finish(reader, "waiting for 4 messages of topic kettles; Ctrl-C stops\n").splitlines()
    assert read[0] == "0 customer-0 {'order_id': 0, 'item': 'kettle'}"
    assert len(read) == 4


def test_consume_waits_and_stops_on_ctrl_c(broker: Broker) -> None:
    reader = start(broker, "consume.py")
    assert reader.stderr is not None and reader.stdout is not None
    assert reader.stderr.readline() == "waiting for messages of topic example-orders; Ctrl-C stops\n"
    run(broker, "produce.py")
    assert reader.stdout.readline() == "0 customer-0 {'order_id': 0, 'item': 'kettle'}\n"
    reader.send_signal(signal.SIGINT)
    assert finish(reader).endswith("stopped\n")


def test_async_clients(broker: Broker) -> None:
    assert run(broker, "async_clients.py") == "warmest of 15 readings: 24\n"


def test_avro(broker: Broker) -> None:
    rejected, order = run(broker, "avro_orders.py").splitlines()
    assert rejected.startswith("rejected: example-avro-orders: the value cannot be encoded")
    assert order == "{'order_id': 1, 'item': 'kettle', 'price': 24.5}"


def test_exactly_once(broker: Broker) -> None:
    assert run(broker, "exactly_once.py") == "100 orders billed\n"
    assert run(broker, "exactly_once.py") == "100 orders billed\n"


def test_group(broker: Broker) -> None:
    assert run(broker, "group.py") == "60 parcels packed by ada and bob; lag 0\n"


def test_a_group_that_cannot_share_its_topic_says_so(broker: Broker, tmp_path: Path) -> None:
    """With another number of partitions its members would wait for ever."""
    with running_broker(storage="memory", default_partitions=3) as other:
        with Producer(bootstrap=other.bootstrap) as producer:
            producer.send_and_wait("example-parcels", "x")
        process = start(other, "group.py")
        _, errors = process.communicate(timeout=RUN_S_MAX)
        assert process.returncode == 1 and "has 3 partitions, this example needs 4" in errors


def test_queue_workers(broker: Broker) -> None:
    told = run(broker, "queue_workers.py").splitlines()
    shares = [int(count) for count in re.findall(r"handled (\d+)", "\n".join(told))]
    assert (sum(shares), len(shares)) == (40, 2)
    assert told[-1] == "dead letters redriven: 1"
