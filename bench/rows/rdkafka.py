"""Broker CPU time per GB that one librdkafka process writes or reads, without the CPU time of the client."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct

from bench.figures import Figure, at_most, figure
from bench.kernel_floor import floor_s_per_gb
from bench.rdkafka_client import run_client
from bench.session import TOPIC, Session, data_file
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.apps.bench.harness.frames import VALUE_BYTES

IN_MAX = 1.0
OUT_MAX = 0.5
_LENGTH = Struct(">8xi")
_PREFIX_BYTES = 12
BARE_BYTES = 256_000_000
"""Enough for a stable figure, and little enough to repeat."""
UNIT = "CPU-s per GB"


@dataclass(slots=True)
class Costs:
    """Interleaved samples of one direction: the broker, and the kernel alone."""

    broker: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    seen: str = ""

    def figures(self, name: str, bound: float, bare_calls: str) -> list[Figure]:
        bare = figure("bare", UNIT, self.bare, "").value
        ratios = [ours / theirs for ours, theirs in zip(self.broker, self.bare, strict=True)]
        return [
            figure(name, UNIT, self.broker, self.seen, at_most(bound)),
            figure(
                f"{name}, against the kernel",
                "×",
                ratios,
                f"{bare_calls} alone, best of 3 each time: {bare:.2f} {UNIT}",
            ),
        ]


def measure(session: Session) -> list[Figure]:
    count = session.pick(1_000_000, 250_000)
    figures: list[Figure] = []
    for durability in ("os", "fsync"):
        ins, outs = Costs(), Costs()
        for _ in range(session.pick(3, 1)):
            session.step(f"librdkafka in and out, {durability}")
            with session.broker(durability=durability) as server:
                _round(session, server, count, ins, outs)
        figures += ins.figures(f"in, librdkafka, {durability}", IN_MAX, "recv and pwrite")
        if durability == "os":
            figures += outs.figures("out, librdkafka", OUT_MAX, "sendfile")
    return figures


def _round(session: Session, server: BrokerProcess, count: int, ins: Costs, outs: Costs) -> None:
    """Produce all records, then consume them, each followed by the same transfer by the kernel alone."""
    bare_path = server.home / "bare"
    for verb, bare_verb, costs in (("produce", "sink", ins), ("consume", "source", outs)):
        with server.process.cpu_time() as spent:
            done = run_client(session.cpus.loader, verb, server.bootstrap, TOPIC, count)
        costs.broker.append(spent.cpu_s / (done.value_bytes / 1e9))
        costs.bare.append(floor_s_per_gb(session.cpus.server, bare_verb, bare_path, BARE_BYTES))
        costs.seen = f"client: {done.value_bytes / 1e6 / done.seconds:.0f} MB/s of {VALUE_BYTES} B records"
    ins.seen += f", {count / _batches(server):.0f} a batch"


def _batches(server: BrokerProcess) -> int:
    """How many batches the producer wrote, from the batch headers of the segment."""
    count = position = 0
    path = data_file(server)
    size = path.stat().st_size
    with path.open("rb") as segment:
        while position < size:
            segment.seek(position)
            position += _LENGTH.unpack(segment.read(_LENGTH.size))[0] + _PREFIX_BYTES
            count += 1
    return count
