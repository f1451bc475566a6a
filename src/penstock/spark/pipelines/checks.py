"""Checks that the parts of a definition fit together. `shapes` has validated the values; never starts Spark."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.spark.pipelines.definition import (
    Decode,
    Pipeline,
    SideTarget,
    SinkDefinition,
    SourceDefinition,
    Step,
    Window,
)
from penstock.spark.pipelines.functions import find_function
from penstock.spark.pipelines.problems import Problems

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")


def check_pipeline(pipeline: Pipeline, path: str, home: Path, problems: Problems) -> None:
    """Report every error that can be found without Spark."""
    if not _NAME.fullmatch(pipeline.name):
        problems.add(
            path,
            f"{pipeline.name!r} is not a valid pipeline name.",
            "Use letters, digits, dots, _ and -.",
        )
    _check_source(pipeline, f"{path}.source", problems)
    _check_decode(pipeline.decode, pipeline.source, f"{path}.decode", home, problems)
    for index, step in enumerate(pipeline.steps):
        _check_step(step, f"{path}.steps[{index}]", home, problems)
    _check_state(pipeline, path, problems)
    _check_sink(pipeline.sink, pipeline, f"{path}.sink", problems)


def _check_source(pipeline: Pipeline, path: str, problems: Problems) -> None:
    source = pipeline.source
    if bool(source.topics) == bool(source.pattern):
        problems.add(path, "needs either topics or pattern.", "Write topics: [orders].")
    if source.pattern:
        try:
            re.compile(source.pattern)
        except re.error as error:
            problems.add(f"{path}.pattern", f"{source.pattern!r} is not a valid regular expression: {error}.")
    if source.history:
        _check_place(source.history.table, f"{path}.history.table", problems)
        if source.pattern:
            problems.add(f"{path}.history", "requires topics, not a pattern.", "List the topics.")
        if pipeline.keeps_state:
            problems.add(
                f"{path}.history",
                "cannot be combined with dedup, window or stateful: their state covers only one stream.",
                "Replay the table into a separate topic, and read that.",
            )
    if source.rows_per_batch_max and source.bytes_per_batch_max:
        problems.add(path, "has both rows_per_batch_max and bytes_per_batch_max.", "Set only one.")


def _check_decode(
    decode: Decode, source: SourceDefinition, path: str, home: Path, problems: Problems
) -> None:
    if decode.format == "json" and not decode.schema:
        problems.add(f"{path}.schema", "is missing.", "Set columns such as `id bigint`, or infer.")
    if decode.format == "json" and decode.schema_file:
        problems.add(f"{path}.schema_file", "is for Avro.", "Use schema for JSON.")
    if decode.format == "avro" and not decode.schema_file:
        problems.add(f"{path}.schema_file", "is missing.", "Set a file with the Avro schema (.avsc).")
    if decode.format == "avro" and decode.schema:
        problems.add(f"{path}.schema", "is for JSON.", "Avro columns come from schema_file.")
    if decode.schema_file and not (home / decode.schema_file).is_file():
        problems.add(f"{path}.schema_file", f"there is no file {home / decode.schema_file}.")
    if decode.key_schema_file and not (home / decode.key_schema_file).is_file():
        problems.add(f"{path}.key_schema_file", f"there is no file {home / decode.key_schema_file}.")
    if decode.framing != "none" and decode.format != "avro" and not decode.key_schema_file:
        problems.add(f"{path}.framing", "is for Avro.", "Remove it.")
    if decode.format == "raw" and (decode.schema or decode.required or decode.expect or decode.dead_letters):
        problems.add(path, "reads raw values, which have no columns to check.", "Use format: json or avro.")
    if decode.dead_letters:
        _check_target(decode.dead_letters, f"{path}.dead_letters", problems)
        if decode.bad_rows == "fail":
            problems.add(path, "has dead_letters although bad_rows is fail.", "Remove one of them.")
    if (
        decode.dead_letters is None
        and source.pattern
        and decode.bad_rows == "dead_letter"
        and decode.format != "raw"
    ):
        problems.add(
            f"{path}.dead_letters", "is missing.", "With a pattern, set the topic or table for bad rows."
        )


def _check_step(step: Step, path: str, home: Path, problems: Problems) -> None:
    given = [name for name in ("sql", "python", "dedup", "window", "stateful") if getattr(step, name)]
    if len(given) != 1:
        problems.add(path, f"has {len(given)} of sql, python, dedup, window, stateful.", "Set exactly one.")
    if isinstance(step.python, str):
        find_function(step.python, f"{path}.python", home, problems)
    if step.stateful:
        find_function(step.stateful.function, f"{path}.stateful.function", home, problems)
    if step.window:
        _check_window(step.window, f"{path}.window", problems)


def _check_window(window: Window, path: str, problems: Problems) -> None:
    if bool(window.size) == bool(window.gap):
        problems.add(path, "needs either size or gap.", "size: 1m creates windows, gap: 5m creates sessions.")
    if window.slide and window.gap:
        problems.add(f"{path}.slide", "cannot be combined with gap.", "Remove it.")
    if window.slide and window.size and window.slide > window.size:
        problems.add(f"{path}.slide", "is longer than size: rows between windows would be lost.")
    if not window.compute:
        problems.add(
            f"{path}.compute", "is empty.", "Add at least one column, such as `revenue: sum(amount)`."
        )
    if window.late:
        _check_target(window.late, f"{path}.late", problems)
        if window.emit == "updates":
            problems.add(f"{path}.late", "requires emit: final.", "With updates, late rows still count.")


def _check_state(pipeline: Pipeline, path: str, problems: Problems) -> None:
    late = [index for index, step in enumerate(pipeline.steps) if step.window and step.window.late]
    stateful = [index for index, step in enumerate(pipeline.steps) if step.keeps_state]
    if late and len(stateful) > 1:
        problems.add(
            f"{path}.steps[{late[0]}].window.late",
            "cannot be detected after another dedup, window or stateful step.",
            "Split it: let one pipeline write to a topic, and another read that.",
        )
    times = [each.time for step in pipeline.steps if (each := step.dedup or step.window)]
    if len(times) > len(set(times)):
        problems.add(
            f"{path}.steps",
            "has dedup and window on the same time column, which can have only one watermark in Spark.",
            "Split it: let one pipeline write to a topic, and another read that.",
        )
    if pipeline.keeps_state and pipeline.decode.schema == "infer":
        problems.add(
            f"{path}.decode.schema", "cannot be infer with dedup, window or stateful.", "List the columns."
        )


def _check_sink(sink: SinkDefinition, pipeline: Pipeline, path: str, problems: Problems) -> None:
    if bool(sink.topic) == bool(sink.table):
        problems.add(path, "needs either topic or table.", "Write topic: revenue, or table: ./lake/orders.")
    if sink.topic:
        for name in ("partition_by", "keep_raw", "delete_when", "expire_after"):
            if getattr(sink, name):
                problems.add(f"{path}.{name}", "is for tables.", "Remove it.")
        if sink.mode == "upsert":
            problems.add(
                f"{path}.mode", "upsert is for tables.", "A compacted topic keeps one record per key."
            )
        if len(sink.key) > 1:
            problems.add(
                f"{path}.key", "names several columns.", "A record has one key: build it in a sql step."
            )
    if sink.table:
        _check_place(sink.table, f"{path}.table", problems)
        if sink.value != "json":
            problems.add(f"{path}.value", "is for topics.", "Remove it.")
        _check_mode(sink, pipeline, path, problems)


def _check_mode(sink: SinkDefinition, pipeline: Pipeline, path: str, problems: Problems) -> None:
    updates = any(step.window and step.window.emit == "updates" for step in pipeline.steps)
    if sink.mode == "upsert":
        if not sink.key:
            problems.add(f"{path}.key", "is missing.", "An upsert needs the columns that identify a row.")
        if sink.format == "parquet":
            problems.add(f"{path}.format", "parquet does not support upsert.", "Use delta or iceberg.")
    else:
        if sink.key or sink.delete_when:
            problems.add(path, "has key or delete_when, which require an upsert.", "Set mode: upsert.")
        if updates:
            problems.add(
                f"{path}.mode", "append would store every update of a window.", "Set mode: upsert and a key."
            )


def _check_target(target: SideTarget, path: str, problems: Problems) -> None:
    if bool(target.topic) == bool(target.table):
        problems.add(path, "needs either topic or table.")
    if target.table:
        _check_place(target.table, f"{path}.table", problems)


def _check_place(place: str, path: str, problems: Problems) -> None:
    if _SCHEME.match(place):
        problems.add(
            path,
            f"{place} is not a directory.",
            "Tables are directories that driver and executors can access.",
        )
