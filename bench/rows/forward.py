"""A publish through a broker that does not lead the partition, against one through its leader: CPU time of all brokers.

Two brokers, one partition, 100 bytes. Both ways alternate in every run. A client with one message in flight waits for
each acknowledgement; a pipelined one keeps many unanswered.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median

from bench.cluster import ClusterProcess, RunningBroker, stopped_cluster
from bench.door_publishes import HTTP, JSON, QUEUE, TEXT, Door, publish
from bench.figures import Figure, at_most, figure
from bench.session import TOPIC, Session, check_end
from penstock.apps.bench.harness.loader import Loader

RATIO_MAX = 2.0
PIPELINED = 100
AT_ONCE = 20
DOORS = (TEXT, JSON, HTTP, QUEUE)


@dataclass(slots=True)
class Way:
    """Samples of one way to the partition: through its leader, or through another broker."""

    cpu_us: list[float] = field(default_factory=list)
    wall_us: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{median(self.cpu_us):.0f} µs of CPU, {median(self.wall_us):.0f} µs"


def measure(session: Session) -> list[Figure]:
    figures: list[Figure] = []
    for durability in ("fsync", "os"):
        with stopped_cluster(session, 2, session.cpus.server, durability=durability) as cluster:
            cluster.start()
            for door in DOORS:
                figures += _through(session, cluster, door, durability)
    return figures


def _through(session: Session, cluster: ClusterProcess, door: Door, durability: str) -> list[Figure]:
    leader = cluster.leader(TOPIC)
    (other,) = (broker for broker in cluster.brokers if broker is not leader)
    figures = []
    for in_flight in (1, PIPELINED):
        session.step(f"{door.name} door, {durability}, {in_flight} in flight")
        local, forwarded = Way(), Way()
        single = session.pick(1_500, 300)
        count = single if in_flight == 1 else 10 * single
        acked = _end(leader)
        for broker in (leader, other):  # connect the link, load the door
            acked += _publish(broker, door, count // 10, in_flight)
        for _ in range(session.pick(5, 3)):
            for broker, way in ((leader, local), (other, forwarded)):
                with cluster.cpu_time() as spent:
                    start_s = time.perf_counter()
                    acked += _publish(broker, door, count, in_flight)
                    way.wall_us.append((time.perf_counter() - start_s) / count * 1e6)
                way.cpu_us.append(spent.cpu_s / count * 1e6)
        with Loader(leader.address) as loader:
            check_end(loader, acked)
        ratios = [there / here for there, here in zip(forwarded.cpu_us, local.cpu_us, strict=True)]
        name = f"forwarded publish against local, {door.name}, {durability}, {in_flight} in flight"
        reference = f"CPU of both brokers; local {local}; forwarded {forwarded}"
        figures.append(figure(name, "×", ratios, reference, at_most(RATIO_MAX)))
    return figures


def _publish(broker: RunningBroker, door: Door, count: int, in_flight: int) -> int:
    address = (broker.address[0], broker.ports[door.name])
    return publish(address, door, count, in_flight, AT_ONCE if in_flight > 1 else 1)


def _end(leader: RunningBroker) -> int:
    with Loader(leader.address) as loader:
        return loader.end_offsets(TOPIC)[0]
