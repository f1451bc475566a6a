"""Exactly-once workers while they and their broker are killed: does one of them stand still, and in which call?

    PYTHONPATH=tests python -m compat.stalls --broker penstock --runs 10 --seed 1
    PYTHONPATH=tests python -m compat.stalls --broker kafka --runs 3 --seed 1 --recovery rebootstrap

confluent-kafka in the consumer protocol: consume, produce, send_offsets_to_transaction, commit. Kills come at seeded
times; then the workers are left alone. A run has stalled when records are left and none was copied for STALL_S.
`--debug eos,cgrp --keep DIRECTORY` keeps what librdkafka says. Reports; never judges whose fault it is.
"""

from __future__ import annotations

import argparse
import json
import linecache
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from confluent_kafka.admin import NewTopic

from compat.reference.__main__ import reference_kafka
from compat.roster import CONFLUENT
from compat.stages import Stage
from compat.transactors import read_to_end
from compat.vocabulary import WAIT_S
from penstock.testing import running_broker

PARTITIONS, WORKERS, KILLS = 2, 2, 5
TARGET = "target"
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 3.0
STALL_S = 30.0
LOOK_S = 0.5
TRANSACTION_MS = 5_000
COPIER = Path(__file__).resolve().parent / "clients" / "copier.py"
KAFKA_SETTINGS = """\
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=3000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=200
"""


class Broker(Protocol):
    """What is killed and started again."""

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...


class Outcome(NamedTuple):
    """Of one run. `calls`: where workers stood when nothing was copied any more; empty if all was copied."""

    seed: int
    broker_kills: int
    worker_kills: int
    written: int
    copied: int
    twice: int
    calls: tuple[str, ...]

    @property
    def has_stalled(self) -> bool:
        return bool(self.calls)


class Worker:
    """One process, its output counted and its complaints in a file."""

    def __init__(self, bootstrap: str, options: dict[str, object], log: Path) -> None:
        self.copied = 0
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(COPIER), CONFLUENT, bootstrap, json.dumps(options)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "COPIER_HANGS_S": "0"},
            )
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.copied += int(line)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def where(self) -> str:
        """The line of the copier that it executes."""
        self._process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            lines = re.findall(r"copier\.py\", line (\d+) in _", self._log.read_text(errors="replace"))
            if lines:
                return linecache.getline(str(COPIER), int(lines[0])).strip()
            time.sleep(LOOK_S)
        return "nowhere"


class Run:
    """One seed on one broker."""

    def __init__(
        self, broker: Broker, seed: int, options: dict[str, object], logs: Path, down_s: float
    ) -> None:
        self._down_s = down_s
        self._broker, self._seed, self._logs = broker, seed, logs
        self._random = random.Random(seed)
        self._stage = Stage(broker, PARTITIONS)  # type: ignore[arg-type]
        self._target = f"{TARGET}-{seed}"
        self._stage.admin.create_topics([NewTopic(self._target, PARTITIONS, 1)])[self._target].result(WAIT_S)
        self._options = {
            "group": self._stage.group, "protocol": "consumer", "source": self._stage.topic, "target": self._target,
            "timeout_ms": TRANSACTION_MS, "session_ms": 0, **options,
        }  # fmt: skip
        self._workers: list[Worker] = []
        self._hired = self._copied_by_leavers = 0

    def _hire(self) -> None:
        self._hired += 1
        name = f"worker-{self._seed}-{self._hired}"
        log = self._logs / f"{name}.log"
        self._workers.append(Worker(self._broker.bootstrap, {**self._options, "id": name}, log))

    def _dismiss(self, worker: Worker) -> None:
        worker.kill()
        self._workers.remove(worker)
        self._copied_by_leavers += worker.copied

    def _replace_leavers(self) -> None:
        for worker in [one for one in self._workers if not one.is_running]:
            self._dismiss(worker)
            self._hire()

    @property
    def _copied(self) -> int:
        return self._copied_by_leavers + sum(one.copied for one in self._workers)

    def play(self) -> Outcome:
        kills = {"broker": 0, "worker": 0}
        try:
            for _ in range(WORKERS):
                self._hire()
            with self._stage.writing():
                for _ in range(KILLS):
                    self._rest()
                    victim = self._random.choice(("broker", "broker", "worker"))
                    kills[victim] += 1
                    self._kill(victim)
                self._rest()
            calls = self._await_copies()
            values = self._values()
        finally:
            for worker in list(self._workers):
                self._dismiss(worker)
        written = [one.value for one in self._stage.written]
        twice = len(values) - len(set(values))
        return Outcome(
            self._seed, kills["broker"], kills["worker"], len(written), len(values), twice, tuple(calls)
        )

    def _rest(self) -> None:
        until_s = time.monotonic() + self._random.uniform(PAUSE_S_MIN, PAUSE_S_MAX)
        while time.monotonic() < until_s:
            time.sleep(LOOK_S / 5)
            self._replace_leavers()

    def _kill(self, victim: str) -> None:
        if victim == "broker":
            self._broker.kill()
            time.sleep(self._down_s)
            self._broker.start()
        else:
            self._dismiss(self._random.choice(self._workers))
            self._hire()

    def _values(self) -> list[str]:
        return [
            value
            for index in range(PARTITIONS)
            for value in read_to_end(self._broker.bootstrap, self._target, index)
        ]

    def _await_copies(self) -> list[str]:
        """Until everything is copied, or for as long as something is: then where the workers stand."""
        wanted, last, since_s = len(self._stage.written), -1, time.monotonic()
        while True:
            self._replace_leavers()
            if self._copied != last:
                last, since_s = self._copied, time.monotonic()
            elif len(self._values()) >= wanted:
                return []
            elif time.monotonic() - since_s > STALL_S:
                return [one.where() for one in self._workers]
            time.sleep(LOOK_S)


@contextmanager
def broker_named(name: str) -> Iterator[Broker]:
    if name == "kafka":
        with reference_kafka(KAFKA_SETTINGS) as kafka:
            yield kafka
    else:
        with running_broker(consumer_group_session_ms=3_000, consumer_group_heartbeat_ms=200) as broker:
            yield broker


def play_many(
    broker: str,
    seeds: range,
    options: dict[str, object],
    logs: Path,
    told: Callable[[Outcome], None],
    *,
    down_s: float = 0.0,
) -> list[Outcome]:
    outcomes = []
    with broker_named(broker) as running:
        for seed in seeds:
            outcomes.append(Run(running, seed, options, logs, down_s).play())
            told(outcomes[-1])
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="stalls", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--broker", choices=("penstock", "kafka"), default="penstock")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument(
        "--recovery",
        choices=("none", "rebootstrap"),
        default="rebootstrap",
        help="metadata.recovery.strategy of the clients; rebootstrap is librdkafka's default",
    )
    parser.add_argument("--down-seconds", type=float, default=0.0, help="between a kill and the next start")
    parser.add_argument("--debug", help="contexts of librdkafka's debug log, such as eos,cgrp,broker")
    parser.add_argument("--keep", type=Path, help="directory for the logs of the workers")
    asked = parser.parse_args()
    options: dict[str, object] = {"recovery": asked.recovery, "debug": asked.debug}
    with tempfile.TemporaryDirectory(prefix="stalls-") as scratch:
        logs = asked.keep or Path(scratch)
        logs.mkdir(parents=True, exist_ok=True)
        seeds = range(asked.seed, asked.seed + asked.runs)
        outcomes = play_many(
            asked.broker, seeds, options, logs, lambda one: print(one, flush=True), down_s=asked.down_seconds
        )
    stalled = sum(one.has_stalled for one in outcomes)
    print(f"{asked.broker}, recovery {asked.recovery}: {stalled} of {len(outcomes)} runs stalled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
