"""Batches as librdkafka writes them, taken from its own mock cluster, read by our codecs and record walk."""

from __future__ import annotations

import socket
import struct

import pytest
from confluent_kafka import Producer

from penstock.core.codecs import CODEC_NAMES
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.model import Header, Record
from penstock.core.records.compression import decompress
from penstock.core.records.payload import decode_records, iterate_keys

COUNT = 500
BASE_MS = 1_700_000_000_000
PLENTY = 2**24


def produce(codec: str) -> list[bytes]:
    """Let librdkafka write to a cluster inside its own process, and fetch the raw batches from there."""
    producer = Producer({"test.mock.num.brokers": 1, "compression.type": codec, "linger.ms": 200})
    for number in range(COUNT):
        producer.produce(
            "orders",
            key=b"key-%d" % (number % 7),
            value=None if number % 10 == 0 else b"value %d " % number * 5,
            partition=0,
            timestamp=BASE_MS + number,
            headers=[("trace", b"%d" % number), ("empty", None)],
        )
    assert producer.flush(30) == 0
    (broker,) = producer.list_topics(timeout=30).brokers.values()
    with socket.create_connection((broker.host, broker.port), timeout=30) as connection:
        batches: list[bytes] = []
        while (end := end_of(batches)) < COUNT:
            batches += split(fetch(connection, end))
        return batches


def end_of(batches: list[bytes]) -> int:
    """The offset behind the last of some batches."""
    if not batches:
        return 0
    (base_offset,) = struct.unpack_from(">q", batches[-1])
    (last_delta,) = struct.unpack_from(">i", batches[-1], 23)
    return int(base_offset + last_delta + 1)


def fetch(connection: socket.socket, offset: int) -> bytes:
    """One Fetch request of version 4, by hand: correlation 1, partition 0 of `orders` from an offset on."""
    header = struct.pack(">hhih", 1, 4, 1, -1)
    body = struct.pack(">iiiib", -1, 1000, 1, PLENTY, 0)
    body += struct.pack(">ih6siiqi", 1, 6, b"orders", 1, 0, offset, PLENTY)
    connection.sendall(struct.pack(">i", len(header + body)) + header + body)
    stream = connection.makefile("rb")
    (size,) = struct.unpack(">i", stream.read(4))
    reply = stream.read(size)
    aborted_position = struct.calcsize(">ii") + struct.calcsize(">ih6si") + struct.calcsize(">ihqq")
    (aborted,) = struct.unpack_from(">i", reply, aborted_position)
    records_position = aborted_position + 4 + 16 * max(aborted, 0)
    (length,) = struct.unpack_from(">i", reply, records_position)
    return reply[records_position + 4 : records_position + 4 + length]


def split(records: bytes) -> list[bytes]:
    batches = []
    while records:
        size = 12 + struct.unpack_from(">i", records, 8)[0]
        batches.append(records[:size])
        records = records[size:]
    return batches


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_every_codec_of_librdkafka_is_read(codec: int) -> None:
    seen: list[Record] = []
    for batch in produce(CODEC_NAMES[codec]):
        (base_offset,) = struct.unpack_from(">q", batch)
        attributes, _, base_ms, _ = struct.unpack_from(">hiqq", batch, 21)
        (count,) = struct.unpack_from(">i", batch, BATCH_HEADER_BYTES - 4)
        assert attributes & 7 == codec
        payload = decompress(codec, memoryview(batch)[BATCH_HEADER_BYTES:], PLENTY)
        records = decode_records(payload, count, base_offset, base_ms)
        assert [span.key for span in iterate_keys(payload, count)] == [record.key for record in records]
        seen += records
    assert seen == [
        Record(
            number,
            BASE_MS + number,
            b"key-%d" % (number % 7),
            None if number % 10 == 0 else b"value %d " % number * 5,
            (Header("trace", b"%d" % number), Header("empty", None)),
        )
        for number in range(COUNT)
    ]
