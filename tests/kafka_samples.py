"""Random Kafka messages of any API and version, from the schemas. Never random by itself: callers seed it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from penstock.wire.kafka import API, Api
from penstock.wire.kafka.classes import classes_of
from penstock.wire.kafka.notation import Schema, SchemaField, Struct

INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS = ("", "a", "orders", "größe", "注文", "x" * 126, "y" * 127, "z" * 300)
TIME_S_MAX = 2_000_000_000
"""Times are whole seconds of our days: any number is legal, but an oracle turns it into a date by floats."""


def message_versions() -> Iterator[tuple[Api, int]]:
    """Every API and version that can be encoded."""
    for api in API.values():
        for version in range(api.version_min, api.version_max + 1):
            yield api, version


def sample(schema: Schema, version: int, rng: Random) -> Any:
    """A random message that this version can carry."""
    return _struct(schema.root, version, rng, classes_of(schema))


def _struct(struct: Struct, version: int, rng: Random, classes: dict[str, Any]) -> Any:
    values = {}
    for field in struct.fields:
        if not field.present(version) or (field.tag is not None and rng.random() < 0.4):
            continue
        value = _field(field, version, rng, classes)
        if field.tag is not None and value == classes.get(field.type, object)():
            continue  # a tagged struct of defaults is not sent, and is absent when read
        values[field.name] = value
    return classes[struct.name](**values)


def _field(field: SchemaField, version: int, rng: Random, classes: dict[str, Any]) -> Any:
    if field.nullable(version) and rng.random() < 0.25:
        return None
    if field.is_array:
        count = rng.choice((0, 1, 1, 2, 3)) if field.struct is not None else rng.choice((0, 1, 5, 130))
        return [_value(field, version, rng, classes) for _ in range(count)]
    return _value(field, version, rng, classes)


def _value(field: SchemaField, version: int, rng: Random, classes: dict[str, Any]) -> Any:
    if field.struct is not None:
        return _struct(field.struct, version, rng, classes)
    match field.type:
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return rng.uniform(-1e9, 1e9)
        case "uuid":
            return rng.randbytes(16)
        case "string":
            return rng.choice(TEXTS)
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 1, 126, 127, 1000, 20_000)))
        case "uint16":
            return rng.choice((0, 1, 65_535))
    if field.name.endswith("error_code"):
        return rng.randint(36, 120)  # not 35: a refused ApiVersions is always in version 0
    if field.type == "int64" and ("timestamp" in field.name or field.name.endswith("_ms")):
        return rng.randint(0, TIME_S_MAX) * 1_000
    bits = INT_BITS[field.type]
    return rng.choice((-(1 << bits - 1), -1, 0, 1, (1 << bits - 1) - 1, rng.getrandbits(bits - 1)))
