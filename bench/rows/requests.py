"""Single-record produce requests: rate when pipelined, and latency one at a time. Durability `os`."""

from __future__ import annotations

from bench.figures import Figure, at_least, at_most, figure
from bench.session import TOPIC, Session, check_end
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.harness.null_server import null_server
from penstock.apps.bench.harness.samples import percentile

RATE_MIN = 25_000
P50_US_MAX = 150
IN_FLIGHT = 500


def nothing() -> None:
    """Nothing to do between two requests of a latency run."""


def measure_rate(session: Session) -> list[Figure]:
    frame = produce_frame(TOPIC, make_batch(1))
    count = session.pick(100_000, 30_000)
    rates: list[float] = []
    ceilings: list[float] = []
    costs_us: list[float] = []
    with session.broker(durability="os") as server, Loader(server.address) as loader:
        loader.create_topics([TOPIC])
        response_bytes = loader.produce(frame)
        loader.pipeline_s(frame, response_bytes, count // 10, IN_FLIGHT)
        acked = 1 + count // 10
        with (
            null_server(session.cpus.server, len(frame), b"\0" * response_bytes) as address,
            Loader(address) as idle,
        ):
            for _ in range(session.pick(5, 3)):
                session.step("single-record requests, pipelined")
                with server.process.cpu_time() as spent:
                    rates.append(count / loader.pipeline_s(frame, response_bytes, count, IN_FLIGHT))
                costs_us.append(spent.cpu_s / count * 1e6)
                ceilings.append(count / idle.pipeline_s(frame, response_bytes, count, IN_FLIGHT))
                acked += count
        check_end(loader, acked)
    ceiling = figure("ceiling", "requests/s", ceilings, "")
    reference = f"{IN_FLIGHT} in flight, 1 KB; ceiling of the load generator: {ceiling.value:,.0f}/s"
    return [
        figure("requests, one connection, os", "requests/s", rates, reference, at_least(RATE_MIN)),
        figure("broker CPU of one such request", "µs", costs_us, "25,000/s on one CPU allow 40 µs"),
    ]


def measure_latency(session: Session) -> list[Figure]:
    frame = produce_frame(TOPIC, make_batch(1))
    count = session.pick(4_000, 2_000)
    p50s: list[float] = []
    p99s: list[float] = []
    floors: list[float] = []
    with session.broker(durability="os") as server, Loader(server.address) as loader:
        loader.create_topics([TOPIC])
        response_bytes = loader.produce(frame)
        loader.latencies_us(frame, response_bytes, count // 4, nothing)
        with (
            null_server(session.cpus.server, len(frame), b"\0" * response_bytes) as address,
            Loader(address) as idle,
        ):
            for _ in range(session.pick(7, 3)):
                session.step("ack latency, one in flight, os")
                times_us = sorted(loader.latencies_us(frame, response_bytes, count, nothing))
                p50s.append(percentile(times_us, 0.5))
                p99s.append(percentile(times_us, 0.99))
                floors.append(
                    percentile(sorted(idle.latencies_us(frame, response_bytes, count, nothing)), 0.5)
                )
    floor = figure("floor", "µs", floors, "")
    reference = f"a server with a fixed response: p50 {floor.value:.0f} µs"
    return [
        figure("ack latency p50, os", "µs", p50s, reference, at_most(P50_US_MAX)),
        figure("ack latency p99, os", "µs", p99s, "the same run"),
    ]
