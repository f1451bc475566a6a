"""Lets every Python thread write with `format("penstock")`. Wraps `format` of PySpark's writers, nothing else.

Spark looks a Python data source up in the session that is active in the calling JVM thread. PySpark gives each Python
thread a JVM thread of its own, and makes a session active only in the one that created it. Spark's readers activate
their session themselves; its writers (4.2, 4.3) do not, and fail with DATA_SOURCE_NOT_FOUND. Over Spark Connect the
server activates the session for each call, so there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

FORMAT = "penstock"


def enable_threads() -> None:
    """Have writers of this format activate their session in threads that have none."""
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    writers: tuple[Any, ...] = (DataFrameWriter, DataStreamWriter)
    for writer in writers:
        if not hasattr(writer.format, "__wrapped__"):
            writer.format = _activating(writer.format)


def _activating(choose: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    @wraps(choose)
    def format(self: Any, source: str) -> Any:
        if source.lower() == FORMAT:
            _activate(self._spark)
        return choose(self, source)

    return format


def _activate(spark: Any) -> None:
    sessions = type(spark)._get_j_spark_session_class(spark._jvm)
    if not sessions.getActiveSession().isDefined():
        sessions.setActiveSession(spark._jsparkSession)
