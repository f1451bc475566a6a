"""Reads the rows of a table as records again, in numbered pieces by offset. Never reads a topic.

The pieces are offset spans, persisted before the first one is processed: an interrupted run continues with the same
pieces under the same numbers, so none is processed twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark.errors import ProjectProblem, WrongDefinition
from penstock.spark.lake.port import LakeTable, Spans
from penstock.spark.lake.tables import open_table
from penstock.spark.pipelines.batches import BatchWriter
from penstock.spark.pipelines.decoder import HEADERS_TYPE, ORIGIN, RAW
from penstock.spark.pipelines.definition import Pipeline
from penstock.spark.pipelines.state import PipelineState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE = "history.json"


def run_history(
    spark: SparkSession,
    pipeline: Pipeline,
    home: Path,
    state: PipelineState,
    writer: BatchWriter,
    closing: threading.Event,
) -> Spans | None:
    """Process a table's rows; returns the offsets at which the topic continues."""
    history = pipeline.source.history
    if history is None:
        return None
    table = open_existing((home / history.table).resolve(), history.format, needs_raw=True)
    plan = ReplayPlan.load(state, _FILE) or ReplayPlan.make(
        state, _FILE, table.spans(), history.rows_per_batch_max
    )
    past = replace(writer, app=f"{writer.app}:history")
    for number, piece in plan.left():
        if closing.is_set():
            break
        past.write_records(as_source(spark, table, piece), number)
        plan.done(number)
    return plan.spans


def open_existing(place: Path, format_name: str, *, needs_raw: bool) -> LakeTable:
    """Open a table that can be read back as records. Raises WrongDefinition."""
    table = open_table(place, format_name)
    if not table.exists():
        raise WrongDefinition(
            [
                ProjectProblem(
                    str(place), f"there is no {format_name} table.", "Run the pipeline that writes it."
                )
            ]
        )
    needed = [*ORIGIN, *RAW] if needs_raw else list(ORIGIN)
    missing = [name for name in needed if name not in table.schema().names]
    if missing:
        what = f"the table has no {', '.join(missing)}."
        raise WrongDefinition(
            [
                ProjectProblem(
                    str(place), what, "Write it with sink.keep_raw: true to store keys, values and headers."
                )
            ]
        )
    return table


def as_source(spark: SparkSession, table: LakeTable, piece: Spans) -> DataFrame:
    """Rows of the table, with the columns of the topic source."""
    rows = table.between(piece, [*ORIGIN, *RAW])
    renamed = rows.rename_columns([name.removeprefix("_") for name in rows.column_names])
    schema = (
        "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
        f"headers {HEADERS_TYPE}"
    )
    return spark.createDataFrame(renamed, schema)


class ReplayPlan:
    """The pieces of a replay and its progress, persisted in the pipeline's state directory."""

    def __init__(self, state: PipelineState, file: str, content: dict[str, Any]) -> None:
        self._state = state
        self._file = file
        self._content = content
        self.spans: Spans = {
            (topic, partition): (low, high) for topic, partition, low, high in content["spans"]
        }

    @classmethod
    def load(cls, state: PipelineState, file: str) -> ReplayPlan | None:
        content = state.read(file)
        return None if content is None else cls(state, file, content)

    @classmethod
    def make(cls, state: PipelineState, file: str, spans: Spans, rows_max: int) -> ReplayPlan:
        flat = [[*place, *span] for place, span in spans.items()]
        plan = cls(state, file, {"spans": flat, "rows_max": rows_max, "next": 0})
        state.write(file, plan._content)
        return plan

    def left(self) -> Iterator[tuple[int, Spans]]:
        """The remaining pieces, with their numbers."""
        for number, piece in enumerate(pieces(self.spans, self._content["rows_max"])):
            if number >= self._content["next"]:
                yield number, piece

    def done(self, number: int) -> None:
        self._content["next"] = number + 1
        self._state.write(self._file, self._content)

    @property
    def count(self) -> int:
        return sum(1 for _ in pieces(self.spans, self._content["rows_max"]))


def pieces(spans: Spans, rows_max: int) -> Iterator[Spans]:
    """Split spans into pieces of at most `rows_max` offsets; all partitions advance together."""
    step = max(1, rows_max // max(1, len(spans)))
    number = 0
    while True:
        piece = {
            place: (low + number * step, min(high, low + (number + 1) * step))
            for place, (low, high) in spans.items()
            if low + number * step < high
        }
        if not piece:
            return
        yield piece
        number += 1
