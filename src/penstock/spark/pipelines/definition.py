"""What a pipeline is: where records come from, how they are read, what is done to them, where they go.

The dataclasses here are the grammar of the YAML file and of the Python form alike. Never starts anything, never
imports Spark: a definition can be checked where Spark is not.
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
    """A topic or a table beside the main one: for dead letters and for late rows."""

    topic: str | None = item(text, "the topic that the rows go to", default=None)
    table: str | None = item(text, "the directory of the table that the rows go to", default=None)
    format: str = item(one_of(*LAKE_FORMATS), "the format of that table", default="delta")


@dataclass(frozen=True, kw_only=True)
class History:
    """A table to read first, up to the offset at which the topic takes over."""

    table: str = item(text, "the directory of the table")
    format: str = item(one_of(*LAKE_FORMATS), "the format of the table", default="delta")
    rows_per_batch_max: int = item(count, "how many rows one batch of history has", default=100_000)


@dataclass(frozen=True, kw_only=True)
class SourceDefinition:
    """The topics to read."""

    topics: tuple[str, ...] = item(names, "the topics to read", default=())
    pattern: str | None = item(text, "a regular expression for the names of topics to read", default=None)
    start: str = item(one_of("earliest", "latest"), "where the first run begins", default="earliest")
    rows_per_batch_max: int | None = item(count, "how many records one batch has at most", default=None)
    bytes_per_batch_max: int | None = item(count, "how many bytes one batch has at most", default=None)
    history: History | None = item(nested(History), "a table that is read before the topics", default=None)
    options: dict[str, str] = item(
        pairs, "further options of the source, such as kafka.*", default_factory=dict
    )


@dataclass(frozen=True, kw_only=True)
class Decode:
    """How a record's value becomes columns, and what happens to those that cannot."""

    format: str = item(one_of("json", "avro", "raw"), "how values are written", default="json")
    schema: str | None = item(text, "the columns, as in `id bigint, name string`, or `infer`", default=None)
    schema_file: str | None = item(text, "a file with an Avro schema", default=None)
    key_schema_file: str | None = item(
        text, "a file with the Avro schema of keys, for an upsert", default=None
    )
    framing: str = item(
        one_of("none", "confluent"), "what stands before an Avro value or key", default="none"
    )
    required: tuple[str, ...] = item(names, "columns that must have a value", default=())
    expect: dict[str, str] = item(pairs, "named conditions that each row must meet", default_factory=dict)
    bad_rows: str = item(
        one_of("dead_letter", "fail"), "what happens to rows that cannot be read", default="dead_letter"
    )
    dead_letters: SideTarget | None = item(
        nested(SideTarget), "where bad rows go; `<topic>.dlq` unless told", default=None
    )


@dataclass(frozen=True, kw_only=True)
class Dedup:
    """Leaves out rows that were seen before, as far back as the watermark reaches."""

    by: tuple[str, ...] = item(names, "the columns that make a row the same")
    time: str = item(text, "the column with the time of the event", default="_timestamp")
    within: int = item(duration, "how far apart two of the same may be")


@dataclass(frozen=True, kw_only=True)
class Window:
    """Rows of one span of time become one row."""

    time: str = item(text, "the column with the time of the event", default="_timestamp")
    size: int | None = item(duration, "the length of a window", default=None)
    slide: int | None = item(duration, "how far apart windows begin; the size unless told", default=None)
    gap: int | None = item(duration, "the silence that ends a session", default=None)
    watermark: int = item(duration, "how late a row may be")
    by: tuple[str, ...] = item(names, "columns that get windows of their own", default=())
    compute: dict[str, str] = item(pairs, "columns of the result with their SQL, as in `sum(amount)`")
    emit: str = item(
        one_of("final", "updates"), "each window once when it ends, or whenever it changes", default="final"
    )
    late: SideTarget | None = item(nested(SideTarget), "where rows go that came too late", default=None)


@dataclass(frozen=True, kw_only=True)
class Stateful:
    """A Python function that remembers something per key."""

    by: tuple[str, ...] = item(names, "the columns that make the key")
    function: str = item(text, "the function, as module:name")
    schema: str = item(text, "the columns that it gives")
    state: str = item(text, "the columns that it remembers")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One change to the rows; exactly one of these."""

    sql: str | None = item(text, "a query over the table `input`", default=None)
    python: Any = item(function, "a function, as module:name", default=None)
    dedup: Dedup | None = item(nested(Dedup), "leave out what was seen before", default=None)
    window: Window | None = item(nested(Window), "sum up spans of time", default=None)
    stateful: Stateful | None = item(nested(Stateful), "a function with a memory", default=None)

    @property
    def keeps_state(self) -> bool:
        return bool(self.dedup or self.window or self.stateful)


@dataclass(frozen=True, kw_only=True)
class SinkDefinition:
    """The topic or the table that rows go to."""

    topic: str | None = item(text, "the topic to write to", default=None)
    value: str = item(
        one_of("json", "raw"), "columns as JSON, or the column `value` as it is", default="json"
    )
    table: str | None = item(text, "the directory of the table to write to", default=None)
    format: str = item(one_of(*LAKE_FORMATS), "the format of the table", default="delta")
    mode: str = item(one_of("append", "upsert"), "add rows, or keep one row per key", default="append")
    key: tuple[str, ...] = item(
        names, "the column that is the record's key, or those of an upsert", default=()
    )
    delete_when: str | None = item(text, "the condition that removes a key's row", default=None)
    partition_by: tuple[str, ...] = item(
        names, "columns that split the table; `_date` is the record's day", default=()
    )
    keep_raw: bool = item(switch, "keep key, value and headers as they came, for replay", default=False)
    expire_after: int | None = item(duration, "`compact` removes rows that are older", default=None)
    options: dict[str, str] = item(pairs, "further options of the topic sink", default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """One stream from its source to its sink. `name` is also the name of its state."""

    name: str = item(text, "the name")
    source: SourceDefinition = item(nested(SourceDefinition), "where records come from")
    decode: Decode = item(nested(Decode), "how values become columns", default=Decode())
    steps: tuple[Step, ...] = item(listed(Step), "what is done to the rows", default=())
    sink: SinkDefinition = item(nested(SinkDefinition), "where rows go")
    trigger: int = item(duration, "how often a batch is made", default=1_000)
    max_restarts: int | None = item(
        restarts, "how often it is started again after failures, or `unlimited`", default=10
    )

    @property
    def keeps_state(self) -> bool:
        return any(step.keeps_state for step in self.steps)

    @property
    def kind(self) -> str:
        """The word for what it does, as people would say it."""
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
    """Pipelines that share a broker, a Spark and a directory for their state."""

    bootstrap: str = item(text, "the broker, as HOST:PORT", default="127.0.0.1:9092")
    state_dir: str = item(text, "the directory of checkpoints", default=".pipelines")
    spark: SparkDefinition = item(nested(SparkDefinition), "where Spark runs", default=SparkDefinition())
    options: dict[str, str] = item(pairs, "kafka.* options of every source and sink", default_factory=dict)
    pipelines: tuple[Pipeline, ...] = ()
    home: Path = Path()
    locations: Locations = Locations()

    def place(self, path: str) -> Path:
        """A path of the definition; relative ones start at the directory of the file."""
        return (self.home / path).resolve()

    def state_of(self, pipeline: Pipeline) -> Path:
        return self.place(self.state_dir) / pipeline.name
