"""Spark integration: the `penstock` data source for topics, and preconfigured sessions. Never imports the node.

spark = penstock.spark.session()
spark.read.format("penstock").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "orders").load()
"""

from __future__ import annotations

from typing import Any


def session(master: str | None = None, app_name: str = "penstock", **conf: str) -> Any:
    """Return a configured Spark session, or the running one if this process already has one.

    `master` is any Spark master (default `local[*]`) or `sc://host:port` for a Spark Connect server. Other arguments
    are Spark settings, with underscores for dots: `session(spark_sql_shuffle_partitions="4")`, or
    `session(**{"spark.sql.shuffle.partitions": "4"})`. If you create the session yourself, call this once: it returns
    your session and enables writes from every Python thread. Raises CannotStart with what is missing.
    """
    from penstock.spark.sessions import make_session

    return make_session(master, app_name, {name.replace("_", "."): value for name, value in conf.items()})
