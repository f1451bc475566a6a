"""The Spark that a project asks for: local, a master, or a Connect server. Never starts a second one in a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.spark.pipelines.definition import Project
from penstock.spark.pipelines.problems import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        yield spark
    finally:
        if not was_running:
            spark.stop()


def own_session(spark: SparkSession) -> SparkSession:
    """A session for one pipeline, set as this one: what it names or changes concerns no other.

    Over Spark Connect a new session would be set as the server is, so there this one is cloned.
    """
    clone = getattr(spark, "cloneSession", None)
    made: SparkSession = spark.newSession() if clone is None else clone()
    return made
