"""Laws of records and codecs: round trips, and nothing but named errors for bytes of any kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.codecs import CODEC_NAMES
from penstock.core.errors import CorruptBatch, TooLarge
from penstock.core.model import Header, NewRecord, Record
from penstock.core.records.compression import compress, decompress
from penstock.core.records.payload import decode_records, encode_records, iterate_keys
from penstock.core.records.varint import INT64_BYTES_MAX, decode, encode

SOME_BYTES = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.builds(Header, st.text(max_size=20), SOME_BYTES), max_size=4).map(tuple)
RECORDS = st.lists(st.builds(NewRecord, SOME_BYTES, SOME_BYTES, HEADERS, st.integers(0, 2**62)), max_size=12)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_varints_come_back(value: int, tail: bytes) -> None:
    packed = encode(value)
    assert decode(packed + tail, 0, INT64_BYTES_MAX) == (value, len(packed))


@given(RECORDS, st.integers(0, 2**62), st.integers(0, 2**62))
def test_records_come_back(records: list[NewRecord], base_offset: int, base_ms: int) -> None:
    payload = encode_records(records, base_ms)
    assert decode_records(payload, len(records), base_offset, base_ms) == [
        Record(base_offset + delta, record.timestamp_ms, record.key, record.value, record.headers)
        for delta, record in enumerate(records)
    ]
    spans = list(iterate_keys(payload, len(records)))
    assert [span.key for span in spans] == [record.key for record in records]
    assert b"".join(payload[span.start : span.end] for span in spans) == payload


@given(st.binary(max_size=200), st.integers(-3, 40))
def test_any_bytes_are_records_or_corrupt(payload: bytes, count: int) -> None:
    try:
        records = decode_records(payload, count, 0, 0)
    except CorruptBatch:
        return
    assert len(records) == count == len(list(iterate_keys(payload, count)))


@given(RECORDS.filter(bool), st.data())
def test_one_changed_byte_never_escapes_as_another_error(
    records: list[NewRecord], data: st.DataObject
) -> None:
    payload = bytearray(encode_records(records, 0))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] ^= data.draw(st.integers(1, 255))
    try:
        decode_records(bytes(payload), len(records), 0, 0)
    except CorruptBatch as error:
        assert str(error)


@pytest.mark.parametrize("codec", CODEC_NAMES)
@given(data=st.binary(max_size=3000), repeat=st.integers(1, 60))
def test_codecs_give_back_what_they_took(codec: int, data: bytes, repeat: int) -> None:
    whole = data * repeat
    assert decompress(codec, compress(codec, whole), len(whole)) == whole


@pytest.mark.parametrize("codec", CODEC_NAMES)
@given(data=st.binary(max_size=300), damage=st.data())
def test_damaged_input_is_refused_by_name_and_stays_under_the_cap(
    codec: int, data: bytes, damage: st.DataObject
) -> None:
    packed = bytearray(compress(codec, data))
    for _ in range(damage.draw(st.integers(0, 3))):
        if packed:
            packed[damage.draw(st.integers(0, len(packed) - 1))] = damage.draw(st.integers(0, 255))
    try:
        assert len(decompress(codec, bytes(packed), 500)) <= 500
    except (CorruptBatch, TooLarge) as error:
        assert str(error)
