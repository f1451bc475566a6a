"""Applies the steps of a definition: DataFrame → DataFrame. Never reads or writes data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.errors import ProjectProblem, WrongDefinition
from penstock.spark.pipelines.definition import Dedup, Stateful, Step, Window
from penstock.spark.pipelines.functions import get_function

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

INPUT = "input"
"""The view name of the rows in a SQL step."""


def apply_steps(rows: DataFrame, steps: Sequence[Step], home: Path) -> DataFrame:
    """Rows after every step, in order."""
    for step in steps:
        rows = _apply(rows, step, home)
    return rows


def _apply(rows: DataFrame, step: Step, home: Path) -> DataFrame:
    if step.sql is not None:
        rows.createOrReplaceTempView(INPUT)
        return rows.sparkSession.sql(step.sql)
    if step.dedup is not None:
        return _dedup(rows, step.dedup)
    if step.window is not None:
        return window(rows, step.window)
    if step.stateful is not None:
        return _stateful(rows, step.stateful, home)
    return _call(rows, step, home)


def _call(rows: DataFrame, step: Step, home: Path) -> DataFrame:
    from pyspark.sql import DataFrame

    function = get_function(step.python, home)
    made = function(rows)
    if not isinstance(made, DataFrame):
        what = f"{function.__name__} returned {type(made).__name__} instead of a DataFrame."
        raise WrongDefinition(
            [ProjectProblem("steps.python", what, "It must take a DataFrame and return one.")]
        )
    return made


def _dedup(rows: DataFrame, dedup: Dedup) -> DataFrame:
    watched = rows.withWatermark(dedup.time, spark_ms(dedup.within))
    return watched.dropDuplicatesWithinWatermark(list(dedup.by))


def window(rows: DataFrame, window: Window) -> DataFrame:
    """One row per window and value of `by`: window_start, window_end, by…, compute…"""
    from pyspark.sql import functions as F

    watched = rows.withWatermark(window.time, spark_ms(window.watermark))
    grouped = watched.groupBy(window_of(window).alias("_window"), *[F.col(f"`{name}`") for name in window.by])
    computed = grouped.agg(*[F.expr(rule).alias(name) for name, rule in window.compute.items()])
    return computed.select(
        F.col("_window.start").alias("window_start"),
        F.col("_window.end").alias("window_end"),
        *window.by,
        *window.compute,
    )


def window_of(window: Window) -> Column:
    """The window or, with slide, the windows of a row."""
    from pyspark.sql import functions as F

    if window.gap is not None:
        return F.session_window(window.time, spark_ms(window.gap))
    assert window.size is not None
    return F.window(window.time, spark_ms(window.size), spark_ms(window.slide) if window.slide else None)


def last_end(window: Window) -> Column:
    """The end of the last window of a row. If it is before the watermark, the row is late."""
    from pyspark.sql import functions as F

    if window.gap is not None:
        return F.expr(f"`{window.time}` + interval {window.gap} milliseconds")
    assert window.size is not None
    size_ms, slide_ms = window.size, window.slide or window.size
    time_ms = F.unix_millis(F.col(window.time))
    return F.timestamp_millis(time_ms - F.pmod(time_ms, F.lit(slide_ms)) + F.lit(size_ms))


def _stateful(rows: DataFrame, stateful: Stateful, home: Path) -> DataFrame:
    function = get_function(stateful.function, home)
    return rows.groupBy(*stateful.by).applyInPandasWithState(
        function, stateful.schema, stateful.state, "update", "NoTimeout"
    )


def output_mode(steps: Sequence[Step]) -> str:
    """Update mode for stateful functions and windows that emit updates: their rows are not final."""
    if any(step.stateful or (step.window and step.window.emit == "updates") for step in steps):
        return "update"
    return "append"


def spark_ms(ms: int) -> str:
    return f"{ms} milliseconds"
