"""Ten thousand groups with a member and offsets each: how long until a broker that starts again answers for them."""

from __future__ import annotations

import time
from statistics import median

from bench.group_client import (
    commit_all,
    find_coordinator,
    join_alone,
    kept_records,
    offsets_of,
)
from bench.group_frames import commit_frame
from bench.server import Server
from bench.session import TOPIC, Session
from penstock.apps.measuring.figures import Figure, at_most, figure
from penstock.apps.measuring.loader import Loader, UnexpectedAnswer

READY_S_MAX = 3.0
PARTITIONS = 10
GROUP_PARTITIONS = 8
GENERATION = 1
AT_ONCE = 500
"""How many groups are asked for in one request when all of them are checked."""


def measure(session: Session) -> list[Figure]:
    groups = [f"group-{number:05d}" for number in range(session.pick(10_000, 2_000))]
    flags: dict[str, str | int] = {
        "default_partitions": PARTITIONS, "group_topic_partitions": GROUP_PARTITIONS, "group_initial_rebalance_ms": 0,
        "checkpoint_interval_ms": "1h",
    }  # fmt: skip
    with session.home() as home:
        server = Server(home, session.cpus.server, **flags)
        try:
            empty_ms = _empty_start_ms(session, server)
            session.step(f"{len(groups):,} groups come to be")
            with Loader(server.address) as loader:
                records = _fill(loader, groups)
            return _restart(session, server, groups, records, empty_ms)
        finally:
            server.close()


def _empty_start_ms(session: Session, server: Server) -> float:
    """The broker with its topics but without groups; leaves it running."""
    session.step("start of a broker without groups")
    server.start()
    with Loader(server.address) as loader:
        loader.create_topics([TOPIC])
        find_coordinator(loader, "any")
    times_ms: list[float] = []
    for _ in range(3):
        server.kill()
        times_ms.append(server.start())
    return median(times_ms)


def _offsets(at: int) -> dict[int, int]:
    """What the group at this index commits: every group something else."""
    return {partition: at * PARTITIONS + partition for partition in range(PARTITIONS)}


def _fill(loader: Loader, groups: list[str]) -> int:
    """One member and an offset of every partition in each group; returns how many records keep that."""
    members = join_alone(loader, groups, TOPIC, range(PARTITIONS))
    commit_all(
        loader,
        [
            commit_frame(group, member, GENERATION, TOPIC, _offsets(at))
            for at, (group, member) in enumerate(zip(groups, members, strict=True))
        ],
    )
    return kept_records(loader, GROUP_PARTITIONS)


def _restart(
    session: Session, server: Server, groups: list[str], records: int, empty_ms: float
) -> list[Figure]:
    killed: list[float] = []
    costs: list[float] = []
    clean: list[float] = []
    for _ in range(session.pick(5, 3)):
        session.step(f"kill -9, start and ask: {len(groups):,} groups")
        server.kill()
        seconds, cpu_s = _answering_s(server, groups)
        killed.append(seconds)
        costs.append(cpu_s)
    for _ in range(session.pick(3, 1)):
        session.step(f"stop, start and ask: {len(groups):,} groups")
        server.stop()
        clean.append(_answering_s(server, groups)[0])
    log_bytes = sum(path.stat().st_size for path in server.data_dir.glob("topics/*/*/*.log"))
    each_us = [(seconds - empty_ms / 1000) / records * 1e6 for seconds in killed]
    words = f"{len(groups):,} groups × {PARTITIONS} offsets"
    target = None if session.is_quick else at_most(READY_S_MAX)
    beside = f"an empty broker is ready in {empty_ms:.0f} ms; {records:,} records, {log_bytes / 1e6:.1f} MB"
    return [
        figure(f"{words}: exec to first answer, kill -9", "s", killed, beside, target),
        figure(f"{words}: broker CPU of that", "CPU-s", costs, "starting Python included"),
        figure(
            f"{words}: the same after a clean stop", "s", clean, "the log itself is not proven again", target
        ),
        figure("one record of a group, read again", "µs", each_us, "over the empty start, kill -9"),
    ]


def _answering_s(server: Server, groups: list[str]) -> tuple[float, float]:
    """Start and ask for a group's offsets: seconds and broker CPU until then. All groups are checked after."""
    server.start()
    with Loader(server.address) as loader:
        offsets_of(loader, groups[:1])
        seconds, cpu_s = (time.perf_counter_ns() - server.started_ns) / 1e9, server.cpu_s()
        for start in range(0, len(groups), AT_ONCE):
            found = offsets_of(loader, groups[start : start + AT_ONCE])
            for at, group in enumerate(groups[start : start + AT_ONCE], start):
                if found[group] != _offsets(at):
                    raise UnexpectedAnswer(f"{group} came back with {found[group]}")
    return seconds, cpu_s
