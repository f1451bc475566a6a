"""Imports the Python functions that a definition names as `module:name`. Never calls one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.client.errors import NotInstalled
from penstock.client.extras import extras
from penstock.spark.pipelines.problems import Problems, suggestion


def find_function(word: str, path: str, home: Path, problems: Problems) -> Callable[..., Any] | None:
    """Look up a function; modules next to the definition come first. Errors are added to `problems`."""
    module_name, _, name = word.partition(":")
    try:
        with extras():
            module = _import(module_name, home)
    except NotInstalled:
        raise
    except ImportError as error:
        is_missing = (error.name or "").partition(".")[0] == module_name.partition(".")[0]
        remedy = f"Put {module_name}.py next to the definition." if is_missing else ""
        problems.add(path, f"cannot import {module_name}: {error}.", remedy)
        return None
    except Exception as error:  # noqa: BLE001 - user code may raise anything; it is reported with the other problems
        problems.add(path, f"{module_name} does not load: {type(error).__name__}: {error}.")
        return None
    found = getattr(module, name, None)
    if not callable(found):
        known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        problems.add(path, f"{module_name} has no function {name}.", suggestion(name, known) if known else "")
        return None
    return found  # type: ignore[no-any-return]


def _import(name: str, home: Path) -> ModuleType:
    """Import a module. One next to the definition shadows others of its name and is pickled to Spark's workers."""
    file = (home / name.replace(".", "/")).with_suffix(".py")
    if not file.is_file():
        return importlib.import_module(name)
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) != str(file):
        del sys.modules[name]
    sys.path.insert(0, str(home))
    try:
        importlib.invalidate_caches()
        module = importlib.import_module(name)
    finally:
        sys.path.remove(str(home))
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def get_function(word: str | Callable[..., Any], home: Path) -> Callable[..., Any]:
    """Look up a function of a validated definition."""
    if not isinstance(word, str):
        return word
    problems = Problems()
    found = find_function(word, word, home, problems)
    problems.raise_any()
    assert found is not None
    return found
