"""What turns keys and values into bytes and back. Never sees a broker; a program may bring its own.

A serializer is anything with `encode` and `decode`. What they raise reaches the caller as SerializationFailed.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from penstock.client.errors import BadArgument, SerializationFailed

SerializerWord = Literal["binary", "string", "json"]


@runtime_checkable
class Serializer(Protocol):
    """How one kind of value is written and read. None is never passed: a key or value that is absent stays absent."""

    def encode(self, value: Any, topic: str) -> bytes:
        """The bytes of a value."""

    def decode(self, data: bytes, topic: str) -> Any:
        """The value of bytes."""


class Binary:
    """Bytes as they are. Text is written as UTF-8 and comes back as bytes."""

    def encode(self, value: Any, topic: str) -> bytes:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise TypeError(f"bytes or text, not {type(value).__name__}; for others there are 'json' and Avro")

    def decode(self, data: bytes, topic: str) -> bytes:
        return data


class String:
    """Text in UTF-8."""

    def encode(self, value: Any, topic: str) -> bytes:
        if not isinstance(value, str):
            raise TypeError(f"text, not {type(value).__name__}")
        return value.encode()

    def decode(self, data: bytes, topic: str) -> str:
        return data.decode()


class Json:
    """JSON in UTF-8, without spaces. NaN and infinity are refused: no other reader would take them."""

    def encode(self, value: Any, topic: str) -> bytes:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

    def decode(self, data: bytes, topic: str) -> Any:
        return json.loads(data)


AvroSchema = str | Path | dict[str, Any] | list[Any]


class Avro:
    """Avro without a container: the bytes of one value and nothing else. Needs `pip install penstock[avro]`.

    The schema is an object as in JSON, or the path of an .avsc file. Where values were written with another one,
    `written_with` names that, and Avro's rules lead from it to `schema`.
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
            raise ValueError(f"{left} bytes are left over: it was written with another schema")
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
        raise BadArgument(f"The Avro schema {schema!r} cannot be used: {error}") from error


_WORDS: dict[str, type[Binary] | type[String] | type[Json]] = {
    "binary": Binary,
    "string": String,
    "json": Json,
}


def serializer(wanted: SerializerWord | Serializer) -> Serializer:
    """The serializer of a word, or the object itself."""
    return _WORDS[wanted]() if isinstance(wanted, str) else wanted


def encode(serializer: Serializer, value: Any, topic: str, about: str) -> bytes | None:
    """The bytes of a key or value. Raises SerializationFailed, whatever the serializer raised."""
    if value is None:
        return None
    try:
        return serializer.encode(value, topic)
    except Exception as error:
        raise SerializationFailed(f"{about} cannot be written: {error}") from error


def decode(serializer: Serializer, data: bytes | None, topic: str, about: str) -> Any:
    """The value of bytes. Raises SerializationFailed, whatever the serializer raised."""
    if data is None:
        return None
    try:
        return serializer.decode(data, topic)
    except Exception as error:
        raise SerializationFailed(f"{about} cannot be read: {error}") from error
