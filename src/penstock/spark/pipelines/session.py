"""The Spark session of a project: local, on a master, or on a Connect server. Never starts a second JVM."""

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
"""PySpark logs kilobytes of JSON there for every invalid query; the error is raised as well."""
_STREAM_LOGGER = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
"""The JVM logs a stack trace for every failed query, even for one that is stopped between two batches."""


@contextmanager
def spark_for(project: Project) -> Iterator[SparkSession]:
    """The project's Spark session for the duration of the block; a session that already existed stays open.

    Raises PipelineError with what is missing.
    """
    from penstock.spark.sessions import CannotStart, is_running, make_session

    was_running = is_running()
    wanted = project.spark
    try:
        spark: SparkSession = make_session(
            wanted.remote or wanted.master, "penstock-pipelines", dict(wanted.conf)
        )
    except CannotStart as error:
        raise PipelineError(str(error)) from error
    try:
        if "spark.log.level" not in wanted.conf:
            _quiet(spark)
        yield spark
    finally:
        if not was_running:
            spark.stop()


def _quiet(spark: SparkSession) -> None:
    """Silence loggers whose errors are reported elsewhere, once and in one line."""
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
    """An isolated session for one pipeline: its views and settings do not affect others.

    With Spark Connect a new session would have the server's settings, so this one is cloned. A clone has its own gRPC
    channel, and an open channel keeps Python from exiting.
    """
    if not is_connect(spark):
        yield spark.newSession()
        return
    made: SparkSession = spark.cloneSession()  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        made.stop()
