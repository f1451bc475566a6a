"""The daemon of Python workers with a real worker that Spark hangs up on. No JVM: the test is the other end."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.spark.scripts import quick_python
from penstock.testing.child_server import SOURCE_DIR

WORKER_S_MAX = 60.0
PLANNER = "pyspark.sql.worker.lookup_data_sources"
"""A worker that answers a closed socket with an error report."""


def hang_up_on_a_worker(python: str, home: Path) -> str:
    """Start the daemon as Spark does, connect to a worker, close at once; what the daemon printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE_DIR),
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(home),
        "SPARK_REUSE_WORKER": "1",
    }
    started = subprocess.Popen(
        [python, "-m", "pyspark.daemon", PLANNER],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with started as daemon:
        assert daemon.stdout is not None
        (size,) = struct.unpack("!i", daemon.stdout.read(4))
        address = daemon.stdout.read(size).decode()
        with socket.socket(socket.AF_UNIX) as spark:
            spark.connect(address)
            (worker,) = struct.unpack("!i", spark.recv(4, socket.MSG_WAITALL))
            ended = os.pidfd_open(worker)
        try:
            waiting = select.poll()  # select() knows only low descriptors
            waiting.register(ended, select.POLLIN)
            assert waiting.poll(WORKER_S_MAX * 1000), "the worker ends"
        finally:
            os.close(ended)
        return daemon.communicate()[1].decode()


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return quick_python(tmp_path / "pyspark")


@pytest.fixture
def home() -> Iterator[Path]:
    """For Unix sockets, whose paths may have about a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as directory:
        yield Path(directory)


def test_a_worker_that_spark_hangs_up_on_ends_quietly(python: str, home: Path) -> None:
    assert hang_up_on_a_worker(python, home) == ""


def test_pysparks_own_daemon_prints_a_traceback(home: Path) -> None:
    """The reason for ours: remove it when this fails."""
    assert "BrokenPipeError" in hang_up_on_a_worker(sys.executable, home)
