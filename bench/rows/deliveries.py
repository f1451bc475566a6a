"""Deliveries of a subscription to 16 members, each acknowledged individually."""

from __future__ import annotations

import time

from bench.figures import Figure, at_least, figure
from bench.queue_members import QueueMembers, create_subscription
from bench.session import TOPIC, Session
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader
from penstock.client.queue.broker_client import BrokerClient

RATE_MIN = 10_000
MEMBERS = 16
WINDOW = 64
VALUE_BYTES = 100
BATCH_RECORDS = 500
SETTLED_S_MAX = 30.0
SUBSCRIPTION = "bench"


def measure(session: Session) -> list[Figure]:
    batch = produce_frame(TOPIC, make_batch(BATCH_RECORDS, VALUE_BYTES))
    single = produce_frame(TOPIC, make_batch(1, VALUE_BYTES))
    count = session.pick(100_000, 20_000)
    rates: list[float] = []
    plain: list[float] = []
    costs_us: list[float] = []
    with session.broker(durability="fsync") as server, Loader(server.address) as loader:
        loader.create_topics([TOPIC])
        response_bytes, single_bytes = loader.produce(batch), loader.produce(single)
        for turn in range(session.pick(5, 3)):
            session.step(
                f"{MEMBERS} members, each message acknowledged; interleaved with produce requests, fsync"
            )
            plain.append(2_000 / loader.pipeline_s(single, single_bytes, 2_000, 1_000))
            name = f"{SUBSCRIPTION}-{turn}"
            door = (server.address[0], server.ports["queue_port"])
            create_subscription(door, name, TOPIC)
            members = QueueMembers(door, name, MEMBERS, WINDOW)
            with server.process.cpu_time() as spent:
                loader.pipeline_s(batch, response_bytes, count // BATCH_RECORDS, 64)
                rates.append(count / members.take(count))
            costs_us.append(spent.cpu_s / count * 1e6)
            _check_settled(door, name)
            members.close()
    reference = f"produce requests, interleaved: {figure('plain', '/s', plain, '').value:,.0f}/s"
    return [
        figure(
            f"deliveries to {MEMBERS} members, each acknowledged",
            "deliveries/s",
            rates,
            reference,
            at_least(RATE_MIN),
        ),
        figure("broker CPU of one delivery", "µs", costs_us, "including batched publishing"),
    ]


def _check_settled(door: tuple[str, int], name: str) -> None:
    """Check that every acknowledged message is settled."""
    with BrokerClient(*door) as client:
        deadline = time.monotonic() + SETTLED_S_MAX
        while time.monotonic() < deadline:
            (partition,) = client.describe_subscription(name)["partitions"]
            if not partition["unsettled_count"]:
                return
    raise UnexpectedResponse(f"{partition['unsettled_count']} acknowledged messages are not settled")
