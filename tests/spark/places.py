"""Where the tests of this directory run: on a Spark of their own and a broker of their own, unless told otherwise.

Told by the environment, for a run of pytest that another test starts: which Spark, and whose topics. Never starts one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from spark.clusters import environment

MASTER_VARIABLE, BOOTSTRAP_VARIABLE = "SPARK_TESTS_MASTER", "SPARK_TESTS_BOOTSTRAP"
MASTER = os.environ.get(MASTER_VARIABLE, "local[2]")
IS_REMOTE = MASTER.startswith("sc://")
HASTE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A Java for many short queries: it compiles quickly, and leaves the cores to others."""
OF_THE_DRIVER = {"spark.driver.memory": "700m", "spark.driver.extraJavaOptions": HASTE}
CONF = {} if IS_REMOTE else {**OF_THE_DRIVER, "spark.executor.memory": "600m"}
PROJECT = {"spark": {"remote": MASTER} if IS_REMOTE else {"master": MASTER}}
"""The same place, as a project names it."""

RUN_S_MAX = 1500


def given_broker() -> Any | None:
    """A broker of which only the address is known, if one was given."""
    bootstrap = os.environ.get(BOOTSTRAP_VARIABLE)
    return None if bootstrap is None else SimpleNamespace(bootstrap=bootstrap)


def run_there(files: Sequence[str], *, without: Sequence[str] = (), **place: str) -> str:
    """Run these tests with `master` or `bootstrap` elsewhere; what pytest says last. Raises with all that failed."""
    variables = {"master": MASTER_VARIABLE, "bootstrap": BOOTSTRAP_VARIABLE}
    told = {variables[name]: value for name, value in place.items()}
    chosen = ["-k", " and ".join(f"not {name}" for name in without)] if without else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    command += [str(Path(__file__).with_name(name)) for name in files]
    done = subprocess.run(
        command,
        env={**environment(), **told},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    if done.returncode:
        raise AssertionError(
            f"{place}: left with {done.returncode}\n{done.stdout[-12000:]}\n{done.stderr[-2000:]}"
        )
    return done.stdout.strip().splitlines()[-1]
