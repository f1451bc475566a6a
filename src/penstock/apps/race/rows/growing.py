"""CPU time of the server per message with a hundred times as many partitions. Never in wall time: other load on the
machine does not show."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice

from penstock.apps.measuring.frames import (
    create_topic_frame,
    delete_topic_frame,
    make_batch,
    produce_frame,
)
from penstock.apps.measuring.loader import Loader, UnexpectedAnswer
from penstock.apps.race.course import Heat, Lap
from penstock.apps.race.row import Line, Row

FEW, MANY = 10, 1_000
SIZE = 1024
IN_FLIGHT = 100
GROWTH_MAX = 1.3
READY_S_MAX = 60.0
NO_PARTITIONS = dict.fromkeys(("NATS", "Redis", "RabbitMQ"), "it has no partitions")


def _partition_cost(heat: Heat) -> Lap:
    count = heat.course.pick(15_000, 5_000)
    few = heat.once("few", lambda: _topic(heat, FEW))
    many = heat.once("many", lambda: _topic(heat, MANY))
    few_us, many_us = (_cost_us(heat, frames, count) for frames in (few, many))
    return Lap((many_us / few_us, many_us), count, many_us * count / 1e6)


@contextmanager
def _topic(heat: Heat, partitions: int) -> Iterator[list[bytes]]:
    """A topic with so many partitions; a request for each of them."""
    topic, batch = heat.course.new_name(), make_batch(1)
    with Loader(heat.server.address()) as loader:
        (made,) = loader.call(create_topic_frame(topic, partitions)).topics
        if made.error_code:
            raise UnexpectedAnswer(
                f"{topic} was not made, error code {made.error_code}: {made.error_message}"
            )
        frames = [produce_frame(topic, batch, (index,)) for index in range(partitions)]
        _await_leaders(loader, frames)
    yield frames
    with Loader(heat.server.address()) as loader:
        loader.call(delete_topic_frame(topic))


def _cost_us(heat: Heat, frames: Sequence[bytes], count: int) -> float:
    """CPU of the server per message, each alone in its request, partition after partition."""
    with Loader(heat.server.address()) as loader:
        _send(loader, frames, count // 4)
        with heat.spent() as spent:
            codes = _send(loader, frames, count)
    if codes:
        raise UnexpectedAnswer(f"produce was refused, error codes {codes}")
    return spent.cpu_s * 1e6 / count


def _await_leaders(loader: Loader, frames: Sequence[bytes]) -> None:
    """A new topic exists before all of its partitions take records."""
    deadline = time.monotonic() + READY_S_MAX
    while codes := _send(loader, frames, len(frames)):
        if time.monotonic() > deadline:
            raise UnexpectedAnswer(f"after {READY_S_MAX:.0f} s produce was refused, error codes {codes}")


def _send(loader: Loader, frames: Sequence[bytes], count: int) -> list[int]:
    """So many of the frames, again and again; returns the error codes of the answers, sorted."""
    answers = loader.call_many(list(islice(cycle(frames), count)), IN_FLIGHT)
    return sorted({one.responses[0].partition_responses[0].error_code for one in answers} - {0})


PARTITION_COST = Row(
    "partition cost",
    (
        Line("11", f"CPU per message, {MANY:,} partitions ÷ {FEW}", "×", False, bound_max=GROWTH_MAX),
        Line("11b", f"CPU per message of 1 KB alone in its request, {MANY:,} partitions", "us", False),
    ),
    _partition_cost, SIZE, without=NO_PARTITIONS,
)  # fmt: skip
