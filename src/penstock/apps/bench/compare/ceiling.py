"""The rate that the load generator itself can reach, measured against a server that only sends a fixed response."""

from __future__ import annotations

from penstock.apps.bench.compare.drivers.driver import ingest_rate
from penstock.apps.bench.compare.drivers.kafka import KafkaWriter
from penstock.apps.bench.compare.rows.streams import BATCH_BYTES, IN_FLIGHT_BATCHES, KB, SMALL
from penstock.apps.bench.compare.runs.contenders import CONTENDERS, OURS
from penstock.apps.bench.compare.runs.row_runner import RowRunner
from penstock.apps.bench.harness.null_server import null_server
from penstock.core.model import Durability

BATCHES = 2_000


def loader_ceiling(runner: RowRunner) -> str:
    """Messages of 100 B per second, and MB per second of 1 KB messages."""
    small, large = (_ingest_rate(runner, size) for size in (SMALL, KB))
    rates = f"{small:,.0f} msg/s of {SMALL} B, {large * KB / 1e6:,.0f} MB/s of 1 KB"
    return f"{rates}, against a server with a fixed response"


def _ingest_rate(runner: RowRunner, size: int) -> float:
    """The driver for Kafka's protocol against a response recorded from Penstock."""
    batch = BATCH_BYTES // size
    (ours,) = (one for one in CONTENDERS if one.launcher.name == OURS)
    with runner.started(ours, Durability.OS) as server:
        topic = runner.new_name()
        ours.stream_driver(server, size, topic).create_stream()
        writer = KafkaWriter(server.address(), size, topic)
        load = writer.load(batch)
        writer.link.send(load.content)
        response = bytes(writer.link.receive())
    with null_server(runner.cpus.server, len(load.content), response) as address:
        idle = KafkaWriter(address, size, topic)
        idle.load(batch)
        return ingest_rate(idle, load, BATCHES * batch, batch * IN_FLIGHT_BATCHES)
