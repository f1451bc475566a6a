"""What the Python clients promise, over kill -9 of the broker and of the program: every record is counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer
from penstock.testing import Broker, running_broker

ROOT = Path(__file__).resolve().parents[2]
WORKER = Path(__file__).with_name("client_worker.py")
WAIT_S = 60.0
PARTITIONS = 2


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="disk") as running:
        yield running


def make_topics(broker: Broker, *names: str) -> None:
    with Admin(bootstrap=broker.bootstrap) as admin:
        for name in names:
            admin.create_topic(name, PARTITIONS)


def fill(broker: Broker, topic: str, count: int) -> list[str]:
    values = [str(number) for number in range(count)]
    with Producer(bootstrap=broker.bootstrap, partitioning="round_robin") as producer:
        for value in values:
            producer.send(topic, value)
    return values


def read(broker: Broker, topic: str) -> list[tuple[int, str]]:
    with Consumer(topic, bootstrap=broker.bootstrap, until_end=True, value_serializer="string") as consumer:
        return [(message.partition, message.value) for message in consumer]


def lag(broker: Broker, group: str) -> int:
    """How far a group is behind; a group that has committed nothing yet, as far as can be."""
    with Admin(bootstrap=broker.bootstrap) as admin:
        rows = admin.lag(group)
        return sum(row.lag for row in rows) if rows else sys.maxsize


class Worker:
    """One process of client_worker.py; what it prints is read as it comes."""

    def __init__(self, broker: Broker, mode: str, source: str, delivery: str, target: str = "") -> None:
        job = {
            "bootstrap": broker.bootstrap,
            "mode": mode,
            "source": source,
            "target": target,
            "delivery": delivery,
        }
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def line(self) -> str:
        line = self.stdout.readline()
        assert line, f"the worker left with {self.process.wait()}"
        return line.strip()

    def go_on(self) -> None:
        self.stdin.write("\n")
        self.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()


@contextmanager
def working(*arguments: str, broker: Broker, target: str = "") -> Iterator[Worker]:
    worker = Worker(broker, *arguments, target=target)
    try:
        yield worker
    finally:
        worker.kill()


def test_a_producer_over_broker_kills_makes_no_double_and_loses_nothing(broker: Broker) -> None:
    make_topics(broker, "counted")
    sent: list[str] = []
    stopping = threading.Event()

    def write() -> None:
        with Producer(
            bootstrap=broker.bootstrap,
            partitioning="round_robin",
            queue_records_max=50,
            librdkafka={"reconnect.backoff.max.ms": 100},
        ) as producer:
            while not stopping.is_set():
                producer.send("counted", str(len(sent)))
                sent.append(str(len(sent)))

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(3):
        await_more(sent, 300)
        broker.kill()
        broker.start()
    await_more(sent, 300)
    stopping.set()
    writer.join(WAIT_S)
    assert not writer.is_alive()
    found = read(broker, "counted")
    assert sorted(int(value) for _, value in found) == list(range(len(sent)))
    for partition in range(PARTITIONS):
        numbers = [int(value) for own, value in found if own == partition]
        assert numbers == sorted(numbers)


def test_an_at_most_once_producer_over_a_kill_makes_no_double_and_tells_of_each_loss(broker: Broker) -> None:
    make_topics(broker, "thrown")
    acked, failed = set(), set()
    with Producer(
        bootstrap=broker.bootstrap,
        delivery="at_most_once",
        linger_ms=1,
        batch_records_max=20,
        librdkafka={"reconnect.backoff.max.ms": 100},
    ) as producer:
        first = [(str(number), producer.send("thrown", str(number))) for number in range(500)]
        assert first[0][1].result(WAIT_S).offset == 0
        broker.kill()
        second = [(str(number), producer.send("thrown", str(number))) for number in range(500, 600)]
        broker.start()
        for value, delivery in first + second:
            (acked if delivery.exception(WAIT_S) is None else failed).add(value)
    found = Counter(value for _, value in read(broker, "thrown"))
    assert max(found.values()) == 1
    assert acked <= found.keys() and len(acked) + len(failed) == 600
    assert {str(number) for number in range(600)} - found.keys() <= failed


def await_more(sent: list[str], count: int) -> None:
    wanted, deadline = len(sent) + count, time.monotonic() + WAIT_S
    while len(sent) < wanted:
        assert time.monotonic() < deadline, "the producer stands still"
        time.sleep(0.01)


def await_less_lag(broker: Broker, group: str, behind: int) -> int:
    """Until the background commits have told the broker of some progress; the last messages may be missing in it."""
    deadline = time.monotonic() + WAIT_S
    while (now := lag(broker, group)) >= behind:
        assert time.monotonic() < deadline, "nothing is committed"
    return now


def test_at_least_once_handles_everything(broker: Broker) -> None:
    make_topics(broker, "least")
    values = fill(broker, "least", 30)
    handled: list[str] = []
    behind, kills = len(values), 0
    while set(handled) != set(values):
        with working("handle", "least", "at_least_once", broker=broker) as worker:
            for _ in range(min(12, behind)):
                handled.append(worker.line())
                worker.go_on()
            behind = await_less_lag(broker, "least", behind)
            kills += 1
    assert kills >= 3


def test_at_most_once_handles_nothing_twice(broker: Broker) -> None:
    make_topics(broker, "most")
    values = fill(broker, "most", 20)
    handled: list[str] = []
    kills = 0
    while kills == 0 or lag(broker, "most"):
        with working("handle", "most", "at_most_once", broker=broker) as worker:
            for _ in range(6):
                handled.append(worker.line())
                if not lag(broker, "most"):
                    break
                worker.go_on()
            kills += 1
    assert kills >= 3
    assert max(Counter(handled).values()) == 1
    assert set(handled) <= set(values) and len(values) - len(handled) <= kills


def test_exactly_once_over_kills_of_program_and_broker(broker: Broker) -> None:
    make_topics(broker, "once", "copied")
    values = fill(broker, "once", 200)
    for turn in range(4):
        with working("pipe", "once", "exactly_once", broker=broker, target="copied") as worker:
            for _ in range(25):
                worker.line()
            if turn % 2:
                broker.kill()
                broker.start()
                worker.line()
    with working("pipe", "once", "exactly_once", broker=broker, target="copied"):
        deadline = time.monotonic() + WAIT_S
        while lag(broker, "once"):
            assert time.monotonic() < deadline, "the pipe stands still"
    copied = [value for _, value in read(broker, "copied")]
    assert sorted(copied, key=int) == values
