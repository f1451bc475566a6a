"""What clients notice when brokers fail: a killed leader, a rolling restart, a replica that catches up."""

from __future__ import annotations

from bench.figures import Figure, at_least, at_most, figure
from bench.replicas import replicated_cluster
from bench.session import TOPIC, Session
from penstock.apps.bench.compare.drivers.replicated import replicated_topic
from penstock.apps.bench.compare.faults.catch_up import CatchUp, catch_up
from penstock.apps.bench.compare.faults.leader_kill import leader_kills_s
from penstock.apps.bench.compare.faults.rolling_restart import rolling_restart
from penstock.apps.bench.compare.rows.faults import (
    FAILOVER_S,
    FAILOVER_S_MAX,
    MB_PER_S_MIN,
    MISSED_BYTES,
    P99_GROWTH_MAX,
    PAUSE_MS_MAX,
    QUICK_MISSED_BYTES,
)
from penstock.apps.bench.compare.rows.replicated import PARTITIONS


def measure_failover(session: Session) -> list[Figure]:
    kills = session.pick(20, 4)
    session.step(f"{kills} leaders killed")
    with replicated_cluster(session) as cluster, replicated_topic(cluster, TOPIC, 1) as topic:
        times_s = list(leader_kills_s(cluster, topic, kills))
    reference = f"{kills} kills with -9, one partition of 3 replicas, librdkafka with acks=all"
    return [
        figure("failover", "s", times_s, reference, at_most(FAILOVER_S)),
        figure("failover, worst", "s", [max(times_s)], reference, at_most(FAILOVER_S_MAX)),
    ]


def measure_rolling(session: Session) -> list[Figure]:
    pauses_ms: list[float] = []
    errors: list[float] = []
    first, messages = "", 0
    with replicated_cluster(session) as cluster, replicated_topic(cluster, TOPIC, PARTITIONS) as topic:
        for _ in range(session.pick(5, 1)):
            session.step("rolling restart")
            found = rolling_restart(cluster, topic)
            pauses_ms.append(found.pause_ms)
            errors.append(found.errors)
            first, messages = first or found.first_error, messages + found.messages
    reference = f"{messages:,} messages at 1,000/s, each broker stopped with SIGTERM. {first}"
    return [
        figure("rolling restart, longest wait of a write", "ms", pauses_ms, reference, at_most(PAUSE_MS_MAX)),
        figure("rolling restart, failed writes", "messages", errors, reference, at_most(0)),
    ]


def measure_catch_up(session: Session) -> list[Figure]:
    missed_bytes = session.pick(MISSED_BYTES, QUICK_MISSED_BYTES)
    runs: list[CatchUp] = []
    with replicated_cluster(session) as cluster:
        for number in range(session.pick(3, 1)):
            session.step(f"catch-up of {missed_bytes / 1e6:,.0f} MB")
            with replicated_topic(cluster, f"{TOPIC}-{number}", PARTITIONS) as topic:
                runs.append(catch_up(cluster, topic, missed_bytes))
    cost = figure("cost", "", [one.cpu_s / (one.copied_bytes / 1e9) for one in runs], "").value
    reference = f"{missed_bytes / 1e6:,.0f} MB missed, {cost:.1f} CPU-s per GB of all brokers"
    quiet = figure("quiet", "ms", [one.p99_quiet_ms for one in runs], "").value
    return [
        figure("catch-up", "MB/s", [one.mb_per_s for one in runs], reference, at_least(MB_PER_S_MIN)),
        figure(
            "ack p99 during a catch-up ÷ without", "×", [one.p99_growth for one in runs],
            f"1,000 msg/s; without {quiet:.2f} ms", at_most(P99_GROWTH_MAX),
        ),
    ]  # fmt: skip
