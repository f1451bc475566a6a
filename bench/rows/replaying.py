"""How fast a backlog comes out to one bare reader, what it costs the broker, and what that reader could take."""

from __future__ import annotations

from bench.figures import Figure, figure
from bench.frames import VALUE_BYTES, make_batch, produce_frame
from bench.loader import Reader
from bench.null_server import Body, null_server
from bench.server import Server
from bench.session import TOPIC, Session, data_file, fill

RECORDS = 100
FETCH_BYTES = 1 << 20
"""What consumers ask of one partition unless told otherwise."""


def measure(session: Session) -> list[Figure]:
    log_bytes = session.pick(1_000_000_000, 250_000_000)
    count = log_bytes // (RECORDS * VALUE_BYTES)
    with session.home() as home:
        server = Server(home, session.cpus.server, durability="os")
        server.start()
        try:
            session.step("replay: fill")
            fill(server, produce_frame(TOPIC, make_batch(RECORDS)), count, RECORDS)
            rates, costs = _replay(session, server, count * RECORDS, session.pick(5, 3))
            ceilings = _ceiling(session, server, log_bytes)
            server.stop()
            server.start()
            first_rates, first_costs = _replay(session, server, count * RECORDS, 1)
        finally:
            server.close()
    ceiling = figure("ceiling", "MB/s", ceilings, "").value
    beside = (
        f"{log_bytes / 1e9:g} GB, fetches of 1 MiB; bare sendfile to the same reader: {ceiling:,.0f} MB/s"
    )
    return [
        figure("replay, one reader", "MB/s", rates, beside),
        figure("replay, broker CPU", "CPU-s per GB", costs, "the same run"),
        figure("replay, first after a restart", "MB/s", first_rates, "checksums are proven on the way"),
        figure("replay, first after a restart, broker CPU", "CPU-s per GB", first_costs, "the same run"),
    ]


def _replay(
    session: Session, server: Server, end_offset: int, repeats: int
) -> tuple[list[float], list[float]]:
    rates: list[float] = []
    costs: list[float] = []
    for _ in range(repeats):
        session.step("replay: read the backlog")
        with Reader(server.address, TOPIC, FETCH_BYTES) as reader:
            before_s = server.cpu_s()
            read_bytes, seconds = reader.replay(end_offset)
            costs.append((server.cpu_s() - before_s) / (read_bytes / 1e9))
            rates.append(read_bytes / 1e6 / seconds)
    return rates, costs


def _ceiling(session: Session, server: Server, log_bytes: int) -> list[float]:
    """The broker's own first answer, sent again and again by a server that does nothing else."""
    with Reader(server.address, TOPIC, FETCH_BYTES) as reader:
        answer = bytes(reader.fetch(0))
        records = bytes(reader.records(memoryview(answer)))
        request_bytes = reader.request_bytes
    head, _, tail = answer.partition(records)
    assert len(tail) <= 4, "records end the answer but for its tagged fields"
    rates: list[float] = []
    for _ in range(session.pick(3, 2)):
        session.step("replay: the reader's ceiling")
        # The tagged fields at the end are zero bytes, and so are the first bytes of the next batch's offset.
        body = Body(data_file(server), 0, len(records) + len(tail))
        with (
            null_server(session.cpus.server, request_bytes, head, body) as address,
            Reader(address, TOPIC, FETCH_BYTES) as reader,
        ):
            read_bytes, seconds = reader.replay_same(max(1, log_bytes // len(records)))
        rates.append(read_bytes / 1e6 / seconds)
    return rates
