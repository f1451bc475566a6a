"""Messages as JSON: every record survives the way out and back, and what cannot be one is refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidRequest
from penstock.core.model import Header, NewRecord, Record
from penstock.wire.http.messages import (
    MESSAGE_FIELDS,
    Show,
    check_object,
    read_message,
    read_object,
    show_message,
)
from penstock.wire.http.response import json_bytes

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
HEADER = st.builds(Header, NAMES, st.none() | st.binary(max_size=6))
HEADERS = st.lists(HEADER, max_size=4, unique_by=lambda one: one.key)
RECORDS = st.builds(
    Record,
    st.integers(0, 2**62),
    st.integers(0, 2**53 - 1),
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=40) | st.sampled_from([b'{"a":1}', b"[1,2]", b"{", b"[NaN]", b'{"a": 1}']),
    HEADERS.map(tuple),
)


@given(RECORDS, st.sampled_from([Show.TEXT, Show.BASE64]))
def test_what_is_shown_can_be_published_again(record: Record, show: Show) -> None:
    shown = json.loads(json_bytes(show_message(record, show)))
    del shown["offset"]
    again = read_message(check_object(shown, MESSAGE_FIELDS, "it"), "it")
    assert again == NewRecord(record.key, record.value, record.headers, record.timestamp_ms)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
       | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))  # fmt: skip
def test_structures_come_back_as_structures(value: Any) -> None:
    if isinstance(value, dict | list):
        record = read_message({"value": value}, "it")
        assert show_message(Record(0, 0, None, record.value))["value"] == value


def test_values_of_each_kind() -> None:
    def value(content: Any) -> bytes | None:
        return read_message({"value": content}, "it").value

    assert value("hällo") == "hällo".encode()
    assert value({"b": "ä", "a": [1, True]}) == '{"b":"ä","a":[1,true]}'.encode()
    assert (value(42), value(None), value("")) == (b"42", None, b"")
    assert read_message({"value_base64": "AP8="}, "it").value == b"\x00\xff"
    assert value({"half": "\ud800"}) == b'{"half":"\\ud800"}'


def test_repeated_headers_are_a_list() -> None:
    headers = (Header("a", b"1"), Header("b", b"\xff"), Header("a", None), Header("a", b"3"))
    shown = show_message(Record(0, 0, None, b"", headers))["headers"]
    assert shown == {"a": ["1", None, "3"], "b": {"base64": "/w=="}}
    assert sorted(read_message({"value": "", "headers": shown}, "it").headers, key=str) == sorted(
        headers, key=str
    )


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"value": 1, "value_base64": ""},
        {"value_base64": "a"},
        {"value_base64": 1},
        {"value_base64": None},
        {"value": "\ud800"},
        {"value": "x", "key": 1},
        {"value": "x", "key": "a", "key_base64": "aaaa"},
        {"value": "x", "headers": []},
        {"value": "x", "headers": None},
        {"value": "x", "headers": {"a": 1}},
        {"value": "x", "headers": {"a": {"base64": "!"}}},
        {"value": "x", "headers": {"a": [["b"]]}},
        {"value": "x", "timestamp_ms": -1},
        {"value": "x", "timestamp_ms": None},
        {"value": "x", "timestamp_ms": True},
        {"value": float("inf")},
    ],
)
def test_what_is_no_message_is_refused(found: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        read_message(found, "it")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"b": 1}', b"\xff", b'{"a": NaN}', b"[" * 100_000, b"1" * 5000]
)
def test_what_is_no_object_with_these_fields_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_object(body, ("a",))
