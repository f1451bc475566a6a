"""What fsync costs: the latency of one request compared with a flush of the disk, and the gain of group commit."""

from __future__ import annotations

from functools import partial

from bench.figures import Figure, at_least, at_most, figure
from bench.rows.requests import nothing
from bench.session import TOPIC, Session, check_end
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.harness.machine import Disk, on_cpu
from penstock.apps.bench.harness.null_server import null_server
from penstock.apps.bench.harness.samples import percentile

FLUSHES_MAX = 1.3
GAIN_MIN = 20.0
IN_FLIGHT = 1_000


def measure_latency(session: Session) -> list[Figure]:
    """Alternates between a produced record and a plain append with fdatasync on the same file system."""
    batch = make_batch(1)
    frame = produce_frame(TOPIC, batch)
    count = session.pick(500, 250)
    ratios: list[float] = []
    p50s: list[float] = []
    p99s: list[float] = []
    plain: list[float] = []
    with session.broker(durability="fsync") as server, Loader(server.address) as loader:
        loader.create_topics([TOPIC])
        response_bytes = loader.produce(frame)
        disk = Disk(server.home, batch)
        bare_us = _bare_round_trip_us(session.cpus.server, frame, response_bytes, count)
        for _ in range(session.pick(7, 3)):
            session.step("ack latency, one in flight, fsync")
            flushes_us: list[float] = []
            times_us = loader.latencies_us(
                frame, response_bytes, count, partial(_flush, disk, session.cpus.server, flushes_us)
            )
            times_us.sort()
            flushes_us.sort()
            p50s.append(percentile(times_us, 0.5))
            p99s.append(percentile(times_us, 0.99))
            plain.append(percentile(flushes_us, 0.5))
            ratios.append(p50s[-1] / plain[-1])
        disk.close()
    flush = figure("plain", "µs", plain, "")
    reference = f"append + fdatasync of the same bytes, interleaved: p50 {flush.value:.0f} µs"
    return [
        figure("ack latency p50, fsync, in flushes", "×", ratios, reference, at_most(FLUSHES_MAX)),
        figure(
            "ack latency p50, fsync",
            "µs",
            p50s,
            f"of which network: {bare_us:.0f} µs to a server with a fixed response",
        ),
        figure("ack latency p99, fsync", "µs", p99s, "the same run"),
    ]


def _bare_round_trip_us(cpu: int, frame: bytes, response_bytes: int, count: int) -> float:
    with null_server(cpu, len(frame), b"\0" * response_bytes) as address, Loader(address) as idle:
        return percentile(sorted(idle.latencies_us(frame, response_bytes, count, nothing)), 0.5)


def _flush(disk: Disk, cpu: int, times_us: list[float]) -> None:
    """On the broker's CPU, so that both compete with the same other work."""
    with on_cpu(cpu):
        times_us.append(disk.flush_us())


def measure_group_commit(session: Session) -> list[Figure]:
    frame = produce_frame(TOPIC, make_batch(1))
    many = session.pick(40_000, 15_000)
    few = session.pick(1_000, 400)
    gains: list[float] = []
    singles: list[float] = []
    rates: list[float] = []
    with session.broker(durability="fsync") as server, Loader(server.address) as loader:
        loader.create_topics([TOPIC])
        response_bytes = loader.produce(frame)
        acked = 1
        for _ in range(session.pick(5, 3)):
            session.step("group commit, 1 and 1,000 in flight")
            times_us = loader.latencies_us(frame, response_bytes, few, nothing)
            singles.append(few / (sum(times_us) / 1e6))
            rates.append(many / loader.pipeline_s(frame, response_bytes, many, IN_FLIGHT))
            gains.append(rates[-1] / singles[-1])
            acked += few + many
        check_end(loader, acked)
    single = figure("single", "requests/s", singles, "")
    reference = f"one in flight: {single.value:,.0f} requests/s"
    return [
        figure("1,000 in flight, fsync, against one", "×", gains, reference, at_least(GAIN_MIN)),
        figure("1,000 in flight, fsync", "requests/s", rates, reference),
    ]
