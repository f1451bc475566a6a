"""Every broker is stopped and started, one after the other, under load: failed writes, and the longest wait of one."""

from __future__ import annotations

import time
from typing import NamedTuple

from penstock.apps.bench.compare.drivers.replicated import ReplicatedTopic
from penstock.apps.bench.harness.cluster import Cluster
from penstock.apps.bench.load.steady_load import steady_load

RATE = 1_000.0
REST_S = 1.0
"""Load before the first stop and after the last start."""


class RollingRestart(NamedTuple):
    errors: int
    pause_ms: float
    """The longest time from when a message was due until its acknowledgement."""
    messages: int
    first_error: str


def rolling_restart(cluster: Cluster, topic: ReplicatedTopic) -> RollingRestart:
    """The next broker is stopped when all replicas are in sync again. Raises LoadFailed and ServerFailed."""
    began_ns = time.monotonic_ns()
    with steady_load(cluster.bootstrap, topic.topic, topic.partitions, RATE) as load:
        time.sleep(REST_S)
        for node_id in cluster.members:
            cluster.stop(node_id)
            cluster.start(node_id)
            cluster.members[node_id].await_ready()
            cluster.await_whole()
        time.sleep(REST_S)
    pauses_ms = load.latencies_ms(began_ns, time.monotonic_ns())
    first = load.errors[0] if load.errors else ""
    return RollingRestart(len(load.errors), pauses_ms[-1], load.acknowledged, first)
