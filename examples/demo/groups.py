"""Scenario two: three workers share a topic; one is killed, its partitions are reassigned, nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.stage import SECONDS_MAX, Stage, wait_for
from penstock.testing import Broker, running_broker

TOPIC = "parcels"
GROUP = "delivery"
PARTITIONS = 6
PARCELS = 3_000
WORKERS = ("ada", "bob", "cyd")
WORKER = Path(__file__).with_name("worker.py")


class Worker:
    """A consumer process that logs its assigned partitions and the parcels it handled."""

    def __init__(self, name: str, broker: Broker, directory: Path) -> None:
        self.name = name
        self._log = directory / f"{name}.txt"
        self._log.touch()
        command = [sys.executable, str(WORKER), broker.bootstrap, GROUP, TOPIC, name, str(self._log)]
        self.process = subprocess.Popen(command)

    def partitions(self) -> list[int]:
        """The latest assignment."""
        given = [line for line in self._lines() if line.startswith("has")]
        return [int(word) for word in given[-1].split()[1:]] if given else []

    def handled(self) -> list[int]:
        return [int(line.split()[1]) for line in self._lines() if line.startswith("did")]

    def _lines(self) -> list[str]:
        text = self._log.read_text()
        return text[: text.rfind("\n") + 1].splitlines()

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(SECONDS_MAX)


def play(stage: Stage) -> bool:
    stage.act(
        "Three workers, one of them killed",
        "A consumer group shares the work and reassigns it when a member dies.",
    )
    with running_broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            future.result(10)
        workers = [Worker(name, broker, broker.home) for name in WORKERS]
        try:
            return share_work(stage, broker, workers)
        finally:
            for worker in workers:
                if worker.process.poll() is None:
                    worker.end(signal.SIGTERM)


def share_work(stage: Stage, broker: Broker, workers: list[Worker]) -> bool:
    held = stage.check(
        wait_for(lambda: shared(workers)),
        f"{len(workers)} workers share all {PARTITIONS} partitions: {shares(workers)}",
    )
    send(broker, range(PARCELS // 2))
    victim, *others = workers
    wait_for(lambda: len(victim.handled()) > 0)
    victim.end(signal.SIGKILL)
    stage.say(f"{victim.name} is killed with SIGKILL while working")
    send(broker, range(PARCELS // 2, PARCELS))
    moved = wait_for(lambda: shared(others))
    held &= stage.check(moved, f"its partitions are reassigned: {shares(others)}")
    done = wait_for(lambda: len({parcel for worker in workers for parcel in worker.handled()}) == PARCELS)
    repeated = sum(len(worker.handled()) for worker in workers) - PARCELS
    return held & stage.check(
        done, f"all {PARCELS:,} parcels handled: {repeated or 'none'} twice, none missed"
    )


def send(broker: Broker, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 2, "log_level": 2})
    for number in numbers:
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS)
    producer.flush(20)


def shared(workers: list[Worker]) -> bool:
    """Whether the workers own all partitions, and each owns at least one."""
    owned = [partition for worker in workers for partition in worker.partitions()]
    return sorted(owned) == list(range(PARTITIONS)) and all(worker.partitions() for worker in workers)


def shares(workers: list[Worker]) -> str:
    return ", ".join(f"{worker.name} {worker.partitions()}" for worker in workers)
