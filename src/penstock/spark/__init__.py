"""Spark on topics: a data source to read from and write to, and sessions that fit. Never imports the node.

spark = penstock.spark.session()
spark.read.format("penstock").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "orders").load()
"""

from __future__ import annotations

from typing import Any


def session(master: str | None = None, app_name: str = "penstock", **conf: str) -> Any:
    """A Spark session with all that must be set, set; the one that this process has already, if it has one.

    `master` is one of Spark's, `local[*]` if it is left out, or `sc://host:port` of a Spark Connect server. Further
    settings are Spark's own, with underscores for dots where they are keywords:
    `session(spark_sql_shuffle_partitions="4")`, or `session(**{"spark.sql.shuffle.partitions": "4"})`. Where you make
    the session yourself, one call of this returns it and lets every Python thread write. Raises CannotStart, which says
    what is missing.
    """
    from penstock.spark.sessions import make_session

    return make_session(master, app_name, {name.replace("_", "."): value for name, value in conf.items()})
