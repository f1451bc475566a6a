"""Every message class by Kafka's name: `messages.ProduceRequest`, and its structs as attributes of it.

A struct is `messages.ProduceRequest.PartitionProduceData`, however deep it is nested on the wire. Classes
are made on first use. Constructors take keywords only; what is left out gets Kafka's default. Never encodes.
"""

from __future__ import annotations

from typing import Any

from penstock.wire.kafka.api import API
from penstock.wire.kafka.classes import Message, make_classes
from penstock.wire.kafka.notation import Schema

_SCHEMAS = {
    f"{api.name}{side}": (api, side.lower()) for api in API.values() for side in ("Request", "Response")
}
_classes: dict[str, dict[str, type[Message]]] = {}


def classes_of(schema: Schema) -> dict[str, type[Message]]:
    """The classes of a message and of its structs, by name."""
    made = _classes.get(schema.name)
    if made is None:
        made = _classes[schema.name] = make_classes(schema)
    return made


def __getattr__(name: str) -> Any:
    if name not in _SCHEMAS:
        raise AttributeError(f"Kafka has no message {name!r} here")
    api, side = _SCHEMAS[name]
    made = classes_of(getattr(api, side))[name]
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return sorted(_SCHEMAS)
