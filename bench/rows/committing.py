"""Durable offset commits of one pipelining member, beside plain produce requests with fsync. Never judges the disk."""

from __future__ import annotations

from bench.group_client import commit_once, find_coordinator, join_alone, kept_records, offsets_of
from bench.group_frames import commit_frame
from bench.session import TOPIC, Session, check_end
from penstock.apps.measuring.figures import Figure, at_least, figure
from penstock.apps.measuring.frames import make_batch, produce_frame
from penstock.apps.measuring.loader import Loader, UnexpectedAnswer

RATE_MIN = 5_000
IN_FLIGHT = 1_000
GROUP = "bench"
GENERATION = 1
OFFSET = 42
RECORD_BYTES = 64
"""About what a committed offset takes as a record, so that both write alike."""
GROUP_PARTITIONS = 8


def measure(session: Session) -> list[Figure]:
    produce = produce_frame(TOPIC, make_batch(1, RECORD_BYTES))
    count = session.pick(40_000, 10_000)
    rates: list[float] = []
    plain: list[float] = []
    ratios: list[float] = []
    costs_us: list[float] = []
    flags: dict[str, str | int] = {"durability": "fsync", "group_topic_partitions": GROUP_PARTITIONS}
    with session.broker(**flags) as server, Loader(server.address) as loader:
        loader.create_topics([TOPIC])
        find_coordinator(loader, GROUP)
        (member,) = join_alone(loader, [GROUP], TOPIC, [0])
        commit = commit_frame(GROUP, member, GENERATION, TOPIC, {0: OFFSET})
        produced_bytes = loader.produce(produce)
        committed_bytes = commit_once(loader, commit)
        kept_before = kept_records(loader, GROUP_PARTITIONS)
        for _ in range(session.pick(5, 3)):
            session.step("offset commits and produce requests, 1,000 in flight, fsync")
            before_s = server.cpu_s()
            rates.append(count / loader.pipeline_s(commit, committed_bytes, count, IN_FLIGHT))
            costs_us.append((server.cpu_s() - before_s) / count * 1e6)
            plain.append(count / loader.pipeline_s(produce, produced_bytes, count, IN_FLIGHT))
            ratios.append(rates[-1] / plain[-1])
        check_end(loader, 1 + count * len(plain))
        _check_commits(loader, kept_before + count * len(rates))
    beside = f"plain produce requests, in turns: {figure('plain', '/s', plain, '').value:,.0f}/s"
    return [
        figure(
            "offset commits, one member, fsync",
            "commits/s",
            rates,
            "1,000 in flight, one partition each",
            at_least(RATE_MIN),
        ),
        figure("offset commits, against produce", "×", ratios, beside),
        figure("broker CPU of one offset commit", "µs", costs_us, "at 5,000/s one CPU allows 200 µs"),
    ]


def _check_commits(loader: Loader, expected: int) -> None:
    """Every commit is a record of its own in the groups' topic, and the last one counts."""
    kept = kept_records(loader, GROUP_PARTITIONS)
    if kept != expected:
        raise UnexpectedAnswer(f"the groups' topic holds {kept} records, {expected} were acknowledged")
    if offsets_of(loader, [GROUP]) != {GROUP: {0: OFFSET}}:
        raise UnexpectedAnswer("the offset that was committed is not the group's")
