"""How fast a backlog comes out to one bare reader, what it costs the broker, and what that reader could take."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.server import Server
from bench.session import TOPIC, Session, data_file, fill
from penstock.apps.measuring.figures import Figure, figure
from penstock.apps.measuring.frames import VALUE_BYTES, make_batch, produce_frame
from penstock.apps.measuring.loader import Reader, UnexpectedAnswer
from penstock.apps.measuring.null_server import Body, null_server

RECORDS = 100
FETCH_BYTES = 1 << 20
"""What consumers ask of one partition unless told otherwise."""


def measure(session: Session) -> list[Figure]:
    log_bytes = session.pick(1_000_000_000, 250_000_000)
    count = log_bytes // (RECORDS * VALUE_BYTES)
    end_offset = count * RECORDS
    pace, ceiling, first = Pace(), Pace(), Pace()
    with session.home() as home:
        server = Server(home, session.cpus.server, durability="os")
        server.start()
        try:
            session.step("replay: fill")
            fill(server, produce_frame(TOPIC, make_batch(RECORDS)), count, RECORDS)
            for _ in range(session.pick(5, 3)):
                session.step("replay: read the backlog, then what the reader could take")
                _replay(server, end_offset, pace)
                _replay_from_null(session.cpus.server, server, log_bytes, ceiling)
            session.step("replay: once more after a restart")
            server.stop()
            server.start()
            _replay(server, end_offset, first)
        finally:
            server.close()
    shares = [ours / theirs for ours, theirs in zip(pace.mb_per_s, ceiling.mb_per_s, strict=True)]
    bare = figure("bare", "MB/s", ceiling.mb_per_s, "").value
    beside = f"{log_bytes / 1e9:g} GB of 1 KB records, fetches of 1 MiB"
    return [
        figure("replay, one reader", "MB/s", pace.mb_per_s, beside),
        figure(
            "replay, against bare sendfile", "×", shares, f"to the same reader, in turns: {bare:,.0f} MB/s"
        ),
        figure("replay, broker CPU", "CPU-s per GB", pace.cpu_s_per_gb, "the same run"),
        figure("replay, first after a restart", "MB/s", first.mb_per_s, "checksums are proven on the way"),
        figure(
            "replay, first after a restart, broker CPU", "CPU-s per GB", first.cpu_s_per_gb, "the same run"
        ),
    ]


@dataclass(slots=True)
class Pace:
    """Samples of several replays."""

    mb_per_s: list[float] = field(default_factory=list)
    cpu_s_per_gb: list[float] = field(default_factory=list)


def _replay(server: Server, end_offset: int, pace: Pace) -> None:
    with Reader(server.address, TOPIC, FETCH_BYTES) as reader:
        before_s = server.cpu_s()
        read_bytes, seconds = reader.replay(end_offset)
        log_bytes = data_file(server).stat().st_size
        if read_bytes != log_bytes:
            raise UnexpectedAnswer(f"{read_bytes} bytes were read of a log of {log_bytes}")
        pace.cpu_s_per_gb.append((server.cpu_s() - before_s) / (read_bytes / 1e9))
        pace.mb_per_s.append(read_bytes / 1e6 / seconds)


def _replay_from_null(cpu: int, server: Server, log_bytes: int, pace: Pace) -> None:
    """The broker's own first answer, sent again and again by a server that does nothing else."""
    with Reader(server.address, TOPIC, FETCH_BYTES) as reader:
        answer = bytes(reader.fetch(0))
        records = bytes(reader.records(memoryview(answer)))
        request_bytes = reader.request_bytes
    head, _, tail = answer.partition(records)
    # The tagged fields at the end are zero bytes, and so are the first bytes of the next batch's offset.
    assert not any(tail) and len(tail) < 8, "records end the answer but for its tagged fields"
    body = Body(data_file(server), 0, len(records) + len(tail))
    with (
        null_server(cpu, request_bytes, head, body) as address,
        Reader(address, TOPIC, FETCH_BYTES) as reader,
    ):
        read_bytes, seconds = reader.replay_same(max(1, log_bytes // len(records)))
    pace.mb_per_s.append(read_bytes / 1e6 / seconds)
