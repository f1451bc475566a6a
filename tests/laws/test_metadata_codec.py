"""Laws of the metadata protocol's codec: what is sent is received; any bytes are a message or refused."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import BrokerError
from penstock.wire.metadata import fields
from penstock.wire.metadata.fields import FieldKind, decode_metadata_records, encode_metadata_records
from penstock.wire.metadata.frames import LENGTH_BYTES, MESSAGE_FIELDS, Message, decode, encode

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LONGS = st.integers(0, 2**64 - 1)
SIGNED = st.integers(-(2**31), 2**31 - 1)
ROWS = st.tuples(TEXTS, SIGNED, LONGS)
VALUES: dict[FieldKind, st.SearchStrategy[Any]] = {
    fields.FLAG: st.booleans(),
    fields.SHORT: st.integers(0, 2**16 - 1),
    fields.SIGNED: SIGNED,
    fields.LONG: LONGS,
    fields.TEXT: TEXTS,
    fields.BLOB: st.binary(max_size=40),
    fields.SESSION: ROWS,
    fields.SESSIONS: st.lists(ROWS, max_size=4).map(tuple),
    fields.LONGS: st.lists(LONGS, max_size=4).map(tuple),
}
MESSAGES = st.one_of(
    [
        st.tuples(*(VALUES[kind] for kind in kinds)).map(message._make)  # type: ignore[attr-defined]
        for message, kinds in MESSAGE_FIELDS.items()
    ]
)
NUMBERS = st.integers(0, 2**32 - 1)
RECORDS = st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9)), max_size=6)


@given(NUMBERS, MESSAGES)
def test_a_message_is_received_as_it_was_sent(number: int, message: Message) -> None:
    frame = encode(number, message)
    assert int.from_bytes(frame[:LENGTH_BYTES], "big") == len(frame) - LENGTH_BYTES
    found = decode(frame[LENGTH_BYTES:])
    assert found == (number, message) and type(found[1]) is type(message)


@given(RECORDS)
def test_records_are_received_as_they_were_sent(records: list[tuple[bytes, bytes | None]]) -> None:
    assert list(decode_metadata_records(encode_metadata_records(records))) == records


@settings(max_examples=300)
@given(
    st.binary(max_size=80) | st.builds(lambda one: encode(7, one)[LENGTH_BYTES:], MESSAGES),
    st.integers(0, 79),
    st.integers(0, 255),
)
def test_any_bytes_are_a_message_or_refused(raw: bytes, position: int, value: int) -> None:
    damaged = bytearray(raw)
    if position < len(damaged):
        damaged[position] = value
    try:
        number, message = decode(bytes(damaged))
    except BrokerError as error:
        assert error.code == "Malformed" and str(error)
    else:
        assert encode(number, message)[LENGTH_BYTES:] == bytes(damaged)


@given(st.binary(max_size=60))
def test_any_bytes_are_records_or_refused(raw: bytes) -> None:
    try:
        records = list(decode_metadata_records(raw))
    except BrokerError as error:
        assert error.code == "Malformed" and str(error)
    else:
        assert encode_metadata_records(records) == raw
