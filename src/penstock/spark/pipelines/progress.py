"""How a running pipeline is doing, from what Spark tells about its batches. Never asks the broker, never prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

FROM = "#from"
"""The source's own word inside an end offset."""


@dataclass(frozen=True)
class Progress:
    """One look at one pipeline."""

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
    """Why it failed last; stays when it runs again."""
    failed_at: str = ""
    restarts: int = 0
    since: str = ""
    """When it came into its state."""

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def rows_in(told: Mapping[str, Any]) -> int:
    """Offsets that the batch of a report covers. Spark's own count has rows twice that were read for two outputs."""
    return sum(_covered(source) for source in _sources(told))


def _sources(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What tells of the pipeline's one source. A stream whose rows go several ways reads it once for each of them, and
    Spark reports every one: the first is that of the rows themselves."""
    return list(told.get("sources") or [])[:1]


def _covered(source: Mapping[str, Any]) -> int:
    """None in a batch that only moves the watermark: it ends where it starts, whatever its end says of a beginning."""
    if source.get("startOffset") is not None and source.get("startOffset") == source.get("endOffset"):
        return 0
    ends = _offsets(source.get("endOffset"))
    begins = _offsets(source.get("startOffset"))
    for topic, firsts in _offsets(_first_offsets(source.get("endOffset"))).items():
        begins[topic] = {**begins.get(topic, {}), **firsts}
    if not ends or any(number not in begins.get(topic, {}) for topic in ends for number in ends[topic]):
        return int(source.get("numInputRows") or 0)
    return sum(end - begins[topic][number] for topic in ends for number, end in ends[topic].items())


def _first_offsets(told: Any) -> Any:
    """Where partitions begin that a batch is the first to read: the source notes it beside the end."""
    plain = json.loads(told) if isinstance(told, str) and told.startswith("{") else told
    return plain.get(FROM) if isinstance(plain, Mapping) else None


def read_progress(pipeline: str, told: Mapping[str, Any] | None, rows_total: int, state: str) -> Progress:
    """What the last progress report of Spark means; `rows_total` is the count of all batches so far."""
    if told is None:
        return Progress(pipeline, state, rows_total=rows_total)
    operators = told.get("stateOperators") or []
    rows = rows_in(told)
    batch_ms = int((told.get("durationMs") or {}).get("triggerExecution", 0))
    return Progress(
        pipeline=pipeline,
        state=state,
        batch=int(told.get("batchId", -1)),
        rows=rows,
        rows_total=rows_total,
        rows_per_s=round(rows * 1000 / batch_ms, 1) if batch_ms else 0.0,
        batch_ms=batch_ms,
        lag=_lag(_sources(told)),
        state_rows=sum(operator.get("numRowsTotal") or 0 for operator in operators),
        state_bytes=sum(operator.get("memoryUsedBytes") or 0 for operator in operators),
        watermark=(told.get("eventTime") or {}).get("watermark", ""),
    )


def _lag(sources: list[Mapping[str, Any]]) -> dict[str, int]:
    """Records behind the end of each topic."""
    found: dict[str, int] = {}
    for source in sources:
        latest, done = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
        for topic, partitions in latest.items():
            behind = sum(
                max(0, end - done.get(topic, {}).get(number, 0)) for number, end in partitions.items()
            )
            found[topic] = found.get(topic, 0) + behind
    return found


def _offsets(told: Any) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, from the text or the mapping that Spark hands on."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return {}
    if not isinstance(told, Mapping):
        return {}
    return {
        topic: {str(number): int(offset) for number, offset in partitions.items()}
        for topic, partitions in told.items()
        if isinstance(partitions, Mapping) and all(isinstance(one, int) for one in partitions.values())
    }
