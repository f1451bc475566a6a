"""Creates preconfigured Spark sessions. Never starts a second JVM in a process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.spark.java import NoJava, find_java, quiet_home
from penstock.spark.scripts import quick_python
from penstock.spark.threads import enable_threads

LOCAL = "local[*]"
CONNECT = "sc://"
CONNECT_PORT = 15002
CONNECT_S_MAX = 10.0

CHECKPOINTS_ON_DISK = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

ANYWHERE = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Settings for every session, including those on a Spark Connect server."""

OF_THE_DRIVER = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS_ON_DISK,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Settings that only a driver started here accepts. For a master on another machine, override the last two."""

LOG_LEVEL = "spark.log.level"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_FILE = Path(__file__).with_name("log4j2.properties")


class CannotStart(Exception):
    """Spark cannot start; the message says what is missing and what to do."""


def is_running() -> bool:
    """Whether this process already has a Spark session."""
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and _running(sql) is not None


def make_session(master: str | None, app_name: str, conf: dict[str, str]) -> Any:
    """A session on `master`: any Spark master, or `sc://host` for Spark Connect.

    Returns the running session if this process has one, because a process has only one JVM. Without a master, that is
    the running session whatever its master is, else a new one on `local[*]`. Raises CannotStart.
    """
    sql = _import_spark()
    if master is not None and master.startswith(CONNECT):
        _check_reachable(master)
        builder = sql.SparkSession.builder.remote(master)
        return _configured(builder, {**ANYWHERE, **conf}).getOrCreate()
    running = _running(sql)
    made = _start(sql, master or LOCAL, app_name, conf) if running is None else _same(running, master, conf)
    enable_threads()
    return made


def _check_reachable(remote: str) -> None:
    """Check that the server answers, because Spark Connect's client retries silently for minutes.

    The address may contain a token, so errors name only host and port.
    """
    try:
        place = urlsplit(remote)
        host, port = place.hostname or "", place.port or CONNECT_PORT
    except ValueError as error:
        raise CannotStart(f"{remote} is not a Spark Connect address: write sc://host:15002") from error
    try:
        socket.create_connection((host, port), CONNECT_S_MAX).close()
    except OSError as error:
        raise CannotStart(
            f"no Spark Connect server answers at {host}:{port}: {error.strerror or error}. "
            "Start it, or correct the address."
        ) from error


def _running(sql: Any) -> Any | None:
    """The session of this process, even if it is not active in the calling thread."""
    from pyspark.errors import PySparkRuntimeError

    try:
        found = sql.SparkSession.active()
    except PySparkRuntimeError:
        return None
    is_remote = hasattr(found, "is_stopped")
    is_stopped = found.is_stopped if is_remote else found.sparkContext._jsc is None
    return None if is_stopped else found


def _start(sql: Any, master: str, app_name: str, conf: dict[str, str]) -> Any:
    _prepare_environment(_worker_python(master, Path(sql.__file__).parents[1]))
    wanted = {**ANYWHERE, **OF_THE_DRIVER, "spark.sql.shuffle.partitions": str(_cores(master)), **conf}
    if _has_default_logs(conf):
        wanted[JAVA_OPTIONS] = (
            f'{conf.get(JAVA_OPTIONS, "")} "-Dlog4j2.configurationFile={_LOG_FILE.as_uri()}"'.strip()
        )
    builder = sql.SparkSession.builder.master(master).appName(app_name)
    try:
        with _quiet_java():
            made = _configured(builder, wanted).getOrCreate()
    except Exception as error:
        raise CannotStart(_why(error, master)) from error
    made.sparkContext.setLogLevel(wanted.get(LOG_LEVEL, "ERROR"))
    return made


def _has_default_logs(conf: dict[str, str]) -> bool:
    """Whether nobody has chosen what the JVM logs: neither these settings, nor a file where Spark looks for one."""
    if LOG_LEVEL in conf or "log4j" in conf.get(JAVA_OPTIONS, ""):
        return False
    home = os.environ.get("SPARK_HOME")
    places = [os.environ.get("SPARK_CONF_DIR"), f"{home}/conf" if home else None]
    return not any(place and any(Path(place).glob("log4j2.*")) for place in places)


@contextmanager
def _quiet_java() -> Iterator[None]:
    """Start the JVM of this block with a wrapper around the Java in use; JAVA_HOME is as before afterwards."""
    before = os.environ.get("JAVA_HOME")
    home = quiet_home()
    if home is None:
        yield
        return
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _configured(builder: Any, conf: dict[str, str]) -> Any:
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder


def _import_spark() -> Any:
    try:
        import pyarrow  # noqa: F401
        import pyspark.sql
    except ImportError as error:
        raise CannotStart(
            f"{error.name} is not installed. Install Spark support with: pip install 'penstock[spark]'"
        ) from None
    return pyspark.sql


def _same(running: Any, master: str | None, conf: dict[str, str]) -> Any:
    """The running session, if it matches the requested master."""
    there = running.conf.get("spark.master", "")
    if master is not None and there != master:
        raise CannotStart(
            f"this process already runs Spark on {there}; a process has one JVM. Stop that session first with "
            f"spark.stop(), or start {master} in another process."
        )
    for name, value in conf.items():
        if running.conf.get(name, None) != value:
            running.conf.set(name, value)
    return running


def _worker_python(master: str, package: Path) -> str:
    """The Python command of workers. A separate Spark (SPARK_HOME) has its Python code only in its zips: keep them."""
    is_here = master.startswith("local") and "SPARK_HOME" not in os.environ
    return quick_python(package) if is_here else sys.executable


def _prepare_environment(python: str) -> None:
    if shutil.which("bash") is None:
        raise CannotStart("Spark's scripts need bash, but it is not on PATH: install it")
    try:
        home = find_java()
    except NoJava as error:
        raise CannotStart(str(error)) from error
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", python)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    _share_path()


def _share_path() -> None:
    """Let workers import this package from where it was imported here, even if it is not installed."""
    spec = importlib.util.find_spec("penstock")
    assert spec is not None
    assert spec.origin is not None
    here = str(Path(spec.origin).parent.parent)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if here not in known and "site-packages" not in here:
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *(one for one in known if one)])


def _cores(master: str) -> int:
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0]
    return int(inside) if inside.isdecimal() else os.cpu_count() or 1


def _why(error: Exception, master: str) -> str:
    lines = str(error).strip().splitlines()
    return (
        f"Spark does not start on {master}: {lines[0] if lines else type(error).__name__}. See its output above; "
        "the master must be reachable, and this machine needs about 1 GB of free memory."
    )
