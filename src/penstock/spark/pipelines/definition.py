"""The definition of a pipeline: source, decoding, steps and sink.

These dataclasses are the grammar of both the YAML file and the Python API. Never imports Spark, so that a definition
can be checked without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.spark.pipelines.locations import Locations
from penstock.spark.pipelines.shapes import (
    count,
    duration,
    function,
    item,
    listed,
    names,
    nested,
    one_of,
    pairs,
    restarts,
    switch,
    text,
)

LAKE_FORMATS = ("delta", "iceberg", "parquet")


@dataclass(frozen=True, kw_only=True)
class SideTarget:
    """A topic or table for dead letters or late rows."""

    topic: str | None = item(text, "the topic for these rows", default=None)
    table: str | None = item(text, "the directory of the table for these rows", default=None)
    format: str = item(one_of(*LAKE_FORMATS), "the format of that table", default="delta")


@dataclass(frozen=True, kw_only=True)
class History:
    """A table to read first; the topic continues at the offset where the table ends."""

    table: str = item(text, "the directory of the table")
    format: str = item(one_of(*LAKE_FORMATS), "the format of the table", default="delta")
    rows_per_batch_max: int = item(count, "the maximum number of rows in a batch of history", default=100_000)


@dataclass(frozen=True, kw_only=True)
class SourceDefinition:
    """The topics to read."""

    topics: tuple[str, ...] = item(names, "the topics to read", default=())
    pattern: str | None = item(text, "a regular expression that matches the topics to read", default=None)
    start: str = item(one_of("earliest", "latest"), "where the first run starts", default="earliest")
    rows_per_batch_max: int | None = item(count, "the maximum number of records in a batch", default=None)
    bytes_per_batch_max: int | None = item(count, "the maximum number of bytes in a batch", default=None)
    history: History | None = item(nested(History), "a table to read before the topics", default=None)
    options: dict[str, str] = item(
        pairs, "further options of the source, such as kafka.*", default_factory=dict
    )


@dataclass(frozen=True, kw_only=True)
class Decode:
    """How a record's value is decoded to columns, and what happens to bad rows."""

    format: str = item(one_of("json", "avro", "raw"), "the format of values", default="json")
    schema: str | None = item(text, "the columns, as in `id bigint, name string`, or `infer`", default=None)
    schema_file: str | None = item(text, "a file with an Avro schema", default=None)
    key_schema_file: str | None = item(
        text, "a file with the Avro schema of keys, for an upsert", default=None
    )
    framing: str = item(one_of("none", "confluent"), "the prefix of an Avro value or key", default="none")
    required: tuple[str, ...] = item(names, "columns that must have a value", default=())
    expect: dict[str, str] = item(pairs, "named conditions that every row must satisfy", default_factory=dict)
    bad_rows: str = item(
        one_of("dead_letter", "fail"), "what happens to rows that cannot be decoded", default="dead_letter"
    )
    dead_letters: SideTarget | None = item(
        nested(SideTarget), "where bad rows go; `<topic>.dlq` by default", default=None
    )


@dataclass(frozen=True, kw_only=True)
class Dedup:
    """Drops duplicate rows within the watermark."""

    by: tuple[str, ...] = item(names, "the columns that identify a duplicate")
    time: str = item(text, "the column with the time of the event", default="_timestamp")
    within: int = item(duration, "the maximum time between two duplicates")


@dataclass(frozen=True, kw_only=True)
class Window:
    """Aggregates rows by time window."""

    time: str = item(text, "the column with the time of the event", default="_timestamp")
    size: int | None = item(duration, "the length of a window", default=None)
    slide: int | None = item(
        duration, "the distance between window starts; the size by default", default=None
    )
    gap: int | None = item(duration, "the inactivity that ends a session", default=None)
    watermark: int = item(duration, "how late a row may be")
    by: tuple[str, ...] = item(names, "columns to group by", default=())
    compute: dict[str, str] = item(pairs, "result columns with their SQL, as in `sum(amount)`")
    emit: str = item(
        one_of("final", "updates"), "each window once when it closes, or on every change", default="final"
    )
    late: SideTarget | None = item(nested(SideTarget), "where late rows go", default=None)


@dataclass(frozen=True, kw_only=True)
class Stateful:
    """A Python function with state per key."""

    by: tuple[str, ...] = item(names, "the key columns")
    function: str = item(text, "the function, as module:name")
    schema: str = item(text, "the columns it returns")
    state: str = item(text, "the columns of its state")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One transformation; exactly one of these keys is set."""

    sql: str | None = item(text, "a query over the table `input`", default=None)
    python: Any = item(function, "a function, as module:name", default=None)
    dedup: Dedup | None = item(nested(Dedup), "drop duplicates", default=None)
    window: Window | None = item(nested(Window), "aggregate by time window", default=None)
    stateful: Stateful | None = item(nested(Stateful), "a function with state per key", default=None)

    @property
    def keeps_state(self) -> bool:
        return bool(self.dedup or self.window or self.stateful)


@dataclass(frozen=True, kw_only=True)
class SinkDefinition:
    """The topic or table to write to."""

    topic: str | None = item(text, "the topic to write to", default=None)
    value: str = item(
        one_of("json", "raw"), "columns as JSON, or the column `value` unchanged", default="json"
    )
    table: str | None = item(text, "the directory of the table to write to", default=None)
    format: str = item(one_of(*LAKE_FORMATS), "the format of the table", default="delta")
    mode: str = item(one_of("append", "upsert"), "add rows, or keep one row per key", default="append")
    key: tuple[str, ...] = item(
        names, "the column with the record's key, or the key columns of an upsert", default=()
    )
    delete_when: str | None = item(text, "the condition that deletes a key's row", default=None)
    partition_by: tuple[str, ...] = item(
        names, "the partition columns of the table; `_date` is the record's date", default=()
    )
    keep_raw: bool = item(switch, "store original key, value and headers, for replay", default=False)
    expire_after: int | None = item(duration, "`compact` deletes rows older than this", default=None)
    options: dict[str, str] = item(pairs, "further options of the topic sink", default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """One stream from source to sink. `name` also names its state directory."""

    name: str = item(text, "the name")
    source: SourceDefinition = item(nested(SourceDefinition), "the topics to read")
    decode: Decode = item(nested(Decode), "how values are decoded", default=Decode())
    steps: tuple[Step, ...] = item(listed(Step), "transformations of the rows", default=())
    sink: SinkDefinition = item(nested(SinkDefinition), "the topic or table to write to")
    trigger: int = item(duration, "the interval between batches", default=1_000)
    max_restarts: int | None = item(
        restarts, "the maximum number of restarts after failures, or `unlimited`", default=10
    )

    @property
    def keeps_state(self) -> bool:
        return any(step.keeps_state for step in self.steps)

    @property
    def kind(self) -> str:
        """A short description of its purpose, for `penstock pipeline list`."""
        if self.source.history:
            return "replay"
        if self.keeps_state:
            return "aggregate"
        if self.sink.mode == "upsert":
            return "upsert"
        return "lake" if self.sink.table else "transform"


@dataclass(frozen=True, kw_only=True)
class SparkDefinition:
    """Where Spark runs."""

    master: str = item(text, "the master, as in local[*] or spark://host:7077", default="local[*]")
    remote: str | None = item(text, "a Spark Connect server, as in sc://host:15002", default=None)
    conf: dict[str, str] = item(pairs, "Spark's own settings", default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Project:
    """Pipelines that share a broker, a Spark session and a state directory."""

    bootstrap: str | None = item(
        text, "the broker, as HOST:PORT; by default that of the profile, or 127.0.0.1:9092", default=None
    )
    profile: str | None = item(text, "a profile with address and security of the broker", default=None)
    state_dir: str = item(text, "the directory for checkpoints", default=".pipelines")
    spark: SparkDefinition = item(nested(SparkDefinition), "where Spark runs", default=SparkDefinition())
    options: dict[str, str] = item(
        pairs, "security and kafka.* options for every source and sink", default_factory=dict
    )
    pipelines: tuple[Pipeline, ...] = ()
    home: Path = Path()
    locations: Locations = Locations()

    def place(self, path: str) -> Path:
        """Resolve a path of the definition relative to its file."""
        return (self.home / path).resolve()

    def state_of(self, pipeline: Pipeline) -> Path:
        return self.place(self.state_dir) / pipeline.name
