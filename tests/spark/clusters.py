"""Real clusters on loopback, from the package that pip brought: a standalone Master with a Worker, a Connect server.

Never more than one core and a little memory each; everything ends with its block.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest

from compat.runtimes import maven_jars
from compat.vocabulary import MissingRuntime
from penstock.spark.java import find_java

READY_S_MAX = 300.0
STOP_S_MAX = 30.0
POLL_S = 0.1
SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """What every process of a cluster is started with."""
    home = find_java()
    return {
        **os.environ,
        **({"JAVA_HOME": str(home)} if home is not None else {}),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "600m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests"))),
    }


@contextmanager
def standalone(home: Path) -> Iterator[str]:
    """The URL of a master with one worker of two cores."""
    with ExitStack() as stack:
        master = [_script("spark-class"), "org.apache.spark.deploy.master.Master"]
        where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        started = stack.enter_context(_running([*master, *where], home / "master.log"))
        url = _await(started, r"Starting Spark master at (spark://\S+)")
        worker = [_script("spark-class"), "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"]
        sizes = ["--cores", "2", "--memory", "1g", "--webui-port", "0", "--work-dir", str(home / "work")]
        started = stack.enter_context(_running([*worker, *sizes, url], home / "worker.log"))
        _await(started, r"(Successfully registered) with master")
        yield url


@contextmanager
def connect_server(home: Path, master: str) -> Iterator[str]:
    """The URL of a Spark Connect server whose jobs run on this master."""
    port = _free_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.executor.memory": "600m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.authenticate.socketTimeout": "120s",
    }
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command = [_script("spark-submit"), "--master", master, *words, *server, "spark-internal"]
    with _running(command, home / "connect.log") as started:
        _await(started, r"(Spark Connect server started)")
        yield f"sc://127.0.0.1:{port}"


def jars_of(pom: Path) -> Path:
    """What Maven Central has; a skip with Maven's own reason where it cannot be had."""
    try:
        return maven_jars(pom)
    except (MissingRuntime, RuntimeError) as error:
        said = str(error).splitlines()
        reason = next((line for line in said if "ERROR" in line), said[0])
        pytest.skip(f"the jars cannot be had from Maven Central: {reason[:400]}")


def _script(name: str) -> str:
    return str(SPARK_HOME / "bin" / name)


class Started(NamedTuple):
    """A process and where it writes."""

    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[Started]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment(), cwd=log.parent)
    try:
        yield Started(process, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(started: Started, pattern: str) -> str:
    deadline_s = time.monotonic() + READY_S_MAX
    while time.monotonic() < deadline_s and started.process.poll() is None:
        found = re.search(pattern, started.log.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(POLL_S)
    said = started.log.read_text(errors="replace")[-3000:]
    raise RuntimeError(f"{started.log.name} does not say {pattern}\n{said}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
