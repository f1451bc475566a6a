"""What a message costs the server's processor when there are a hundred times as many partitions. Never in wall time:
whatever else runs on the machine does not show."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import cycle, islice

from penstock.apps.measuring.frames import create_topic_frame, make_batch, produce_frame
from penstock.apps.measuring.loader import Loader, UnexpectedAnswer
from penstock.apps.race.course import Course, Figures
from penstock.apps.race.entrants import Entrant
from penstock.apps.race.lanes.pace import PIECES
from penstock.apps.race.servers.runner import Promise, Running
from penstock.apps.race.standing import Standing

FEW, MANY = 10, 1_000
IN_FLIGHT = 100
GROWTH_MAX = 1.3
READY_S_MAX = 60.0
SPEAKERS = ("Penstock", "Kafka")
"""Who speaks of partitions."""


def partition_cost(course: Course) -> list[Standing]:
    count = course.pick(5_000, 3_000)

    def run(entrant: Entrant) -> Figures | None:
        name = entrant.runner.name
        if name not in SPEAKERS:
            return None
        with course.started(entrant, Promise.OS) as server:
            few_us, many_us = (_cost_us(server, partitions, count) for partitions in (FEW, MANY))
        return many_us / few_us, many_us

    growth, costs = course.take_turns("partition cost", run, 2)
    absent = {
        one.runner.name: "it has no partitions" for one in course.entrants if one.runner.name not in SPEAKERS
    }
    return [
        Standing(
            "11", f"CPU a message, {MANY:,} partitions ÷ {FEW}", "×", growth, False,
            absent=absent, bound_max=GROWTH_MAX,
        ),
        Standing("11b", f"CPU a message of 1 KB alone in its request, {MANY:,} partitions", "us", costs, False),
    ]  # fmt: skip


def _cost_us(server: Running, partitions: int, count: int) -> float:
    """CPU of the server for one message, each alone in its request, partition after partition; the cheapest piece."""
    topic, batch = f"of-{partitions}", make_batch(1)
    with Loader(server.address()) as loader:
        _create(loader, topic, partitions)
        frames = [produce_frame(topic, batch, (index,)) for index in range(partitions)]
        _await_leaders(loader, frames)
        _send(loader, frames, count // 4)
        return min(_piece_us(server, loader, frames, count) for _ in range(PIECES))


def _piece_us(server: Running, loader: Loader, frames: Sequence[bytes], count: int) -> float:
    before_s = server.process.cpu_s()
    codes = _send(loader, frames, count)
    if codes:
        raise UnexpectedAnswer(f"produce was refused, error codes {codes}")
    return (server.process.cpu_s() - before_s) * 1e6 / count


def _create(loader: Loader, topic: str, partitions: int) -> None:
    (made,) = loader.call(create_topic_frame(topic, partitions)).topics
    if made.error_code:
        raise UnexpectedAnswer(f"{topic} was not made, error code {made.error_code}: {made.error_message}")


def _await_leaders(loader: Loader, frames: Sequence[bytes]) -> None:
    """A new topic is there before all of its partitions take records."""
    deadline = time.monotonic() + READY_S_MAX
    while codes := _send(loader, frames, len(frames)):
        if time.monotonic() > deadline:
            raise UnexpectedAnswer(f"after {READY_S_MAX:.0f} s produce was refused, error codes {codes}")


def _send(loader: Loader, frames: Sequence[bytes], count: int) -> list[int]:
    """So many of the frames, again and again; returns the error codes that were answered, sorted."""
    answers = loader.call_many(list(islice(cycle(frames), count)), IN_FLIGHT)
    return sorted({one.responses[0].partition_responses[0].error_code for one in answers} - {0})
