"""`format("penstock")`: the schema, and the factories of readers and writers. Never talks to a broker itself."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.spark.options import read_options

COLUMNS = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
HEADERS = StructField(
    "headers",
    ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
)


class PenstockSource(DataSource):
    """Topics as a table: the columns and options of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        with_headers = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return StructType([*COLUMNS, HEADERS] if with_headers else list(COLUMNS))

    def reader(self, schema: StructType) -> Any:
        from penstock.spark.reader import BatchReader

        return BatchReader(read_options(self.options, is_stream=False))

    def streamReader(self, schema: StructType) -> Any:
        from penstock.spark.stream import StreamReader

        return StreamReader(read_options(self.options, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from penstock.spark.sink import job_writer

        return job_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from penstock.spark.sink import query_writer

        return query_writer(self.options, schema)
