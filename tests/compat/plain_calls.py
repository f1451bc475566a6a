"""Requests and answers of any API as nested dicts, over a bare connection. Never negotiates, never retries."""

from __future__ import annotations

from typing import Any

from compat.raw import RawConnection
from penstock.wire.kafka import API, ApiKey, decode_response, encode_request, messages
from penstock.wire.kafka.notation import Struct

Plain = dict[str, Any]


def ask(raw: RawConnection, key: ApiKey, version: int, body: Plain) -> Plain:
    """Send one request and read its answer, each field by the name that Kafka gives it."""
    kind = getattr(messages, f"{API[key].name}Request")
    request = _built(kind, kind, API[key].request.root, body)
    raw.send_bytes(bytes(encode_request(key, version, 1, raw.client_id, request)))
    correlation_id, answer = decode_response(key, version, raw.receive_frame())
    assert correlation_id == 1
    return plain(answer, API[key].response.root, version)


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
