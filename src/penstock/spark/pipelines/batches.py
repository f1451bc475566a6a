"""Processes one batch of a pipeline: decode, steps, outputs. Idempotent: a replayed batch changes nothing.

Spark pickles the writer (`foreachBatch`) and with Spark Connect sends it to another process, so it holds plain values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.errors import BadRows
from penstock.spark.lake.port import CommitMark
from penstock.spark.pipelines import dead_letters, routes
from penstock.spark.pipelines.conflicts import dead_target
from penstock.spark.pipelines.ddl import split_columns
from penstock.spark.pipelines.decoder import ERROR, decode
from penstock.spark.pipelines.definition import Pipeline, Window
from penstock.spark.pipelines.keys import with_key_columns
from penstock.spark.pipelines.outputs import TableOutput, TopicOutput, to_records, to_table_rows
from penstock.spark.pipelines.steps import apply_steps, last_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

BAD_ROWS_SHOWN_MAX = 5


@dataclass(frozen=True)
class BatchWriter:
    """Everything a batch needs. `app` identifies pipeline and state directory and is part of every mark."""

    pipeline: Pipeline
    home: Path
    app: str
    topic_options: Mapping[str, str]
    checkpoint: Path

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        if self.pipeline.keeps_state:
            self._write_routes(batch, batch_id)
        else:
            self.write_records(batch, batch_id)

    def write_records(self, records: DataFrame, batch_id: int) -> None:
        """Process a batch of source records."""
        from pyspark.sql import functions as F
        from pyspark.sql.observation import Observation

        decoded = self.decoded(records)
        self._refuse_bad(decoded)
        observation = Observation()
        is_bad = F.col(ERROR).isNotNull()
        watched = decoded.observe(observation, F.count_if(is_bad).alias("bad"))
        good = apply_steps(watched.where(~is_bad), self.pipeline.steps, self.home)
        was_written = self._write_main(good, batch_id)
        # A step may leave rows unread (a limit, a pushed-down filter), so the count is exact only without steps.
        is_exact = was_written and not self.pipeline.steps
        if self.has_dead_letters and not (is_exact and observation.get.get("bad") == 0):
            self._write_dead(decoded.where(is_bad), batch_id)

    def stream(self, records: DataFrame) -> DataFrame:
        """The stream of a stateful pipeline: every step is part of the streaming query."""
        from pyspark.sql import functions as F

        decoded = self.decoded(records)
        is_bad = F.col(ERROR).isNotNull()
        good = decoded.where(~is_bad)
        found = {routes.MAIN: apply_steps(good, self.pipeline.steps, self.home)}
        if self.has_dead_letters or self.pipeline.decode.bad_rows == "fail":
            found[routes.BAD] = decoded.where(is_bad)
        for index, step in enumerate(self.pipeline.steps):
            if step.window and step.window.late:
                before = apply_steps(good, self.pipeline.steps[:index], self.home)
                found[routes.LATE] = before.withColumn(routes.LAST_END, last_end(step.window))
        return routes.union_of(found)

    @property
    def has_dead_letters(self) -> bool:
        return dead_target(self.pipeline) is not None

    def decoded(self, records: DataFrame) -> DataFrame:
        """Decoded columns, origin, raw bytes and errors."""
        sink, how = self.pipeline.sink, self.pipeline.decode
        is_upsert = sink.mode == "upsert"
        rows = decode(records, how, self.home, is_upsert, self._known(how.schema))
        return with_key_columns(rows, sink.key) if is_upsert else rows

    def _known(self, schema: str | None) -> StructType | None:
        if schema != "infer" or self.pipeline.sink.table is None:
            return None
        table = self._table(self.pipeline.sink.table, self.pipeline.sink.format).table()
        if not table.exists():
            return None
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(table.schema())

    def _refuse_bad(self, decoded: DataFrame) -> None:
        if self.pipeline.decode.bad_rows != "fail":
            return
        bad = dead_letters.explained(decoded.where(f"{ERROR} is not null"), self._columns())
        found = bad.select("_topic", "_partition", "_offset", ERROR).limit(BAD_ROWS_SHOWN_MAX).collect()
        if found:
            shown = "; ".join(f"{row[0]}-{row[1]} at offset {row[2]}: {row[3]}" for row in found)
            raise BadRows(
                f"{self.pipeline.name}: rows cannot be decoded: {shown}. "
                "Fix their producer, or send them to dead letters with decode.bad_rows: dead_letter."
            )

    def _columns(self) -> list[str]:
        """`name type` of each column of the schema, for error messages."""
        schema = self.pipeline.decode.schema
        return [] if schema in (None, "infer") else [part.lower() for part in split_columns(schema or "")]

    def _write_main(self, rows: DataFrame, batch_id: int) -> bool:
        sink, mark = self.pipeline.sink, CommitMark(self.app, batch_id)
        if sink.topic is not None:
            options = {**self.topic_options, **sink.options}
            TopicOutput(sink.topic, options).write(to_records(rows, sink), mark)
            return True
        assert sink.table is not None
        output = self._table(sink.table, sink.format, sink.partition_by)
        if sink.mode == "upsert":
            output.merge(rows, sink, mark)
            return False
        is_raw = self.pipeline.decode.format == "raw"
        return output.write(to_table_rows(rows, sink, is_raw=is_raw), mark)

    def _write_dead(self, bad: DataFrame, batch_id: int) -> None:
        how = self.pipeline.decode
        explained = dead_letters.explained(bad, self._columns()) if how.format == "json" else bad
        mark = CommitMark(f"{self.app}:dead", batch_id)
        target = dead_target(self.pipeline)
        assert target is not None
        if target.table is not None:
            rows = dead_letters.as_rows(explained, self.pipeline.name)
            self._table(target.table, target.format).write(rows, mark)
        else:
            records = dead_letters.as_records(explained, self.pipeline.name)
            assert target.topic is not None
            TopicOutput(target.topic, self.topic_options).write(records, mark)

    def _write_routes(self, batch: DataFrame, batch_id: int) -> None:
        cached = batch.persist()
        try:
            if routes.BAD in batch.columns:
                bad = routes.taken(cached, routes.BAD)
                self._refuse_bad(bad)
                if self.has_dead_letters:
                    self._write_dead(bad, batch_id)
            late = next(
                (step.window for step in self.pipeline.steps if step.window and step.window.late), None
            )
            if late is not None:
                self._write_late(routes.taken(cached, routes.LATE), late, batch_id)
            self._write_main(routes.taken(cached, routes.MAIN), batch_id)
        finally:
            cached.unpersist()

    def _write_late(self, rows: DataFrame, window: Window, batch_id: int) -> None:
        from pyspark.sql import functions as F

        watermark_ms = watermark_before(self.checkpoint, batch_id)
        limit = F.timestamp_millis(F.lit(watermark_ms))
        late = rows.where(F.col(routes.LAST_END) <= limit).drop(routes.LAST_END)
        mark, target = CommitMark(f"{self.app}:late", batch_id), window.late
        assert target is not None
        if target.table is not None:
            self._table(target.table, target.format).write(late, mark)
        else:
            assert target.topic is not None
            TopicOutput(target.topic, self.topic_options).write(to_records(late, self.pipeline.sink), mark)

    def _table(self, table: str, format_name: str, partition_by: tuple[str, ...] = ()) -> TableOutput:
        return TableOutput((self.home / table).resolve(), format_name, partition_by)


def watermark_before(checkpoint: Path, batch_id: int) -> int:
    """The watermark that Spark applies to late rows of this batch: the one the previous batch was planned with."""
    if batch_id == 0:
        return 0
    log = (checkpoint / "offsets" / str(batch_id - 1)).read_text("utf-8").splitlines()
    return int(json.loads(log[1])["batchWatermarkMs"])
