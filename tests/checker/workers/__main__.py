"""A worker process: `python -m checker.workers CONFIG`, a JSON object. Stops when its standard input closes."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from checker.history import topic_of
from checker.workers.diary import Diary
from checker.workers.generator import Generator
from checker.workers.stack import Place, Stack
from checker.workers.worker import Worker


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that a worker is told. With `targets` it reads to the end; without, it loads until stopped."""

    stack: str
    bootstrap: str
    diary: str
    seed: int
    serial: int
    """Unique among all workers of a run, also those that took the place of a killed one."""
    slot: int
    """Kept by the one that takes over."""
    keys: list[int]
    transactional: bool = False
    subscribes: bool = False
    crash_share: float = 0.0
    queue_doors: list[str] = field(default_factory=list)
    """Addresses of the queue door at each broker; the members of subscriptions use nothing else."""
    targets: dict[str, int] = field(default_factory=dict)
    final_s_max: float = 0.0


PROCESSES_PER_WORKER = 100_000
VALUES_PER_WORKER = 10_000_000
CAUGHT_UP, NOT_CAUGHT_UP = 0, 4
GROUP = "checker"
QUEUE = "queue"
"""The stack that takes messages from subscriptions."""


def stack_class(name: str) -> Callable[[Place], Stack]:
    """Only the library that is asked for is loaded."""
    if name == "confluent":
        from checker.workers.confluent import ConfluentStack

        return ConfluentStack
    if name == "aiokafka":
        from checker.workers.aio import AiokafkaStack

        return AiokafkaStack
    if name == "kafka-python":
        from checker.workers.kafka_python import KafkaPythonStack

        return KafkaPythonStack
    raise ValueError(f"no stack {name!r}")


def place_of(config: Config) -> Place:
    reads_in_group = (config.subscribes or config.transactional) and not config.targets
    return Place(
        config.bootstrap,
        f"checker-{config.stack}-{config.serial}",
        f"checker-{config.slot}" if config.transactional else "",
        GROUP if reads_in_group else "",
    )


def is_stopped() -> bool:
    """Whether the other end of standard input is closed."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def work_on_queue(config: Config) -> int:
    from checker.workers.queue import QueueWorker, subscription_of

    subscriptions = sorted({subscription_of(topic_of(key)[0]) for key in config.keys})
    worker = QueueWorker(
        config.queue_doors,
        subscriptions,
        Diary(Path(config.diary)),
        config.serial * PROCESSES_PER_WORKER,
        random.Random(config.seed * 1_000_003 + config.serial),
        f"checker-{config.serial}",
    )
    if not config.targets:
        worker.run(is_stopped)
        return CAUGHT_UP
    deadline_s = time.monotonic() + config.final_s_max
    return CAUGHT_UP if worker.drain(lambda: time.monotonic() > deadline_s) else NOT_CAUGHT_UP


def work(config: Config) -> int:
    if config.stack == QUEUE:
        return work_on_queue(config)
    make = stack_class(config.stack)
    place = place_of(config)
    worker = Worker(
        lambda: make(place),
        Diary(Path(config.diary)),
        config.serial * PROCESSES_PER_WORKER,
        grouped=config.subscribes and not config.targets,
    )
    if config.targets:
        deadline_s = time.monotonic() + config.final_s_max
        targets = {int(key): offset for key, offset in config.targets.items()}
        caught_up = worker.read_all(targets, lambda: time.monotonic() > deadline_s)
        return CAUGHT_UP if caught_up else NOT_CAUGHT_UP
    generator = Generator(
        random.Random(config.seed * 1_000_003 + config.serial),
        config.keys,
        config.serial * VALUES_PER_WORKER,
        config.transactional,
        config.subscribes,
        config.crash_share,
    )
    worker.run(generator, is_stopped)
    return CAUGHT_UP


if __name__ == "__main__":
    faulthandler.enable()  # a worker that hangs is ended by SIGABRT and says where it was
    code = work(Config(**json.loads(sys.argv[1])))
    sys.stdout.flush()
    os._exit(code)  # a client's own farewell is no part of the run and may take its time
