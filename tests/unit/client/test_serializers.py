"""Serializers by themselves: what goes in comes out, and what cannot is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import BadArgument, SerializationFailed
from penstock.client.serializers import Avro, Binary, Json, Serializer, String, decode, encode, serializer

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}],
}
PRICED = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": "double", "default": 1.5}]}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.binary())
def test_binary(value: bytes) -> None:
    assert Binary().decode(Binary().encode(value, "t"), "t") == value


@given(st.text(st.characters(codec="utf-8")))
def test_string(value: str) -> None:
    assert String().decode(String().encode(value, "t"), "t") == value
    assert Binary().encode(value, "t") == value.encode()


@given(json_values)
def test_json(value: Any) -> None:
    assert Json().decode(Json().encode(value, "t"), "t") == value


@given(
    st.fixed_dictionaries(
        {"id": st.integers(-(2**63), 2**63 - 1), "item": st.text(st.characters(codec="utf-8"))}
    )
)
def test_avro(value: dict[str, Any]) -> None:
    assert Avro(ORDER).decode(Avro(ORDER).encode(value, "t"), "t") == value


def test_avro_fields_with_a_default_may_be_left_out() -> None:
    written = Avro(PRICED).encode({"id": 1, "item": "kettle"}, "t")
    assert Avro(PRICED).decode(written, "t") == {"id": 1, "item": "kettle", "price": 1.5}


def test_avro_schema_from_a_file_and_from_an_older_writer(tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(ORDER))
    written = Avro(path).encode({"id": 1, "item": "kettle"}, "t")
    assert Avro(PRICED, written_with=str(path)).decode(written, "t") == {
        "id": 1,
        "item": "kettle",
        "price": 1.5,
    }


@pytest.mark.parametrize("schema", [{"type": "recrod"}, "/no/such/file.avsc", {"name": "B"}, __file__])
def test_schemas_that_cannot_be(schema: Any) -> None:
    with pytest.raises(BadArgument, match="Invalid Avro schema"):
        Avro(schema)


@pytest.mark.parametrize(
    ("one", "value"),
    [
        (Binary(), 7),
        (String(), b"x"),
        (Json(), float("nan")),
        (Json(), object()),
        (Avro(ORDER), {"id": "x", "item": "kettle"}),
        (Avro(ORDER), {"id": 1, "item": "kettle", "more": 1}),
        (Avro(ORDER), {"id": 1}),
    ],
)
def test_what_cannot_be_written(one: Serializer, value: Any) -> None:
    with pytest.raises(SerializationFailed, match=r"^it cannot be encoded: "):
        encode(one, value, "t", "it")


@pytest.mark.parametrize(
    ("one", "data"),
    [
        (String(), b"\xff"),
        (Json(), b"{"),
        (Json(), b"\xff"),
        (Avro(ORDER), b"\x02"),
        (Avro(ORDER), Avro(PRICED).encode({"id": 1, "item": "x", "price": 1.0}, "t")),
    ],
)
def test_what_cannot_be_read(one: Serializer, data: bytes) -> None:
    with pytest.raises(SerializationFailed, match=r"^it cannot be decoded: "):
        decode(one, data, "t", "it")


def test_absent_stays_absent() -> None:
    assert encode(Json(), None, "t", "it") is None
    assert decode(Json(), None, "t", "it") is None


class Reversed:
    """A program's own."""

    def encode(self, value: Any, topic: str) -> bytes:
        return bytes(reversed(value))

    def decode(self, data: bytes, topic: str) -> bytes:
        return bytes(reversed(data))


def test_words_and_objects() -> None:
    assert isinstance(serializer("json"), Json)
    own = Reversed()
    assert serializer(own) is own
    assert decode(own, encode(own, b"abc", "t", "it"), "t", "it") == b"abc"
