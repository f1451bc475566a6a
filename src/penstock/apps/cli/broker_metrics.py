"""Reads the metrics of brokers, in Prometheus' text format, and computes rates between two readings. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(?P<name>[a-zA-Z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class MetricSample(NamedTuple):
    """One value with its labels."""

    labels: dict[str, str]
    value: float


BrokerMetrics = Mapping[str, list[MetricSample]]
"""The samples of one broker by name."""


def parse_metrics(text: str, names: frozenset[str]) -> BrokerMetrics:
    """The samples of these names; lines that are none of them are skipped without being parsed further."""
    found: dict[str, list[MetricSample]] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name not in names:
            continue
        match = _SAMPLE.fullmatch(line)
        if match is None:
            continue
        labels = {
            one["name"]: re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), one["value"])
            for one in _LABEL.finditer(match["labels"] or "")
        }
        found.setdefault(name, []).append(MetricSample(labels, float(match["value"])))
    return found


CPU = "process_cpu_seconds_total"
MEMORY = "process_resident_memory_bytes"
CONNECTIONS = "penstock_connections"
REQUESTS = "penstock_request_seconds_count"
FSYNC_COUNT, FSYNC_SUM = "penstock_fsync_seconds_count", "penstock_fsync_seconds_sum"
BYTES_IN, BYTES_OUT = "penstock_topic_bytes_in_total", "penstock_topic_bytes_out_total"
HIGH_WATERMARK, START_OFFSET = "penstock_partition_high_watermark", "penstock_partition_start_offset"
SIZE = "penstock_partition_size_bytes"
LAG = "penstock_group_lag_records"

NAMES = frozenset(
    {
        CPU, MEMORY, CONNECTIONS, REQUESTS, FSYNC_COUNT, FSYNC_SUM, BYTES_IN, BYTES_OUT,
        HIGH_WATERMARK, START_OFFSET, SIZE, LAG,
    }
)  # fmt: skip
"""The metrics that `penstock top` shows."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The metrics of all brokers at one moment."""

    at_s: float
    brokers: Mapping[int, BrokerMetrics]

    def broker_total(self, broker_id: int, name: str) -> float:
        """The sum of all samples of one broker."""
        return sum(one.value for one in self.brokers.get(broker_id, {}).get(name, ()))

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """The sum over all brokers, by one label."""
        found: dict[str, float] = {}
        for metrics in self.brokers.values():
            for one in metrics.get(name, ()):
                found[one.labels[label]] = found.get(one.labels[label], 0.0) + one.value
        return found

    def by_copy(
        self, name: str, label: str, place: Callable[[dict[str, str]], tuple[str, ...]]
    ) -> dict[str, float]:
        """The same where several brokers tell about one thing: the largest value counts."""
        largest: dict[tuple[str, ...], tuple[str, float]] = {}
        for metrics in self.brokers.values():
            for one in metrics.get(name, ()):
                key = place(one.labels)
                known = largest.get(key)
                if known is None or one.value > known[1]:
                    largest[key] = (one.labels[label], one.value)
        found: dict[str, float] = {}
        for group, value in largest.values():
            found[group] = found.get(group, 0.0) + value
        return found


def _partition(labels: dict[str, str]) -> tuple[str, ...]:
    return labels["topic"], labels["partition"]


def _group_partition(labels: dict[str, str]) -> tuple[str, ...]:
    return labels["group"], labels["topic"], labels["partition"]


def load_content(before: Reading, now: Reading) -> dict[str, object]:
    """What happened between two readings. Counters that started again, with their broker, count as no change."""
    seconds = max(now.at_s - before.at_s, 1e-9)

    def per_s(new: float, old: float) -> float:
        return round(max(0.0, new - old) / seconds, 1)

    return {
        "seconds": round(seconds, 1),
        "brokers": [_broker_load(one, before, now, per_s, seconds) for one in sorted(now.brokers)],
        "topics": _topic_load(before, now, per_s),
        "groups": _group_load(before, now, seconds),
    }


def _broker_load(
    broker_id: int, before: Reading, now: Reading, per_s: Callable[[float, float], float], seconds: float
) -> dict[str, object]:
    def new(name: str) -> float:
        return now.broker_total(broker_id, name)

    def old(name: str) -> float:
        return before.broker_total(broker_id, name) if broker_id in before.brokers else new(name)

    flushes = new(FSYNC_COUNT) - old(FSYNC_COUNT)
    return {
        "id": broker_id,
        "cpu_percent": round(100 * max(0.0, new(CPU) - old(CPU)) / seconds, 1),
        "memory_bytes": int(new(MEMORY)),
        "connections": int(new(CONNECTIONS)),
        "requests_per_s": per_s(new(REQUESTS), old(REQUESTS)),
        "bytes_in_per_s": per_s(new(BYTES_IN), old(BYTES_IN)),
        "bytes_out_per_s": per_s(new(BYTES_OUT), old(BYTES_OUT)),
        "fsync_ms": round(1000 * (new(FSYNC_SUM) - old(FSYNC_SUM)) / flushes, 2) if flushes > 0 else None,
    }


def _topic_load(
    before: Reading, now: Reading, per_s: Callable[[float, float], float]
) -> list[dict[str, object]]:
    ends, earlier = (one.by_copy(HIGH_WATERMARK, "topic", _partition) for one in (now, before))
    starts, sizes = (now.by_copy(name, "topic", _partition) for name in (START_OFFSET, SIZE))
    flows = [(one.by_label(BYTES_IN, "topic"), one.by_label(BYTES_OUT, "topic")) for one in (now, before)]
    return [
        {
            "topic": topic,
            "records_in_per_s": per_s(end, earlier.get(topic, end)),
            "bytes_in_per_s": per_s(flows[0][0].get(topic, 0), flows[1][0].get(topic, 0)),
            "bytes_out_per_s": per_s(flows[0][1].get(topic, 0), flows[1][1].get(topic, 0)),
            "records": int(end - starts.get(topic, 0)),
            "bytes": int(sizes.get(topic, 0)),
        }
        for topic, end in sorted(ends.items())
        if not topic.startswith("__")
    ]


def _group_load(before: Reading, now: Reading, seconds: float) -> list[dict[str, object]]:
    earlier = before.by_copy(LAG, "group", _group_partition)
    return [
        {
            "group": group,
            "lag": int(lag),
            "lag_change_per_s": round((lag - earlier.get(group, lag)) / seconds, 1),
        }
        for group, lag in sorted(now.by_copy(LAG, "group", _group_partition).items())
    ]
