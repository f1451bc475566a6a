"""Broker CPU for each GB that one librdkafka process sends or reads. Never counts the client's own CPU."""

from __future__ import annotations

from struct import Struct

from bench.figures import Figure, at_most, figure
from bench.frames import VALUE_BYTES
from bench.rdkafka import run_client
from bench.server import Server
from bench.session import TOPIC, Session, data_file

IN_MAX = 1.0
OUT_MAX = 0.5
_LENGTH = Struct(">8xi")
_PREFIX_BYTES = 12
UNIT = "CPU-s per GB"


def measure(session: Session) -> list[Figure]:
    count = session.pick(1_000_000, 250_000)
    repeats = session.pick(3, 1)
    figures: list[Figure] = []
    for durability in ("os", "fsync"):
        ins: list[float] = []
        outs: list[float] = []
        rates: list[str] = []
        for _ in range(repeats):
            session.step(f"librdkafka in and out, {durability}")
            with session.broker(durability=durability) as server:
                rates = _round(session, server, count, ins, outs)
        figures.append(
            figure(f"in, librdkafka, {durability}", UNIT, ins, f"{rates[0]}, {rates[2]}", at_most(IN_MAX))
        )
        if durability == "os":
            figures.append(figure("out, librdkafka", UNIT, outs, rates[1], at_most(OUT_MAX)))
    return figures


def _round(session: Session, server: Server, count: int, ins: list[float], outs: list[float]) -> list[str]:
    """Produce everything, read everything; returns what the client saw."""
    seen: list[str] = []
    for verb, costs in (("produce", ins), ("consume", outs)):
        before_s = server.cpu_s()
        done = run_client(session.cpus.loader, verb, server.bootstrap, TOPIC, count)
        costs.append((server.cpu_s() - before_s) / (done.value_bytes / 1e9))
        seen.append(f"client: {done.value_bytes / 1e6 / done.seconds:.0f} MB/s of {VALUE_BYTES} B records")
    seen.append(f"{count / _batches(server):.0f} records a batch")
    return seen


def _batches(server: Server) -> int:
    """How many batches the producer made of its records: a walk over the headers of the segment."""
    count = position = 0
    path = data_file(server)
    size = path.stat().st_size
    with path.open("rb") as segment:
        while position < size:
            segment.seek(position)
            position += _LENGTH.unpack(segment.read(_LENGTH.size))[0] + _PREFIX_BYTES
            count += 1
    return count
