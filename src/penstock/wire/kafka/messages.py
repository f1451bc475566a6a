"""Every message class by Kafka's name: `messages.ProduceRequest`, and its structs as attributes of it.

A struct is `messages.ProduceRequest.PartitionProduceData`, however deep it is nested on the wire. Classes are
created on first use. Constructors take keywords only; omitted fields get Kafka's default.
Type checkers read `messages.pyi` in place of this file: `make stubs` writes it from the same tables.
"""

from __future__ import annotations

from typing import Any

from penstock.wire.kafka.api import API
from penstock.wire.kafka.classes import classes_of

_SCHEMAS = {
    f"{api.name}{side}": (api, side.lower()) for api in API.values() for side in ("Request", "Response")
}


def __getattr__(name: str) -> Any:
    if name not in _SCHEMAS:
        raise AttributeError(f"there is no Kafka message {name!r}")
    api, side = _SCHEMAS[name]
    made = classes_of(getattr(api, side))[name]
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return sorted(_SCHEMAS)
