"""Enables `format("penstock")` writes from every Python thread. Wraps `format` of PySpark's writers, nothing else.

Spark looks up a Python data source in the session that is active in the calling JVM thread. PySpark maps each Python
thread to its own JVM thread, and activates a session only in the thread that created it. Spark's readers activate
their session themselves; its writers (4.2, 4.3) do not, and fail with DATA_SOURCE_NOT_FOUND. With Spark Connect the
server activates the session for each call, so nothing needs to be done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

FORMAT = "penstock"


def enable_threads() -> None:
    """Make writers of this format activate their session in threads without an active one."""
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
