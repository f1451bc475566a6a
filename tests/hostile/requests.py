"""Kafka requests with very many entries, made from the field tables: every array of every call. Never sends one."""

from __future__ import annotations

from typing import Any

from penstock.wire.kafka import API, encode_request, messages
from penstock.wire.kafka.notation import SchemaField, Struct

Path = tuple[str, ...]
"""The fields that lead to an array, outermost first."""

_TIMES_AND_SIZES = ("max_wait_ms", "timeout_ms", "max_bytes", "partition_max_bytes", "session_timeout_ms")
_OF_ACLS = (
    *("resource_type", "resource_pattern_type", "operation", "permission_type"),
    *("resource_type_filter", "pattern_type_filter"),
)
NUMBERS = dict.fromkeys(_TIMES_AND_SIZES, 10_000) | dict.fromkeys(_OF_ACLS, 3)
"""What fields are set to whose default makes the whole request invalid."""


def array_paths(api_key: int, version: int) -> list[Path]:
    """Every array in a request of this version."""
    return _paths(API[api_key].request.root, version)


def _paths(struct: Struct, version: int) -> list[Path]:
    found: list[Path] = []
    for field in struct.fields:
        if not field.present(version):
            continue
        if field.is_array:
            found.append((field.name,))
        if field.struct is not None:
            found += [(field.name, *path) for path in _paths(field.struct, version)]
    return found


def many(api_key: int, version: int, path: Path, count: int, **values: Any) -> bytes:
    """A request whose array at `path` has `count` entries, all others one. `values` are set at the top."""
    api = API[api_key]
    maker = _Maker(getattr(messages, api.request.name), version, count)
    message = maker.struct(api.request.root, path, 0)
    for name, value in values.items():
        setattr(message, name, value)
    return encode_request(api_key, version, 7, "attacker", message)


class _Maker:
    def __init__(self, kind: Any, version: int, count: int) -> None:
        self._kind = kind
        self._version = version
        self._count = count

    def struct(self, struct: Struct, path: Path, number: int) -> Any:
        kind = self._kind if struct.name == self._kind.__name__ else getattr(self._kind, struct.name)
        made = kind()
        for field in struct.fields:
            if field.present(self._version):
                self._fill(made, field, path, number)
        return made

    def _fill(self, made: Any, field: SchemaField, path: Path, number: int) -> None:
        is_on_path = bool(path) and path[0] == field.name
        rest = path[1:] if is_on_path else ()
        if field.is_array:
            count = self._count if is_on_path and not rest else 1 if is_on_path else 0
            setattr(made, field.name, [self._one(field, rest, index) for index in range(count)])
        elif (
            field.struct is not None
            and field.tag is None
            and (is_on_path or not field.nullable(self._version))
        ):
            setattr(made, field.name, self.struct(field.struct, rest, 0))
        elif field.type == "string" and field.tag is None:
            setattr(made, field.name, f"n{number}")
        elif field.name in NUMBERS:
            setattr(made, field.name, NUMBERS[field.name])

    def _one(self, field: SchemaField, path: Path, number: int) -> Any:
        if field.struct is not None:
            return self.struct(field.struct, path, number)
        if field.type == "string":
            return f"n{number}"
        if field.type == "int8":
            return number % 128
        return bytes(16) if field.type == "uuid" else b"" if field.type == "bytes" else number
