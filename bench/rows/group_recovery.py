"""Restart with ten thousand groups, each with a member and offsets: time until the first response for a group."""

from __future__ import annotations

import time
from statistics import median

from bench.figures import Figure, at_most, figure
from bench.group_client import (
    commit_all,
    find_coordinator,
    join_alone,
    offsets_of,
    stored_records,
)
from bench.group_frames import commit_frame
from bench.session import TOPIC, Session
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader

READY_S_MAX = 3.0
PARTITIONS = 10
GROUP_PARTITIONS = 8
GENERATION = 1
AT_ONCE = 500
"""Groups per request when all of them are checked."""


def measure(session: Session) -> list[Figure]:
    groups = [f"group-{number:05d}" for number in range(session.pick(10_000, 2_000))]
    flags: dict[str, str | int] = {
        "default_partitions": PARTITIONS, "group_topic_partitions": GROUP_PARTITIONS, "group_initial_rebalance_ms": 0,
        "checkpoint_interval_ms": "1h",
    }  # fmt: skip
    with session.stopped_broker(**flags) as server:
        empty_ms = _empty_start_ms(session, server)
        session.step(f"create {len(groups):,} groups")
        with Loader(server.address) as loader:
            records = _fill(loader, groups)
        return _restart(session, server, groups, records, empty_ms)


def _empty_start_ms(session: Session, server: BrokerProcess) -> float:
    """Start-up time of the broker with its topics but without groups; leaves it running."""
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
    """The offsets that the group at this index commits; they differ between groups."""
    return {partition: at * PARTITIONS + partition for partition in range(PARTITIONS)}


def _fill(loader: Loader, groups: list[str]) -> int:
    """Create the groups, each with one member and an offset per partition; returns the number of stored records."""
    members = join_alone(loader, groups, TOPIC, range(PARTITIONS))
    commit_all(
        loader,
        [
            commit_frame(group, member, GENERATION, TOPIC, _offsets(at))
            for at, (group, member) in enumerate(zip(groups, members, strict=True))
        ],
    )
    return stored_records(loader, GROUP_PARTITIONS)


def _restart(
    session: Session, server: BrokerProcess, groups: list[str], records: int, empty_ms: float
) -> list[Figure]:
    killed: list[float] = []
    costs: list[float] = []
    clean: list[float] = []
    for _ in range(session.pick(5, 3)):
        session.step(f"kill -9, start, first response: {len(groups):,} groups")
        server.kill()
        seconds, cpu_s = _first_response_s(server, groups)
        killed.append(seconds)
        costs.append(cpu_s)
    for _ in range(session.pick(3, 1)):
        session.step(f"stop, start, first response: {len(groups):,} groups")
        server.stop()
        clean.append(_first_response_s(server, groups)[0])
    log_bytes = sum(path.stat().st_size for path in server.data_dir.glob("topics/*/*/*.log"))
    each_us = [(seconds - empty_ms / 1000) / records * 1e6 for seconds in killed]
    words = f"{len(groups):,} groups × {PARTITIONS} offsets"
    target = None if session.is_quick else at_most(READY_S_MAX)
    reference = (
        f"an empty broker is ready in {empty_ms:.0f} ms; {records:,} records, {log_bytes / 1e6:.1f} MB"
    )
    return [
        figure(f"{words}: exec to first response, kill -9", "s", killed, reference, target),
        figure(f"{words}: broker CPU of that", "CPU-s", costs, "including the start of Python"),
        figure(f"{words}: the same after a clean stop", "s", clean, "the log is not verified again", target),
        figure("replay of one group record", "µs", each_us, "beyond the empty start, kill -9"),
    ]


def _first_response_s(server: BrokerProcess, groups: list[str]) -> tuple[float, float]:
    """Start and fetch offsets of groups of every coordinator; returns seconds and broker CPU until all of them have
    loaded their groups. Then checks all groups."""
    server.start()
    with Loader(server.address) as loader:
        offsets_of(loader, groups[:AT_ONCE])
        seconds, cpu_s = (time.perf_counter_ns() - server.process.started_ns) / 1e9, server.process.cpu_s()
        for start in range(0, len(groups), AT_ONCE):
            found = offsets_of(loader, groups[start : start + AT_ONCE])
            for at, group in enumerate(groups[start : start + AT_ONCE], start):
                if found[group] != _offsets(at):
                    raise UnexpectedResponse(f"{group} has offsets {found[group]} after the restart")
    return seconds, cpu_s
