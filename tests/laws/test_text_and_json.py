"""What goes in at the text or the JSON door comes out the same: round trips through each door's own words."""

from __future__ import annotations

from urllib.parse import quote_from_bytes

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.model import Header, NewRecord, Record
from penstock.wire.json.fields import Fields
from penstock.wire.json.frames import LENGTH_BYTES, decode_object, encode_object
from penstock.wire.json.messages import decode_message
from penstock.wire.json.messages import encode_message as encode_json
from penstock.wire.text.commands import Pub, TextFraming, decode_command
from penstock.wire.text.responses import encode_text_message as encode_text

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
RECORDS = st.builds(
    Record,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.none() | st.binary(max_size=12),
    st.none() | st.binary(max_size=40),
    st.lists(st.builds(Header, NAMES, st.none() | st.binary(max_size=8)), max_size=3).map(tuple),
)


@given(RECORDS)
def test_a_message_read_as_json_can_be_produced_again_as_it_was(record: Record) -> None:
    shown = decode_object(encode_object(encode_json(record))[LENGTH_BYTES:])
    fields = Fields(shown, "a message")
    assert fields.number("offset") == record.offset
    assert decode_message(fields) == NewRecord(record.key, record.value, record.headers, record.timestamp_ms)
    fields.check_empty()


@given(RECORDS)
def test_a_message_read_as_text_can_be_published_again_as_it_was(record: Record) -> None:
    answer = encode_text(record, 3)
    head, _, rest = answer.partition(b"\r\n")
    words = head.split(b" ")
    assert words[:3] == [b"MSG", b"%d" % record.offset, b"%d" % len(record.value or b"")]
    frame = b" ".join([b"PUB", b"topic", *words[2:]]) + b"\r\n" + rest.removesuffix(b"\r\n")
    assert TextFraming().size(bytearray(frame), 0, len(frame), 1_000) == len(frame)
    expected = NewRecord(record.key, record.value, record.headers, record.timestamp_ms)
    assert decode_command(frame) == Pub("topic", expected, 3)


@given(st.binary(max_size=30))
def test_keys_of_any_bytes_can_be_written_in_a_line(key: bytes) -> None:
    frame = b"PUB topic 0 key=%s\n" % quote_from_bytes(key, safe="").encode()
    found = decode_command(frame)
    assert isinstance(found, Pub) and found.record.key == key
