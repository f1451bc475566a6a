"""Chooses between the compiled and the plain loops over records. Never has loops of its own.

`PENSTOCK_DECODER` is `auto` (compiled where that was built), `compiled` or `interpreted`.
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
    """The module with the loops of `core.records.<name>`. Raises BadArgument when the environment asks in vain."""
    choice = os.environ.get(VARIABLE, "auto").strip().lower() or "auto"
    if choice not in CHOICES:
        raise BadArgument(f"{VARIABLE} is {choice!r}; it is one of {', '.join(CHOICES)}")
    return _load(name, choice)


@cache
def _load(name: str, choice: str) -> Any:
    if choice != "interpreted":
        compiled = compiled_loops(name)
        if compiled is not None:
            return compiled
        if choice == "compiled":
            raise BadArgument(
                f"{VARIABLE}=compiled, but the loops of {name} were not compiled here: install a wheel that was "
                "built with a C compiler, or set it to auto"
            )
    return plain_loops(name)
