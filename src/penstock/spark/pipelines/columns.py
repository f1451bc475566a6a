"""Derives the columns of a pipeline at each step from its definition, and reports unknown ones. Never starts Spark.

SQL and Python steps may produce any columns; after them only Spark knows, and nothing is reported here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from penstock.spark.pipelines.ddl import split_columns
from penstock.spark.pipelines.decoder import DATE, ORIGIN, RAW
from penstock.spark.pipelines.definition import Decode, Pipeline, Step
from penstock.spark.pipelines.problems import Problems, suggestion

_COLUMN_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))")

Columns = list[str] | None
"""Names, or None if only Spark knows them."""


def check_named_columns(pipeline: Pipeline, path: str, home: Path, problems: Problems) -> None:
    """Report references to columns that cannot exist."""
    decoded = decoded_columns(pipeline.decode, home)
    columns: Columns = None if decoded is None else [*decoded, *ORIGIN, *RAW]
    _check(pipeline.decode.required, columns, f"{path}.decode.required", problems)
    for index, step in enumerate(pipeline.steps):
        _check_step(step, columns, f"{path}.steps[{index}]", problems)
        columns = _after(step, columns)
    sink = pipeline.sink
    _check(sink.key, columns, f"{path}.sink.key", problems, is_exact=True)
    dated = [DATE] if columns is None or "_timestamp" in columns else []
    _check(
        sink.partition_by,
        None if columns is None else [*columns, *dated],
        f"{path}.sink.partition_by",
        problems,
        is_exact=True,
    )


def decoded_columns(decode: Decode, home: Path) -> Columns:
    """The columns of a value; None if they are inferred from data or the schema is unreadable."""
    if decode.format == "raw":
        return []
    if decode.format == "json":
        return None if decode.schema in (None, "infer") else column_names(decode.schema or "")
    try:
        fields = json.loads((home / (decode.schema_file or "")).read_text("utf-8"))["fields"]
        return [str(field["name"]) for field in fields]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def column_names(schema: str) -> list[str]:
    """The names in `id bigint, `two words` string`."""
    matches = (_COLUMN_NAME.match(part) for part in split_columns(schema))
    return [(match[1] or match[2]).replace("``", "`") for match in matches if match]


def _after(step: Step, columns: Columns) -> Columns:
    if step.dedup:
        return columns
    if step.window:
        return ["window_start", "window_end", *step.window.by, *step.window.compute]
    if step.stateful:
        return column_names(step.stateful.schema)
    return None


def _check_step(step: Step, columns: Columns, path: str, problems: Problems) -> None:
    if step.dedup:
        _check(step.dedup.by, columns, f"{path}.dedup.by", problems)
        _check([step.dedup.time], columns, f"{path}.dedup.time", problems)
    if step.window:
        _check(step.window.by, columns, f"{path}.window.by", problems)
        _check([step.window.time], columns, f"{path}.window.time", problems)
    if step.stateful:
        _check(step.stateful.by, columns, f"{path}.stateful.by", problems)


def _check(
    named: Iterable[str], columns: Columns, path: str, problems: Problems, *, is_exact: bool = False
) -> None:
    """Spark ignores case and reads `a.b` as a field of `a`; keys and partition columns of tables are exact."""
    if columns is None:
        return
    known = columns if is_exact else [*map(str.lower, columns)]
    for name in named:
        plain = name if is_exact else name.lower()
        if plain not in known and (is_exact or plain.partition(".")[0] not in known):
            problems.add(path, f"there is no column {name!r}.", _suggested(name, columns))


def _suggested(name: str, columns: Sequence[str]) -> str:
    own = [one for one in columns if not one.startswith("_") or name.startswith("_")]
    return suggestion(name, own or columns)
