"""Small programs that stand before Java and Python, kept in the user's cache. Never runs one."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

_PYTHON = """#!/bin/sh
set -f
IFS=:
kept=
for place in $PYTHONPATH; do
  case "$place" in "{spark}"/*) ;; *) kept="$kept${{kept:+:}}$place" ;; esac
done
unset IFS
if [ "$1" = -m ] && [ "$2" = pyspark.daemon ]; then
  shift 2
  set -- -m penstock.spark.daemon "$@"
fi
PYTHONPATH="$kept" exec "{python}" "$@"
"""
"""Spark puts zips with its own Python code before the same code where it is installed. What comes from a zip is
compiled at every start: that takes each worker, and a query has many, three times as long. Workers are forked by our
form of PySpark's daemon."""


def kept_script(name: str, text: str) -> Path:
    """A program of this text, written if it is not there. Raises OSError."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    script = caches / "penstock" / name
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"{script.name}.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(script)
    return script


def quick_python(package: Path) -> str:
    """This Python as workers on this machine should call it; as it is, where the cache cannot be written.

    `package` is where pyspark is installed, its zips and all.
    """
    text = _PYTHON.format(spark=package, python=sys.executable)
    try:
        return str(kept_script(f"python-{hashlib.sha256(text.encode()).hexdigest()[:12]}", text))
    except OSError:
        return sys.executable
