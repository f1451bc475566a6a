"""Records inside a batch, byte for byte against two other writers, and with every length made a lie."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from penstock.core.errors import CorruptBatch
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.model import Header, NewRecord, Record
from penstock.core.records.payload import decode_records, encode_records, iterate_keys
from penstock.core.records.varint import encode as varint

BASE_MS = 1_700_000_000_000
BUILDERS = [KafkaPythonBuilder, AiokafkaBuilder]
PAIRS = [(KafkaPythonBuilder, KafkaPythonBatch), (AiokafkaBuilder, AiokafkaBatch)]

RECORDS = [
    NewRecord(b"k", b"v", (), BASE_MS),
    NewRecord(None, b"v" * 100, (), BASE_MS + 1),
    NewRecord(b"gone", None, (), BASE_MS + 70),
    NewRecord(b"", b"", (), BASE_MS - 5),
    NewRecord(
        None, None, (Header("a", b"1"), Header("a", None), Header("größe", b"")), BASE_MS + 10_000_000_000
    ),
    NewRecord(b"K" * 9_000, b"V" * 20_000, (Header("h" * 200, b"x" * 300),), BASE_MS),
    *(NewRecord(b"%d" % n, b"value", (), BASE_MS + n) for n in range(200)),
]


def build(builder: type, records: Sequence[NewRecord]) -> bytes:
    """The whole batch that another client writes for these records."""
    batch = builder(2, 0, False, -1, -1, -1, 2**20)
    for offset, record in enumerate(records):
        headers = [tuple(header) for header in record.headers]
        batch.append(offset, record.timestamp_ms, record.key, record.value, headers)
    return bytes(batch.build())


def wanted(records: Sequence[NewRecord], base_offset: int) -> list[Record]:
    return [Record(base_offset + i, r.timestamp_ms, r.key, r.value, r.headers) for i, r in enumerate(records)]


@pytest.mark.parametrize("builder", BUILDERS)
def test_we_write_what_others_write(builder: type) -> None:
    assert encode_records(RECORDS, BASE_MS) == build(builder, RECORDS)[BATCH_HEADER_BYTES:]


@pytest.mark.parametrize("builder", BUILDERS)
def test_we_read_what_others_write(builder: type) -> None:
    payload = build(builder, RECORDS)[BATCH_HEADER_BYTES:]
    assert decode_records(payload, len(RECORDS), 1000, BASE_MS) == wanted(RECORDS, 1000)
    assert decode_records(memoryview(payload), len(RECORDS), 0, BASE_MS) == wanted(RECORDS, 0)


@pytest.mark.parametrize(("builder", "reader"), PAIRS)
def test_others_read_what_we_write(builder: type, reader: type) -> None:
    header = build(builder, RECORDS)[:BATCH_HEADER_BYTES]
    batch = reader(bytearray(header + encode_records(RECORDS, BASE_MS)))
    assert batch.validate_crc()
    seen = [
        Record(r.offset, r.timestamp, r.key, r.value, tuple(Header(*header) for header in r.headers))
        for r in batch
    ]
    assert seen == wanted(RECORDS, 0)


def test_a_record_without_a_time_gets_the_base_time() -> None:
    payload = encode_records([NewRecord(None, b"v")], BASE_MS)
    assert decode_records(payload, 1, 0, BASE_MS)[0].timestamp_ms == BASE_MS


def test_log_append_time_replaces_every_timestamp() -> None:
    payload = encode_records(RECORDS, BASE_MS)
    seen = decode_records(payload, len(RECORDS), 0, BASE_MS, log_append_time_ms=77)
    assert {record.timestamp_ms for record in seen} == {77}


def test_no_records_are_no_bytes() -> None:
    assert encode_records([], BASE_MS) == b""
    assert decode_records(b"", 0, 0, 0) == []
    assert list(iterate_keys(b"", 0)) == []


def test_spans_can_be_copied_and_read_again() -> None:
    payload = encode_records(RECORDS, BASE_MS)
    spans = list(iterate_keys(memoryview(payload), len(RECORDS)))
    assert b"".join(payload[span.start : span.end] for span in spans) == payload
    assert [span.key for span in spans] == [record.key for record in RECORDS]
    assert [span.value_is_null for span in spans] == [record.value is None for record in RECORDS]
    assert [BASE_MS + span.timestamp_delta for span in spans] == [record.timestamp_ms for record in RECORDS]
    kept = spans[::2]
    copy = b"".join(payload[span.start : span.end] for span in kept)
    everything = wanted(RECORDS, 500)
    assert decode_records(copy, len(kept), 500, BASE_MS) == [everything[span.offset_delta] for span in kept]


def one(
    *,
    length: int | None = None,
    offset: bytes = b"\0",
    key_length: int = -1,
    value_length: int = -1,
    headers: bytes = b"\0",
) -> bytes:
    """One record of whatever lengths, with no bytes where its key and value should be."""
    body = b"\0" + b"\0" + offset + varint(key_length) + varint(value_length) + headers
    return varint(len(body) if length is None else length) + body


LIES = {
    "length over the end": one(length=50),
    "negative length": one(length=-1),
    "huge length": one(length=2**31 - 1),
    "length too short": one(length=3),
    "length one short": one(length=5) + b"",
    "key beyond the record": one(key_length=2),
    "key beyond the batch": one(key_length=10_000),
    "key of length -2": one(key_length=-2),
    "value beyond the record": one(value_length=1),
    "value of length -2": one(value_length=-2),
    "value of length -(2^31)": one(value_length=-(2**31)),
    "negative offset": one(offset=b"\x01"),
    "endless offset": one(offset=b"\x80" * 30),
    "trailing bytes": one() + b"\0",
    "bytes inside after the headers": one(headers=b"\0\0"),
    "more headers than bytes": one(headers=varint(1000)),
    "negative number of headers": one(headers=varint(-1)),
    "header without a name": one(headers=varint(1) + varint(-1) + varint(-1)),
    "header name of length -2": one(headers=varint(1) + varint(-2) + varint(-1)),
    "header name beyond the record": one(headers=varint(1) + varint(9) + varint(-1)),
    "header value beyond the record": one(headers=varint(1) + varint(0) + varint(9)),
}
LIES_IN_HEADERS = {name for name in LIES if "header" in name}


def test_a_header_name_that_is_not_utf8_is_shown_as_far_as_it_goes() -> None:
    (record,) = decode_records(one(headers=varint(1) + varint(2) + b"h\xff" + varint(-1)), 1, 0, 0)
    assert record.headers == (("h�", None),)


@pytest.mark.parametrize("name", LIES)
def test_no_length_is_trusted(name: str) -> None:
    with pytest.raises(CorruptBatch):
        decode_records(LIES[name], 1, 0, 0)
    if name not in LIES_IN_HEADERS:
        with pytest.raises(CorruptBatch):
            list(iterate_keys(LIES[name], 1))


def test_a_null_value_needs_room_for_the_headers_behind_it() -> None:
    cut = one(headers=b"")
    for payload, count in ((cut, 1), (cut + one(), 2)):
        with pytest.raises(CorruptBatch):
            decode_records(payload, count, 0, 0)
        with pytest.raises(CorruptBatch):
            list(iterate_keys(payload, count))


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_a_count_is_checked_against_the_bytes_first(count: int) -> None:
    with pytest.raises(CorruptBatch, match="cannot fit into"):
        decode_records(one(), count, 0, 0)


def test_a_count_below_the_truth_leaves_bytes_over() -> None:
    with pytest.raises(CorruptBatch, match="follow the last"):
        decode_records(one() * 3, 2, 0, 0)


def test_bytes_cut_anywhere_are_corrupt() -> None:
    payload = encode_records(RECORDS[:5], BASE_MS)
    for end in range(len(payload)):
        with pytest.raises(CorruptBatch):
            decode_records(payload[:end], 5, 0, BASE_MS)
