"""kill -9 of a leader: how long a write with acks=all waits for the next one."""

from __future__ import annotations

import time
from collections.abc import Iterator

from penstock.apps.bench.compare.drivers.replicated import ReplicatedTopic
from penstock.apps.bench.harness.cluster import Cluster
from penstock.apps.bench.load.steady_load import steady_load

RATE = 200.0
FAILOVER_S_MAX = 90.0


def leader_kills_s(cluster: Cluster, topic: ReplicatedTopic, kills: int) -> Iterator[float]:
    """For each kill, the seconds until a write that was due afterwards is acknowledged.

    The broker is started again and in sync before the next leader is killed. Raises LoadFailed and ServerFailed.
    """
    with steady_load(cluster.bootstrap, topic.topic, topic.partitions, RATE) as load:
        for _ in range(kills):
            leader = topic.leaders()[0]
            cluster.kill(leader)
            killed_ns = time.monotonic_ns()
            yield (load.await_ack_ns(killed_ns, FAILOVER_S_MAX) - killed_ns) / 1e9
            cluster.start(leader)
            cluster.members[leader].await_ready()
            cluster.await_whole()
