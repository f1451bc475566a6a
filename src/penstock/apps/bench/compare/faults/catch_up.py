"""A replica that was away while much was written: how fast it catches up, and what producers notice of that."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from penstock.apps.bench.compare.drivers.driver import spread_ingest_rate
from penstock.apps.bench.compare.drivers.replicated import ReplicatedTopic
from penstock.apps.bench.harness.cluster import Cluster, PeerNode
from penstock.apps.bench.harness.cluster_state import await_state, read_state
from penstock.apps.bench.load.plan import LoadFailed
from penstock.apps.bench.load.steady_load import steady_load

RATE = 1_000.0
SIZE = 1024
BATCH = 97
CONNECTIONS, IN_FLIGHT_BATCHES = 2, 2
QUIET_S = 4.0
"""How long the latency without a catch-up is measured, and how long connections settle before."""
SETTLE_S = 1.0
GROWTH_BYTES_MIN = 1 << 20
"""The copy has begun once the log is larger by this than it was before the start."""
CATCH_UP_S_MAX = 300.0
POLL_S = 0.01


class CatchUp(NamedTuple):
    mb_per_s: float
    p99_quiet_ms: float
    p99_ms: float
    """Of messages that were due while the replica caught up."""
    copied_bytes: int
    cpu_s: float

    @property
    def p99_growth(self) -> float:
        return self.p99_ms / self.p99_quiet_ms


def catch_up(cluster: Cluster, topic: ReplicatedTopic, missed_bytes: int) -> CatchUp:
    """Stop a broker, write `missed_bytes`, start it, and wait until it is in all in-sync sets. Both times of the load
    have the same rate. Raises LoadFailed, ServerFailed and UnexpectedResponse."""
    away = list(cluster.members.values())[-1]
    with steady_load(cluster.bootstrap, topic.topic, topic.partitions, RATE) as load:
        time.sleep(SETTLE_S)
        quiet_ns = time.monotonic_ns()
        time.sleep(QUIET_S)
        quiet_until_ns = time.monotonic_ns()
    cluster.stop(away.node_id)
    witness = cluster.other_than(away.node_id)
    await_state(
        witness.address, lambda state: all(away.node_id not in one.in_sync for one in state.partitions)
    )
    _write(topic, missed_bytes)
    os.sync()
    before_bytes = away.log_bytes()
    with steady_load(cluster.bootstrap, topic.topic, topic.partitions, RATE) as behind:
        time.sleep(SETTLE_S)
        cluster.start(away.node_id)
        began_ns = _await_growth(away, before_bytes)
        with cluster.cpu_time() as spent:
            _await_in_sync(witness, away.node_id)
        ended_ns = time.monotonic_ns()
        copied = away.log_bytes() - before_bytes
    cluster.await_whole()
    return CatchUp(
        copied * 1e3 / (ended_ns - began_ns),
        load.p99_ms(quiet_ns, quiet_until_ns),
        behind.p99_ms(began_ns, ended_ns),
        copied,
        spent.cpu_s,
    )


def _write(topic: ReplicatedTopic, written_bytes: int) -> None:
    writers = topic.writers(SIZE, CONNECTIONS)
    loads = [writer.load(BATCH) for writer in writers]
    count = max(1, written_bytes // SIZE // BATCH) * BATCH
    spread_ingest_rate(writers, loads, count, BATCH * IN_FLIGHT_BATCHES)
    for writer in writers:
        writer.link.close()


def _await_growth(away: PeerNode, before_bytes: int) -> int:
    """When the replica began to copy: the start of its process is not part of the catch-up."""
    deadline = time.monotonic() + CATCH_UP_S_MAX
    while away.log_bytes() < before_bytes + GROWTH_BYTES_MIN:
        if time.monotonic() > deadline:
            raise LoadFailed(f"broker {away.node_id} copied nothing within {CATCH_UP_S_MAX:.0f} s")
        time.sleep(POLL_S)
    return time.monotonic_ns()


def _await_in_sync(witness: PeerNode, node_id: int) -> None:
    deadline = time.monotonic() + CATCH_UP_S_MAX
    while not all(node_id in one.in_sync for one in read_state(witness.address).partitions):
        if time.monotonic() > deadline:
            raise LoadFailed(f"broker {node_id} is not in sync after {CATCH_UP_S_MAX:.0f} s")
        time.sleep(POLL_S)
