"""Writes the rows of one batch to a topic or a table, exactly once however often the batch is replayed."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.lake.files import COPY_PREFIX, staged_files, staged_schema
from penstock.spark.lake.port import CommitMark, LakeTable, Merge
from penstock.spark.lake.tables import open_table
from penstock.spark.pipelines.decoder import DATE, ERROR, RAW
from penstock.spark.pipelines.definition import SinkDefinition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_GONE = "_gone"
_RECORD = ("topic", "key", "value", "headers", "partition", "timestamp")


@dataclass(frozen=True)
class TopicOutput:
    """A topic: the sink commits the batch under the name of the pipeline and the batch number."""

    topic: str
    options: Mapping[str, str]

    def write(self, records: DataFrame, mark: CommitMark) -> None:
        """Write rows with `key`, `value` and optionally the other columns of a record."""
        writer = records.write.format("penstock").options(**self.options)
        writer = writer.option("topic", self.topic)
        writer.option("txnAppId", mark.app).option("txnVersion", str(mark.batch)).mode("append").save()


def to_records(rows: DataFrame, sink: SinkDefinition) -> DataFrame:
    """Rows as records: all columns without leading _ as JSON, or `value` unchanged."""
    from pyspark.sql import functions as F

    if sink.value == "raw":
        key = [F.col(sink.key[0]).cast("binary").alias("key")] if sink.key else []
        names = [
            name
            for name in _RECORD
            if name in rows.columns and name != "topic" and not (key and name == "key")
        ]
        return rows.select(*key, *names)
    columns = [F.col(f"`{name}`") for name in rows.columns if not name.startswith("_")]
    key_column: Column = F.col(sink.key[0]) if sink.key else F.lit(None)
    if not sink.key and "_key" in rows.columns:
        key_column = F.col("_key")
    return rows.select(
        key_column.cast("string" if sink.key else "binary").cast("binary").alias("key"),
        F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}).cast("binary").alias("value"),
    )


@dataclass(frozen=True)
class TableOutput:
    """A table: Spark tasks write the files, the driver commits them together with the batch's mark."""

    place: Path
    format: str
    partition_by: tuple[str, ...] = ()

    def table(self) -> LakeTable:
        return open_table(self.place, self.format)

    def write(self, rows: DataFrame, mark: CommitMark) -> bool:
        """Append the rows. False if the table already contains the batch."""
        table = self.table()
        if _is_done(table, mark):
            return False
        directory = self._stage(table, rows, mark)
        files, schema = staged_files(self.place, directory), staged_schema(directory)
        if files and schema is not None:
            table.append(files, schema, self.partition_by, mark)
        else:
            shutil.rmtree(directory, ignore_errors=True)
        return True

    def merge(self, rows: DataFrame, sink: SinkDefinition, mark: CommitMark) -> None:
        """Apply the last change of each key in this batch."""
        table = self.table()
        if _is_done(table, mark):
            return
        directory = self._stage(table, last_changes(rows, sink), mark)
        try:
            import pyarrow.dataset as ds

            if staged_files(self.place, directory):
                changes = ds.dataset(directory, format="parquet").scanner().to_reader()
                table.merge(changes, Merge(sink.key, _GONE), mark)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _stage(self, table: LakeTable, rows: DataFrame, mark: CommitMark) -> Path:
        """Write uncommitted files. Each attempt has its own directory, so files of a failed one are never committed."""
        from pyspark.sql import functions as F

        directory = self.place / table.staging / f"batch-{mark.batch}-{uuid.uuid4().hex}"
        for name in self.partition_by:
            rows = rows.withColumn(COPY_PREFIX + name, F.col(f"`{name}`"))
        rows.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        writer = rows.write.mode("error").option("compression", "zstd")
        writer.partitionBy(*[COPY_PREFIX + name for name in self.partition_by]).parquet(str(directory))
        return directory


def _is_done(table: LakeTable, mark: CommitMark) -> bool:
    done = table.recorded(mark.app)
    return done is not None and done >= mark.batch


def to_table_rows(rows: DataFrame, sink: SinkDefinition, *, is_raw: bool) -> DataFrame:
    """Rows with the columns of the table: origin always, raw bytes if requested, the date if partitioned by it."""
    from pyspark.sql import functions as F

    dropped = [ERROR] if sink.keep_raw or is_raw else [ERROR, *RAW]
    rows = rows.drop(*dropped)
    if DATE in sink.partition_by and DATE not in rows.columns:
        rows = rows.withColumn(DATE, F.to_date("_timestamp"))
    return rows


def last_changes(rows: DataFrame, sink: SinkDefinition) -> DataFrame:
    """The last change of each key, with a deletion flag. A key is in one partition: its highest offset wins."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    gone = (
        F.coalesce(F.expr(sink.delete_when).try_cast("boolean"), F.lit(False))
        if sink.delete_when
        else F.lit(False)
    )
    if "_value" in rows.columns:
        gone = gone | F.col("_value").isNull()
    if "_offset" in rows.columns:
        latest = Window.partitionBy(*sink.key).orderBy(F.col("_offset").desc())
        ranked = rows.withColumn(_GONE, gone).withColumn("_rank", F.row_number().over(latest))
        rows = ranked.where("_rank = 1").drop("_rank")
    else:
        rows = rows.withColumn(_GONE, gone)
    return rows.drop(*RAW, ERROR)
