"""Progress of a running pipeline, from Spark's progress reports. Never calls the broker, never prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FROM = "#from"
"""Key of the source's start offsets inside an end offset."""


@dataclass(frozen=True)
class Progress:
    """A snapshot of one pipeline."""

    pipeline: str
    state: str
    batch: int = -1
    rows: int = 0
    rows_total: int = 0
    rows_per_s: float = 0.0
    batch_ms: int = 0
    lag: Mapping[str, int] = field(default_factory=dict)
    state_rows: int = 0
    state_bytes: int = 0
    watermark: str = ""
    error: str = ""
    """Reason of the last failure; stays after a restart."""
    failed_at: str = ""
    restarts: int = 0
    since: str = ""
    """When it entered its state."""

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def rows_in(report: Mapping[str, Any]) -> int:
    """Number of offsets in the batch. Spark's own count includes rows twice that are read for two outputs."""
    return sum(_covered(source) for source in _sources(report))


def _sources(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The report of the pipeline's only source. A stream with several routes reads it once per route, and Spark reports
    each of them: the first one is the main route."""
    return list(report.get("sources") or [])[:1]


def _covered(source: Mapping[str, Any]) -> int:
    """Zero for a batch that only advances the watermark: it ends where it starts, even if its end has start offsets."""
    if source.get("startOffset") is not None and source.get("startOffset") == source.get("endOffset"):
        return 0
    ends = _offsets(source.get("endOffset"))
    begins = _offsets(source.get("startOffset"))
    for topic, firsts in _offsets(_first_offsets(source.get("endOffset"))).items():
        begins[topic] = {**begins.get(topic, {}), **firsts}
    if not ends or any(number not in begins.get(topic, {}) for topic in ends for number in ends[topic]):
        return int(source.get("numInputRows") or 0)
    return sum(end - begins[topic][number] for topic in ends for number, end in ends[topic].items())


def _first_offsets(report: Any) -> Any:
    """Start offsets of partitions that are new in this batch: the source stores them in the end offset."""
    plain = json.loads(report) if isinstance(report, str) and report.startswith("{") else report
    return plain.get(FROM) if isinstance(plain, Mapping) else None


def read_progress(pipeline: str, report: Mapping[str, Any] | None, rows_total: int, state: str) -> Progress:
    """Translate Spark's last progress report; `rows_total` covers all batches so far."""
    if report is None:
        return Progress(pipeline, state, rows_total=rows_total)
    operators = report.get("stateOperators") or []
    rows = rows_in(report)
    batch_ms = int((report.get("durationMs") or {}).get("triggerExecution", 0))
    return Progress(
        pipeline=pipeline,
        state=state,
        batch=int(report.get("batchId", -1)),
        rows=rows,
        rows_total=rows_total,
        rows_per_s=round(rows * 1000 / batch_ms, 1) if batch_ms else 0.0,
        batch_ms=batch_ms,
        lag=_lag(_sources(report)),
        state_rows=sum(operator.get("numRowsTotal") or 0 for operator in operators),
        state_bytes=sum(operator.get("memoryUsedBytes") or 0 for operator in operators),
        watermark=(report.get("eventTime") or {}).get("watermark", ""),
    )


def _lag(sources: list[Mapping[str, Any]]) -> dict[str, int]:
    """Unread records of each topic."""
    found: dict[str, int] = {}
    for source in sources:
        latest, done = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        for topic, partitions in latest.items():
            behind = sum(
                max(0, end - done.get(topic, {}).get(number, 0)) for number, end in partitions.items()
            )
            found[topic] = found.get(topic, 0) + behind
    return found


def _offsets(report: Any) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, from the JSON text or mapping that Spark reports."""
    if isinstance(report, str):
        try:
            report = json.loads(report)
        except ValueError:
            return {}
    if not isinstance(report, Mapping):
        return {}
    return {
        topic: {str(number): int(offset) for number, offset in partitions.items()}
        for topic, partitions in report.items()
        if isinstance(partitions, Mapping) and all(isinstance(one, int) for one in partitions.values())
    }
