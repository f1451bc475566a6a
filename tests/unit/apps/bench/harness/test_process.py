"""A server process and its children."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.apps.bench.harness.process import ServerProcess


def test_a_paused_server_gets_no_cpu_time_and_its_children_count(tmp_path: Path) -> None:
    burn = "while True: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    process = ServerProcess([sys.executable, "-c", child], tmp_path, 0)
    try:
        process.await_ready(lambda: process.cpu_s() > 0.2)
        process.pause()
        paused_s = process.cpu_s()
        subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
        assert process.cpu_s() == paused_s
        process.resume()
        process.await_ready(lambda: process.cpu_s() > paused_s)
    finally:
        process.kill()
    assert not process.is_running
