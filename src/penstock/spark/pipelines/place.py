"""The Spark that a project asks for: local, a master, or a Connect server. Never starts a second one in a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.pipelines.definition import Project
from penstock.spark.pipelines.problems import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_at(project: Project) -> SparkSession:
    """A session at the project's place. Raises PipelineError with what is missing."""
    from penstock.spark.sessions import CannotStart, make_session

    place = project.spark
    try:
        spark: SparkSession = make_session(
            place.remote or place.master, "penstock-pipelines", dict(place.conf)
        )
    except CannotStart as error:
        raise PipelineError(str(error)) from error
    return spark
