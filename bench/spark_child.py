"""Runs Spark in its own process for the rows that measure it, and finds the jars of its Kafka connector.

The last line that the child prints is JSON: the samples by variant.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from penstock.apps.bench.harness.machine import Cpus, on_cpu

ROOT = Path(__file__).resolve().parents[1]
RUN_S_MAX = 3_600


def run_spark(module: str, cpus: Cpus, arguments: dict[str, Any]) -> dict[str, list[float]]:
    """Run the module with these arguments; returns its samples. Spark uses all CPUs, including the broker's."""
    paths = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with on_cpu(cpus.server, cpus.loader):
        done = subprocess.run(
            [sys.executable, "-m", module, json.dumps(arguments)],
            env=environment, capture_output=True, text=True, timeout=RUN_S_MAX, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"Spark failed\n{done.stderr[-4000:]}")
    found: dict[str, list[float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def connector_jars() -> str:
    """The jars of Spark's Kafka connector; empty if they cannot be downloaded."""
    sys.path.append(str(ROOT / "tests"))
    from compat.runtimes import maven_jars
    from compat.vocabulary import MissingRuntime

    try:
        lib = maven_jars(ROOT / "tests" / "spark" / "connector" / "pom.xml")
    except (MissingRuntime, RuntimeError):
        return ""
    return ",".join(str(path) for path in sorted(lib.glob("*.jar")))
