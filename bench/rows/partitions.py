"""Ten thousand partitions in one broker: open files, memory, and a record in each of them."""

from __future__ import annotations

import time

from bench.figures import Figure, at_most, figure
from bench.session import Session
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader

PARTITIONS = 10
OPEN_FILES_MAX = 1_024
OTHER_FILES = 32
"""Open descriptors that are not log files: sockets, the event loop, the lock."""
TOPICS_PER_REQUEST = 50


def measure(session: Session) -> list[Figure]:
    topics = [f"t{number:04d}" for number in range(session.pick(1_000, 200))]
    flags: dict[str, str | int] = {
        "durability": "os", "default_partitions": PARTITIONS, "open_files_max": OPEN_FILES_MAX,
    }  # fmt: skip
    with session.broker(**flags) as server:
        return _measure(session, server, topics)


def _measure(session: Session, server: BrokerProcess, topics: list[str]) -> list[Figure]:
    total = len(topics) * PARTITIONS
    before_mb = server.process.resident_mb()
    with Loader(server.address) as loader:
        session.step(f"create {len(topics):,} topics × {PARTITIONS}")
        start_s = time.perf_counter()
        for at in range(0, len(topics), TOPICS_PER_REQUEST):
            loader.create_topics(topics[at : at + TOPICS_PER_REQUEST])
        created_s = time.perf_counter() - start_s
        session.step(f"one record into each of {total:,} partitions")
        batch = make_batch(1)
        start_s = time.perf_counter()
        for topic in topics:
            loader.produce(produce_frame(topic, batch, range(PARTITIONS)))
        produced_s = time.perf_counter() - start_s
        for topic in topics:
            if loader.end_offsets(topic, range(PARTITIONS)) != [1] * PARTITIONS:
                raise UnexpectedResponse(f"{topic} does not have one record per partition")
    open_files, resident_mb = server.process.open_files(), server.process.resident_mb()
    each_kb = (resident_mb - before_mb) * 1000 / total
    session.step(f"restart with {total:,} partitions")
    server.stop()
    clean_ms = server.start()
    server.kill()
    torn_ms = server.start()
    name = f"{total:,} partitions"
    reference = f"open_files_max is {OPEN_FILES_MAX:,}, plus at most {OTHER_FILES} others"
    return [
        figure(f"{name}: open files", "", [open_files], reference, at_most(OPEN_FILES_MAX + OTHER_FILES)),
        figure(f"{name}: memory", "MB", [resident_mb], f"{each_kb:.1f} KB each beyond an empty broker"),
        figure(f"{name}: creating them", "s", [created_s], f"{created_s / total * 1e6:.0f} µs each"),
        figure(f"{name}: one record in each", "s", [produced_s], f"{produced_s / total * 1e6:.0f} µs each"),
        figure(
            f"{name}: start after a clean stop", "ms", [clean_ms], f"{clean_ms / total * 1000:.0f} µs each"
        ),
        figure(f"{name}: start after kill -9", "ms", [torn_ms], f"{torn_ms / total * 1000:.0f} µs each"),
    ]
