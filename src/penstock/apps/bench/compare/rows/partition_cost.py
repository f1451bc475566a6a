"""CPU time of the server per message with 10 and with 1,000 partitions.

CPU time rather than elapsed time, since other load on the machine hardly affects it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice

from penstock.apps.bench.compare.runs.row import Row, RowLine
from penstock.apps.bench.compare.runs.row_runner import RunContext, RunResult
from penstock.apps.bench.harness.frames import (
    create_topic_frame,
    delete_topic_frame,
    make_batch,
    produce_frame,
)
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader

FEW, MANY = 10, 1_000
SIZE = 1024
IN_FLIGHT = 100
GROWTH_MAX = 1.3
READY_S_MAX = 60.0
NO_PARTITIONS = dict.fromkeys(("NATS", "Redis", "RabbitMQ"), "no partitions")


def _partition_cost(context: RunContext) -> RunResult:
    count = context.runner.pick(15_000, 5_000)
    few = context.once("few", lambda: _topic(context, FEW))
    many = context.once("many", lambda: _topic(context, MANY))
    few_us, many_us = (_cost_us(context, frames, count) for frames in (few, many))
    return RunResult((many_us / few_us, many_us), count, many_us * count / 1e6)


@contextmanager
def _topic(context: RunContext, partitions: int) -> Iterator[list[bytes]]:
    """A new topic with that many partitions; yields one Produce request per partition."""
    topic, batch = context.runner.new_name(), make_batch(1)
    with Loader(context.server.address()) as loader:
        (created,) = loader.call(create_topic_frame(topic, partitions)).topics
        if created.error_code:
            raise UnexpectedResponse(
                f"{topic} was not created, error code {created.error_code}: {created.error_message}"
            )
        frames = [produce_frame(topic, batch, (index,)) for index in range(partitions)]
        _await_leaders(loader, frames)
    yield frames
    with Loader(context.server.address()) as loader:
        loader.call(delete_topic_frame(topic))


def _cost_us(context: RunContext, frames: Sequence[bytes], count: int) -> float:
    """CPU time of the server per message, one message per request, one partition after another."""
    with Loader(context.server.address()) as loader:
        _send(loader, frames, count // 4)
        with context.cpu_time() as spent:
            codes = _send(loader, frames, count)
    if codes:
        raise UnexpectedResponse(f"produce was rejected, error codes {codes}")
    return spent.cpu_s * 1e6 / count


def _await_leaders(loader: Loader, frames: Sequence[bytes]) -> None:
    """Wait until every partition accepts records: Kafka creates the topic before that."""
    deadline = time.monotonic() + READY_S_MAX
    while codes := _send(loader, frames, len(frames)):
        if time.monotonic() > deadline:
            raise UnexpectedResponse(f"after {READY_S_MAX:.0f} s produce was rejected, error codes {codes}")


def _send(loader: Loader, frames: Sequence[bytes], count: int) -> list[int]:
    """Send `count` requests, cycling through the frames; returns the error codes of the responses, sorted."""
    answers = loader.call_many(list(islice(cycle(frames), count)), IN_FLIGHT)
    return sorted({one.responses[0].partition_responses[0].error_code for one in answers} - {0})


PARTITION_COST = Row(
    "partition cost",
    (
        RowLine("11", f"CPU per message, {MANY:,} partitions ÷ {FEW}", "×", False, bound_max=GROWTH_MAX),
        RowLine("11b", f"CPU per message of 1 KB alone in its request, {MANY:,} partitions", "us", False),
    ),
    _partition_cost, SIZE, without=NO_PARTITIONS,
)  # fmt: skip
