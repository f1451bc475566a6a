"""kill -9 of a leader: how long a write with acks=all waits for the next one."""

from __future__ import annotations

import time
from collections.abc import Iterator

from penstock.apps.bench.compare.drivers.replicated import ReplicatedTopic
from penstock.apps.bench.harness.cluster import Cluster
from penstock.apps.bench.load.steady_load import steady_load

RATE = 200.0
SETTLE_S = 0.5
"""Load before the kill."""
FAILOVER_S_MAX = 90.0


def leader_kills_s(cluster: Cluster, topic: ReplicatedTopic, kills: int) -> Iterator[float]:
    """For each kill, the seconds until a write that was due afterwards is acknowledged.

    The broker is started again and in sync before the next leader is killed. Each kill has a new producer: librdkafka
    waits up to 10 s before it connects to a broker that it has connected to in the last seconds, and kills are minutes
    apart where nobody measures them. Raises LoadFailed and ServerFailed.
    """
    for _ in range(kills):
        leader = topic.leaders()[0]
        with steady_load(cluster.bootstrap, topic.topic, topic.partitions, RATE) as load:
            time.sleep(SETTLE_S)
            killed_ns = cluster.strike(leader)
            yield (load.await_ack_ns(killed_ns, FAILOVER_S_MAX) - killed_ns) / 1e9
        cluster.start(leader)
        cluster.members[leader].await_ready()
        cluster.await_whole()
