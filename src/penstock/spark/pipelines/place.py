"""The Spark that a project asks for: local, a master, or a Connect server. Never starts a second one in a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.pipelines.definition import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_at(project: Project) -> SparkSession:
    """A session at the project's place."""
    from penstock.spark.session import session

    if project.spark.remote is not None:
        from pyspark.sql import SparkSession

        return SparkSession.builder.remote(project.spark.remote).getOrCreate()
    return session(master=project.spark.master, conf=project.spark.conf)
