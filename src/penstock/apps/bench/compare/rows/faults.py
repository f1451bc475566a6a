"""Rows over three brokers that fail: a killed leader, a rolling restart, a replica that catches up."""

from __future__ import annotations

from statistics import median

from penstock.apps.bench.compare.drivers.replicated import replicated_topic
from penstock.apps.bench.compare.faults.catch_up import catch_up
from penstock.apps.bench.compare.faults.leader_kill import leader_kills_s
from penstock.apps.bench.compare.faults.rolling_restart import rolling_restart
from penstock.apps.bench.compare.rows.replicated import PARTITIONS, ingest
from penstock.apps.bench.compare.rows.streams import KB
from penstock.apps.bench.compare.runs.row import Row, RowLine
from penstock.apps.bench.compare.runs.row_runner import RunContext, RunResult

KILLS, QUICK_KILLS = 3, 2
MISSED_BYTES, QUICK_MISSED_BYTES = 1_000_000_000, 100_000_000
FAILOVER_S, FAILOVER_S_MAX = 1.0, 3.0
PAUSE_MS_MAX = 500.0
MB_PER_S_MIN = 100.0
P99_GROWTH_MAX = 3.0


def _failover(context: RunContext) -> RunResult:
    """The CPU time is that of a failover, until the broker is in sync again."""
    kills = context.runner.pick(KILLS, QUICK_KILLS)
    with (
        replicated_topic(context.cluster, context.runner.new_name(), 1) as topic,
        context.cpu_time() as spent,
    ):
        times_s = list(leader_kills_s(context.cluster, topic, kills))
    return RunResult((median(times_s), max(times_s)), kills, spent.cpu_s)


def _rolling(context: RunContext) -> RunResult:
    with (
        replicated_topic(context.cluster, context.runner.new_name(), PARTITIONS) as topic,
        context.cpu_time() as spent,
    ):
        found = rolling_restart(context.cluster, topic)
    return RunResult((found.pause_ms, float(found.errors)), found.messages, spent.cpu_s)


def _catch_up(context: RunContext) -> RunResult:
    missed_bytes = context.runner.pick(MISSED_BYTES, QUICK_MISSED_BYTES)
    with replicated_topic(context.cluster, context.runner.new_name(), PARTITIONS) as topic:
        found = catch_up(context.cluster, topic, missed_bytes)
    return RunResult((found.mb_per_s, found.p99_growth), found.copied_bytes // KB, found.cpu_s)


FAILOVER = Row(
    "failover",
    (
        RowLine("18", "RF 3: leader killed with -9, until a waiting write with acks=all succeeds", "s", False,
                over={"Kafka": 1.0}, bound_max=FAILOVER_S),
        RowLine("18b", "RF 3: leader killed with -9, the worst of all kills", "s", False,
                over={"Kafka": 1.0}, bound_max=FAILOVER_S_MAX, is_worst=True),
    ),
    _failover, 0, warm_with=ingest,
)  # fmt: skip
ROLLING = Row(
    "rolling restart",
    (
        RowLine("19", "RF 3: rolling restart at 1,000 msg/s, longest wait of a write", "ms", False,
                over={"Kafka": 1.0}, bound_max=PAUSE_MS_MAX, is_worst=True),
        RowLine("19b", "RF 3: rolling restart at 1,000 msg/s, failed writes", "messages", False,
                bound_max=0.0, is_worst=True),
    ),
    _rolling, KB, warm_with=ingest,
)  # fmt: skip
CATCH_UP = Row(
    "catch-up",
    (
        RowLine("20", "RF 3: catch-up of a replica that missed 1 GB", "MB/s", True,
                over={"Kafka": 1.0}, bound_min=MB_PER_S_MIN),
        RowLine("20b", "RF 3: ack p99 at 1,000 msg/s during a catch-up ÷ without", "×", False,
                bound_max=P99_GROWTH_MAX),
    ),
    _catch_up, KB, warm_with=ingest,
)  # fmt: skip
