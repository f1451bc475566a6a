"""Wrapper scripts around Java and Python, stored in the user's cache directory. Never runs one."""

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
"""Spark puts zip files with its Python code on PYTHONPATH, ahead of the installed package. Python recompiles modules
from a zip at every start, which makes each worker start three times slower, and a query has many. The wrapper removes
the zips and replaces PySpark's daemon with ours."""


def cached_script(name: str, text: str) -> Path:
    """The path of a script with this text; written unless it exists. Raises OSError."""
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
    """The Python command for local workers; plain `sys.executable` if the cache directory is not writable.

    `package` is the directory in which pyspark and its zips are installed.
    """
    text = _PYTHON.format(spark=package, python=sys.executable)
    try:
        return str(cached_script(f"python-{hashlib.sha256(text.encode()).hexdigest()[:12]}", text))
    except OSError:
        return sys.executable
