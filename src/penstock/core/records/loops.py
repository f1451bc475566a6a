"""Loads the loops over records: the compiled module if it was built, else its pure-Python sibling."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import Any


@cache
def load_loops(name: str) -> Any:
    """`core.records.<name>_compiled` if it was built, else `<name>_loops`."""
    return compiled_loops(name) or plain_loops(name)


def plain_loops(name: str) -> Any:
    return import_module(f"penstock.core.records.{name}_loops")


def compiled_loops(name: str) -> Any | None:
    """The compiled module if it was built. Its source lies beside it and cannot run uncompiled."""
    module = f"penstock.core.records.{name}_compiled"
    found = find_spec(module)
    if found is None or not str(found.origin).endswith(tuple(EXTENSION_SUFFIXES)):
        return None
    return import_module(module)
