"""Converts between messages of the services and records of the client, and between the formats of a Serializer.

With the format BINARY, the default, keys and values are passed on unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from penstock.apps.gateways.errors import failure_message
from penstock.client.errors import BadArgument, SerializationFailed
from penstock.client.messages import HeaderValue
from penstock.client.rdkafka.batch_sender import RawRecord
from penstock.client.rdkafka.group_member import Row
from penstock.client.serializers import Avro, Json, String, decode, encode
from penstock.client.serializers import Serializer as ClientSerializer
from penstock.v1 import message_pb2

Convert = Callable[[bytes], bytes]
"""Converts a key or a value that is not null. Raises SerializationFailed."""

SCHEMA_BYTES_MAX = 1 << 20

_KEY = message_pb2.Message.DESCRIPTOR.fields_by_name["key"]
_VALUE = message_pb2.Message.DESCRIPTOR.fields_by_name["value"]


def to_log(serializer: message_pb2.Serializer, topic: str, about: str) -> Convert | None:
    """The conversion of what a client sends; None if bytes are stored unchanged. Raises BadArgument."""
    kind = _client_serializer(serializer, about)
    if kind is None:
        return None
    if isinstance(kind, String):
        return lambda data: _text(kind, data, topic, about).encode()
    source = Json()

    def convert(data: bytes) -> bytes:
        value = decode(source, data, topic, about)
        encoded = encode(kind, value, topic, about)
        return b"null" if encoded is None else encoded  # the JSON value null is not the absence of a value

    return convert


def from_log(serializer: message_pb2.Serializer, topic: str, about: str) -> Convert | None:
    """The conversion of what a client receives; None if bytes are passed on unchanged. Raises BadArgument."""
    kind = _client_serializer(serializer, about)
    if kind is None:
        return None
    if isinstance(kind, String):
        return lambda data: _text(kind, data, topic, about).encode()

    def convert(data: bytes) -> bytes:
        value = decode(kind, data, topic, about)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json_value).encode()

    return convert


def _text(kind: String, data: bytes, topic: str, about: str) -> str:
    text = decode(kind, data, topic, about)
    assert isinstance(text, str)
    return text


def _json_value(value: object) -> str:
    """A value of Avro that JSON does not have: bytes as Avro's JSON encoding writes them, others as text."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _client_serializer(serializer: message_pb2.Serializer, about: str) -> ClientSerializer | None:
    match serializer.format:
        case message_pb2.FORMAT_UNSPECIFIED | message_pb2.FORMAT_BINARY:
            return None
        case message_pb2.FORMAT_STRING:
            return String()
        case message_pb2.FORMAT_JSON:
            return Json()
        case message_pb2.FORMAT_AVRO:
            return _avro(serializer.avro_schema, about)
    raise BadArgument(f"{about}: unknown format {serializer.format}.")


def _avro(schema: str, about: str) -> Avro:
    if not schema:
        raise BadArgument(f"{about}: the format AVRO needs avro_schema.")
    if len(schema) > SCHEMA_BYTES_MAX:
        raise BadArgument(f"{about}: avro_schema is larger than {SCHEMA_BYTES_MAX} bytes.")
    try:
        parsed = json.loads(schema)
    except ValueError as error:
        raise BadArgument(f"{about}: avro_schema is not JSON: {error}") from error
    if not isinstance(parsed, dict | list):
        parsed = {"type": parsed}
    return Avro(parsed)


class RecordReader:
    """Reads the messages of requests with one topic and one choice of serializers as records of the client."""

    def __init__(
        self, topic: str, key_serializer: message_pb2.Serializer, value_serializer: message_pb2.Serializer
    ) -> None:
        self._key = to_log(key_serializer, topic, f"{topic}: the key")
        self._value = to_log(value_serializer, topic, f"{topic}: the value")

    def read(self, messages: Sequence[message_pb2.Message]) -> list[RawRecord]:
        """Raises SerializationFailed, BadArgument."""
        if self._key is not None or self._value is not None:
            return [self._record(one) for one in messages]
        records: list[RawRecord] = []
        add = records.append
        for message in messages:
            # One call tells which fields are set: most messages have a value, or a key and a value.
            fields = message.ListFields()
            if len(fields) == 1 and fields[0][0] is _VALUE:
                add((None, fields[0][1], None, None, None))
            elif len(fields) == 2 and fields[0][0] is _KEY and fields[1][0] is _VALUE:
                add((fields[0][1], fields[1][1], None, None, None))
            else:
                add(self._record(message))
        return records

    def _record(self, message: message_pb2.Message) -> RawRecord:
        # Presence costs a call: only a field with its default value can be absent.
        key: bytes | None = message.key
        if not key and not message.HasField("key"):
            key = None
        value: bytes | None = message.value
        if not value and not message.HasField("value"):
            value = None
        partition: int | None = message.partition
        if not partition and not message.HasField("partition"):
            partition = None
        timestamp_ms: int | None = message.timestamp
        if not timestamp_ms and not message.HasField("timestamp"):
            timestamp_ms = None
        if self._key is not None and key is not None:
            key = self._key(key)
        if self._value is not None and value is not None:
            value = self._value(value)
        if partition is not None and partition < 0:
            raise BadArgument(f"partition {partition} is negative; leave it unset for the partitioner.")
        if timestamp_ms is not None and timestamp_ms < 0:
            raise BadArgument(f"timestamp {timestamp_ms} is negative; leave it unset for the current time.")
        return (key, value, _headers(message), partition, timestamp_ms)


def _headers(message: message_pb2.Message) -> list[tuple[str, HeaderValue]] | None:
    if message.raw_headers:
        return [(one.name, one.value if one.HasField("value") else None) for one in message.raw_headers]
    if message.headers:
        return [(name, value.encode()) for name, value in message.headers.items()]
    return None


class MessageWriter:
    """Writes records of the log as messages, with one choice of serializers."""

    def __init__(
        self, about: str, key_serializer: message_pb2.Serializer, value_serializer: message_pb2.Serializer
    ) -> None:
        self._key = from_log(key_serializer, about, f"{about}: the key")
        self._value = from_log(value_serializer, about, f"{about}: the value")
        self._converts = self._key is not None or self._value is not None

    def write(self, add: Callable[..., message_pb2.Message], partition: int, rows: Iterable[Row]) -> None:
        """Add one message per row. A row that cannot be converted keeps its bytes and says why."""
        for offset, timestamp_ms, key, value, headers in rows:
            message = add()  # fields one by one: faster than as arguments
            message.offset = offset
            message.partition = partition
            if timestamp_ms is not None:
                message.timestamp = timestamp_ms
            if key is not None:
                message.key = key
            if value is not None:
                message.value = value
            if headers:
                _write_headers(message, headers)
            if self._converts:
                self._convert(message)

    def _convert(self, message: message_pb2.Message) -> None:
        try:
            key = self._key(message.key) if self._key is not None and message.HasField("key") else None
            if self._value is not None and message.HasField("value"):
                message.value = self._value(message.value)
            if key is not None:
                message.key = key
        except SerializationFailed as error:
            message.failure.CopyFrom(failure_message(error))


def _write_headers(message: message_pb2.Message, headers: Iterable[tuple[str, bytes | None]]) -> None:
    for name, value in headers:
        message.raw_headers.add(name=name, value=value)
        if value is not None:
            try:
                message.headers[name] = value.decode()
            except UnicodeDecodeError:
                continue
