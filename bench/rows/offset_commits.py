"""Durable offset commits of one pipelining member, compared with plain produce requests with fsync."""

from __future__ import annotations

from bench.figures import Figure, at_least, figure
from bench.group_client import commit_once, find_coordinator, join_alone, offsets_of, stored_records
from bench.group_frames import commit_frame
from bench.session import TOPIC, Session, check_end
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader

RATE_MIN = 5_000
IN_FLIGHT = 1_000
GROUP = "bench"
GENERATION = 1
OFFSET = 42
RECORD_BYTES = 64
"""About the size of a committed offset as a record, so that both write the same amount."""
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
        stored_before = stored_records(loader, GROUP_PARTITIONS)
        for _ in range(session.pick(5, 3)):
            session.step("offset commits and produce requests, 1,000 in flight, fsync")
            with server.process.cpu_time() as spent:
                rates.append(count / loader.pipeline_s(commit, committed_bytes, count, IN_FLIGHT))
            costs_us.append(spent.cpu_s / count * 1e6)
            plain.append(count / loader.pipeline_s(produce, produced_bytes, count, IN_FLIGHT))
            ratios.append(rates[-1] / plain[-1])
        check_end(loader, 1 + count * len(plain))
        _check_commits(loader, stored_before + count * len(rates))
    reference = f"plain produce requests, interleaved: {figure('plain', '/s', plain, '').value:,.0f}/s"
    return [
        figure(
            "offset commits, one member, fsync",
            "commits/s",
            rates,
            "1,000 in flight, one partition each",
            at_least(RATE_MIN),
        ),
        figure("offset commits, against produce", "×", ratios, reference),
        figure("broker CPU of one offset commit", "µs", costs_us, "5,000/s on one CPU allow 200 µs"),
    ]


def _check_commits(loader: Loader, expected: int) -> None:
    """Check that every commit is a record in the offsets topic, and that the last one is returned."""
    stored = stored_records(loader, GROUP_PARTITIONS)
    if stored != expected:
        raise UnexpectedResponse(f"the offsets topic has {stored} records, {expected} were acknowledged")
    if offsets_of(loader, [GROUP]) != {GROUP: {0: OFFSET}}:
        raise UnexpectedResponse("the group does not have the committed offset")
