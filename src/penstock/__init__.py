"""Penstock: one durable, partitioned, append-only log, served through many doors.

The clients can be imported from here; each is loaded when it is first asked for, so `import penstock` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer as Consumer
    from penstock.client.errors import ClientError as ClientError
    from penstock.client.producer import Producer as Producer

__version__ = "0.1.0"

_HOMES = {
    "ClientError": "penstock.client.errors",
    "Consumer": "penstock.client.consumer",
    "Producer": "penstock.client.producer",
}
"""Where each name that is offered here lives."""

__all__ = ["ClientError", "Consumer", "Producer", "__version__"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
