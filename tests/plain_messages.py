"""Requests of any Kafka API from nested dicts, and answers as nested dicts. Never sends."""

from __future__ import annotations

from typing import Any

from penstock.wire.kafka import API, ApiKey, messages
from penstock.wire.kafka.notation import Struct

Plain = dict[str, Any]


def build_request(key: ApiKey, body: Plain) -> Any:
    """A request of any API, from nested dicts."""
    kind = getattr(messages, f"{API[key].name}Request")
    return _built(kind, kind, API[key].request.root, body)


def _built(root: Any, kind: Any, struct: Struct, values: Plain) -> Any:
    fields = {field.name: field for field in struct.fields}
    made: Plain = {}
    for name, value in values.items():
        inner = fields[name].struct
        if inner is None or value is None:
            made[name] = value
        elif fields[name].is_array:
            made[name] = [_built(root, getattr(root, inner.name), inner, item) for item in value]
        else:
            made[name] = _built(root, getattr(root, inner.name), inner, value)
    return kind(**made)


def plain(message: Any, struct: Struct, version: int) -> Plain:
    """An answer as JSON can hold it; ids as hex."""
    return {
        field.name: _value(getattr(message, field.name), field.struct, version)
        for field in struct.fields
        if field.present(version)
    }


def _value(value: Any, struct: Struct | None, version: int) -> Any:
    if isinstance(value, list | tuple):
        return [_value(item, struct, version) for item in value]
    if struct is not None and value is not None:
        return plain(value, struct, version)
    return value.hex() if isinstance(value, bytes) else value
