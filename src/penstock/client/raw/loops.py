"""Selects the compiled or the interpreted record loops of `core.records`.

`PENSTOCK_DECODER` is `auto` (compiled if available), `compiled` or `interpreted`.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from penstock.client.errors import BadArgument
from penstock.core.records.loops import compiled_loops, plain_loops

VARIABLE = "PENSTOCK_DECODER"
CHOICES = ("auto", "compiled", "interpreted")


def chosen_loops(name: str = "columns") -> Any:
    """The module with the loops of `core.records.<name>`. Raises BadArgument if PENSTOCK_DECODER cannot be met."""
    choice = os.environ.get(VARIABLE, "auto").strip().lower() or "auto"
    if choice not in CHOICES:
        raise BadArgument(f"invalid {VARIABLE} {choice!r}: expected one of {', '.join(CHOICES)}")
    return _load(name, choice)


@cache
def _load(name: str, choice: str) -> Any:
    if choice != "interpreted":
        compiled = compiled_loops(name)
        if compiled is not None:
            return compiled
        if choice == "compiled":
            raise BadArgument(
                f"{VARIABLE}=compiled, but the compiled {name} loops are not installed: install a wheel "
                "built with a C compiler, or set it to auto"
            )
    return plain_loops(name)
