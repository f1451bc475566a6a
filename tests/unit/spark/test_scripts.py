"""The Python of workers: this one, without the zips that Spark puts before it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.scripts import cached_script, quick_python


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "a place [1]" / "pyspark"


def test_it_is_this_python_without_the_zips(package: Path) -> None:
    python = quick_python(package)
    theirs = [str(package / "python" / "lib" / "pyspark.zip"), str(package / "jars" / "core.jar")]
    program = "import os, sys; print(os.environ['PYTHONPATH'], sys.prefix)"
    done = subprocess.run(
        [python, "-c", program],
        env={**os.environ, "PYTHONPATH": ":".join([*theirs, "/mine", *theirs, "/others*"])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["/mine:/others*", sys.prefix]
    before = Path(python).stat().st_mtime_ns
    assert quick_python(package) == python
    assert Path(python).stat().st_mtime_ns == before


def test_it_is_this_python_as_it_is_where_nothing_can_be_kept(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(OSError, match="file"):
        cached_script("program", "")
    assert quick_python(package) == sys.executable
