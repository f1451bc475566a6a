"""Reading a backlog with one bare reader: throughput, broker CPU time, and the ceiling of that reader."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.figures import Figure, figure
from bench.log_reader import LogReader
from bench.session import TOPIC, Session, data_file, fill
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.apps.bench.harness.frames import VALUE_BYTES, make_batch, produce_frame
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.null_server import Body, null_server

RECORDS = 100
FETCH_BYTES = 1 << 20
"""Default fetch size of consumers per partition."""


def measure(session: Session) -> list[Figure]:
    log_bytes = session.pick(1_000_000_000, 250_000_000)
    count = log_bytes // (RECORDS * VALUE_BYTES)
    end_offset = count * RECORDS
    warm, ceiling, first = ReplaySamples(), ReplaySamples(), ReplaySamples()
    with session.broker(durability="os") as server:
        session.step("replay: fill")
        fill(server, produce_frame(TOPIC, make_batch(RECORDS)), count, RECORDS)
        for _ in range(session.pick(5, 3)):
            session.step("replay: read the backlog, then the ceiling of the reader")
            _replay(server, end_offset, warm)
            _replay_from_null(session.cpus.server, server, log_bytes, ceiling)
        session.step("replay: again after a restart")
        server.stop()
        server.start()
        _replay(server, end_offset, first)
    shares = [ours / theirs for ours, theirs in zip(warm.mb_per_s, ceiling.mb_per_s, strict=True)]
    bare = figure("bare", "MB/s", ceiling.mb_per_s, "").value
    reference = f"{log_bytes / 1e9:g} GB of 1 KB records, fetches of 1 MiB"
    return [
        figure("replay, one reader", "MB/s", warm.mb_per_s, reference),
        figure(
            "replay, against bare sendfile", "×", shares, f"to the same reader, interleaved: {bare:,.0f} MB/s"
        ),
        figure("replay, broker CPU", "CPU-s per GB", warm.cpu_s_per_gb, "the same run"),
        figure(
            "replay, first after a restart", "MB/s", first.mb_per_s, "checksums are verified while reading"
        ),
        figure(
            "replay, first after a restart, broker CPU", "CPU-s per GB", first.cpu_s_per_gb, "the same run"
        ),
    ]


@dataclass(slots=True)
class ReplaySamples:
    """Samples of several replays."""

    mb_per_s: list[float] = field(default_factory=list)
    cpu_s_per_gb: list[float] = field(default_factory=list)


def _replay(server: BrokerProcess, end_offset: int, samples: ReplaySamples) -> None:
    with LogReader(server.address, TOPIC, FETCH_BYTES) as reader:
        with server.process.cpu_time() as spent:
            read_bytes, seconds = reader.replay(end_offset)
        log_bytes = data_file(server).stat().st_size
        if read_bytes != log_bytes:
            raise UnexpectedResponse(f"{read_bytes} of {log_bytes} bytes were read")
        samples.cpu_s_per_gb.append(spent.cpu_s / (read_bytes / 1e9))
        samples.mb_per_s.append(read_bytes / 1e6 / seconds)


def _replay_from_null(cpu: int, server: BrokerProcess, log_bytes: int, samples: ReplaySamples) -> None:
    """The first response of the broker, sent repeatedly by a null server."""
    with LogReader(server.address, TOPIC, FETCH_BYTES) as reader:
        response = bytes(reader.fetch(0))
        records = bytes(reader.records(memoryview(response)))
        request_bytes = reader.request_bytes
    head, _, tail = response.partition(records)
    # The tagged fields at the end are zeros, and so are the first bytes of the next batch's offset in the file.
    assert not any(tail) and len(tail) < 8, "only tagged fields follow the records"
    body = Body(data_file(server), 0, len(records) + len(tail))
    with (
        null_server(cpu, request_bytes, head, body) as address,
        LogReader(address, TOPIC, FETCH_BYTES) as reader,
    ):
        read_bytes, seconds = reader.replay_same(max(1, log_bytes // len(records)))
    samples.mb_per_s.append(read_bytes / 1e6 / seconds)
