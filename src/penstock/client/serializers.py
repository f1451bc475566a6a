"""Serializers for keys and values. Programs can supply their own.

A serializer is any object with `encode` and `decode`. Exceptions they raise become SerializationFailed.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from penstock.client.errors import BadArgument, SerializationFailed

SerializerName = Literal["binary", "string", "json"]


@runtime_checkable
class Serializer(Protocol):
    """Encodes and decodes one type of value. Never called with None: a null key or value stays null."""

    def encode(self, value: Any, topic: str) -> bytes:
        """Encode a value."""

    def decode(self, data: bytes, topic: str) -> Any:
        """Decode a value."""


class Binary:
    """Raw bytes. Text is encoded as UTF-8 and is returned as bytes."""

    def encode(self, value: Any, topic: str) -> bytes:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise TypeError(
            f"expected bytes or str, not {type(value).__name__}; use 'json' or Avro for other types"
        )

    def decode(self, data: bytes, topic: str) -> bytes:
        return data


class String:
    """Text in UTF-8."""

    def encode(self, value: Any, topic: str) -> bytes:
        if not isinstance(value, str):
            raise TypeError(f"expected str, not {type(value).__name__}")
        return value.encode()

    def decode(self, data: bytes, topic: str) -> str:
        return data.decode()


class Json:
    """Compact JSON in UTF-8. NaN and infinity are rejected, because they are not valid JSON."""

    def encode(self, value: Any, topic: str) -> bytes:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    def decode(self, data: bytes, topic: str) -> Any:
        return json.loads(data)


AvroSchema = str | Path | dict[str, Any] | list[Any]


class Avro:
    """Schemaless Avro: the encoded value without a container. Needs `pip install penstock[avro]`.

    The schema is a parsed JSON object or the path of an .avsc file. `written_with` is the writer's schema if it
    differs; Avro schema resolution maps it to `schema`.
    """

    def __init__(self, schema: AvroSchema, written_with: AvroSchema | None = None) -> None:
        self._schema = _load(schema)
        self._written_with = _load(written_with) if written_with is not None else self._schema

    def encode(self, value: Any, topic: str) -> bytes:
        from fastavro import schemaless_writer

        out = io.BytesIO()
        schemaless_writer(out, self._schema, value, strict_allow_default=True)
        return out.getvalue()

    def decode(self, data: bytes, topic: str) -> Any:
        from fastavro import schemaless_reader

        reader = io.BytesIO(data)
        value = schemaless_reader(reader, self._written_with, self._schema)
        left = len(data) - reader.tell()
        if left:
            raise ValueError(f"{left} trailing bytes: the value was written with another schema")
        return value


def _load(schema: AvroSchema) -> Any:
    try:
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema
    except ImportError as error:
        raise BadArgument("Avro needs fastavro: pip install 'penstock[avro]'") from error
    try:
        if isinstance(schema, str | Path):
            return parse_schema(json.loads(Path(schema).read_text("utf-8")))
        return parse_schema(schema)
    except (SchemaParseException, UnknownType, OSError, ValueError, KeyError) as error:
        raise BadArgument(f"Invalid Avro schema {schema!r}: {error}") from error


_BUILT_IN: dict[str, type[Binary] | type[String] | type[Json]] = {
    "binary": Binary,
    "string": String,
    "json": Json,
}


def serializer(wanted: SerializerName | Serializer) -> Serializer:
    """The built-in serializer of that name, or the object itself."""
    return _BUILT_IN[wanted]() if isinstance(wanted, str) else wanted


def encode(serializer: Serializer, value: Any, topic: str, about: str) -> bytes | None:
    """Encode a key or value. Raises SerializationFailed for any exception of the serializer."""
    if value is None:
        return None
    try:
        return serializer.encode(value, topic)
    except Exception as error:
        raise SerializationFailed(f"{about} cannot be encoded: {error}") from error


def decode(serializer: Serializer, data: bytes | None, topic: str, about: str) -> Any:
    """Decode a key or value. Raises SerializationFailed for any exception of the serializer."""
    if data is None:
        return None
    try:
        return serializer.decode(data, topic)
    except Exception as error:
        raise SerializationFailed(f"{about} cannot be decoded: {error}") from error
