"""Messages keep what Kafka's records have: null, empty, repeated headers; formats convert both ways."""

from __future__ import annotations

import pytest

from penstock.apps.gateways.conversion import MessageWriter, RecordReader, from_log, to_log
from penstock.client.errors import BadArgument, SerializationFailed
from penstock.v1 import consumer_pb2, message_pb2

BINARY = message_pb2.Serializer()
STRING = message_pb2.Serializer(format=message_pb2.FORMAT_STRING)
JSON = message_pb2.Serializer(format=message_pb2.FORMAT_JSON)
AVRO = message_pb2.Serializer(format=message_pb2.FORMAT_AVRO, avro_schema='"long"')


def test_records_survive_a_round_trip() -> None:
    rows = [
        (7, 1_000, None, None, None),
        (8, None, b"", b"", [("a", b"text"), ("a", b"\xff"), ("b", None), ("c", b"")]),
        (9, 0, b"key", b"value", None),
    ]
    batch = consumer_pb2.Batch()
    MessageWriter("t", BINARY, BINARY).write(batch.messages.add, 2, rows)
    read = RecordReader("t", BINARY, BINARY).read(batch.messages)
    assert read == [(key, value, headers, 2, time) for _, time, key, value, headers in rows]
    assert [one.offset for one in batch.messages] == [7, 8, 9]
    assert dict(batch.messages[1].headers) == {"a": "text", "c": ""}


def test_fields_that_are_set_tell_null_from_empty() -> None:
    keys_and_values = [(None, b"v"), (b"k", b"v"), (b"", b""), (None, b""), (b"k", None), (None, None)]
    batch = consumer_pb2.Batch(
        messages=[message_pb2.Message(key=key, value=value) for key, value in keys_and_values]
    )
    read = RecordReader("t", BINARY, BINARY).read(batch.messages)
    assert read == [(key, value, None, None, None) for key, value in keys_and_values]
    with_partition = message_pb2.Message(value=b"v", partition=0)
    assert RecordReader("t", BINARY, BINARY).read([with_partition]) == [(None, b"v", None, 0, None)]


@pytest.mark.parametrize("message", [message_pb2.Message(partition=-1), message_pb2.Message(timestamp=-5)])
def test_negative_numbers_are_refused(message: message_pb2.Message) -> None:
    with pytest.raises(BadArgument, match="is negative"):
        RecordReader("t", BINARY, BINARY).read([message])


@pytest.mark.parametrize(
    ("serializer", "sent", "stored", "received"),
    [
        (STRING, "é".encode(), "é".encode(), "é".encode()),
        (JSON, b'{ "a": [1, null] }', b'{"a":[1,null]}', b'{"a":[1,null]}'),
        (JSON, b"null", b"null", b"null"),
        (AVRO, b"-1", b"\x01", b"-1"),
    ],
)
def test_formats(serializer: message_pb2.Serializer, sent: bytes, stored: bytes, received: bytes) -> None:
    write, read = to_log(serializer, "t", "value"), from_log(serializer, "t", "value")
    assert write is not None
    assert read is not None
    assert (write(sent), read(stored)) == (stored, received)


@pytest.mark.parametrize(
    ("serializer", "data"), [(STRING, b"\xff"), (JSON, b"{"), (AVRO, b'"text"'), (AVRO, b"nonsense")]
)
def test_what_cannot_be_converted(serializer: message_pb2.Serializer, data: bytes) -> None:
    write = to_log(serializer, "t", "value")
    assert write is not None
    with pytest.raises(SerializationFailed):
        write(data)


@pytest.mark.parametrize(
    "serializer",
    [
        message_pb2.Serializer(format=9),  # type: ignore[arg-type]
        message_pb2.Serializer(format=message_pb2.FORMAT_AVRO),
        message_pb2.Serializer(format=message_pb2.FORMAT_AVRO, avro_schema="{"),
        message_pb2.Serializer(format=message_pb2.FORMAT_AVRO, avro_schema='{"type": "nonsense"}'),
    ],
)
def test_wrong_serializers(serializer: message_pb2.Serializer) -> None:
    with pytest.raises(BadArgument):
        to_log(serializer, "t", "value")
