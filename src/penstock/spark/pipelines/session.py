"""The Spark that a project asks for: local, a master, or a Connect server. Never starts a second one in a process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.spark.errors import PipelineError
from penstock.spark.pipelines.definition import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERY_LOGGER = "SQLQueryContextLogger"
"""PySpark prints kilobytes of JSON there for every query that is wrong; the problem itself is raised as well."""
_STREAM_LOGGER = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
"""The JVM prints the stack of every query that ends by an error, also of one that is stopped between two batches."""


@contextmanager
def spark_for(project: Project) -> Iterator[SparkSession]:
    """A session at the project's place for as long as the block runs; one that was there before stays.

    Raises PipelineError with what is missing.
    """
    from penstock.spark.sessions import CannotStart, is_running, make_session

    was_running = is_running()
    place = project.spark
    try:
        spark: SparkSession = make_session(
            place.remote or place.master, "penstock-pipelines", dict(place.conf)
        )
    except CannotStart as error:
        raise PipelineError(str(error)) from error
    try:
        if "spark.log.level" not in place.conf:
            _quiet(spark)
        yield spark
    finally:
        if not was_running:
            spark.stop()


def _quiet(spark: SparkSession) -> None:
    """Leave errors to those who report them: once, in one line."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger(_QUERY_LOGGER).setLevel(logging.CRITICAL)
    jvm = getattr(spark, "_jvm", None) if not is_connect(spark) else None
    if jvm is not None:
        log4j = jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(_STREAM_LOGGER, log4j.Level.OFF)


def is_connect(spark: SparkSession) -> bool:
    return hasattr(spark, "cloneSession")


@contextmanager
def own_session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session for one pipeline, set as this one: what it names or changes concerns no other.

    Over Spark Connect a new session would be set as the server is, so there this one is cloned. A clone has its own
    channel, and a channel that is still open when Python ends keeps it from ending.
    """
    if not is_connect(spark):
        yield spark.newSession()
        return
    made: SparkSession = spark.cloneSession()  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        made.stop()
