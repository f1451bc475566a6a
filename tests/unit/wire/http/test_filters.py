"""Filters: each kind of condition, and that all of them have to hold."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidRequest
from penstock.core.model import Header, Record
from penstock.wire.http.filters import CONDITIONS_MAX, read_filter

ORDER = Record(
    7,
    0,
    b"user-1",
    b'{"user": {"id": 42, "vip": true}, "items": [{"name": "tea"}], "note": null}',
    (Header("source", b"web"), Header("empty", None)),
)


@pytest.mark.parametrize(
    ("query", "passes"),
    [
        ({}, True),
        ({"key": ["user-1"]}, True),
        ({"key": ["user-2"]}, False),
        ({"header": ["source"]}, True),
        ({"header": ["source:web"]}, True),
        ({"header": ["source:app"]}, False),
        ({"header": ["empty:"]}, True),
        ({"header": ["missing"]}, False),
        ({"contains": ["tea"]}, True),
        ({"contains": ["tea", "coffee"]}, False),
        ({"json": ["user.id:42"]}, True),
        ({"json": ["user.id:43"]}, False),
        ({"json": ["user.vip:true"]}, True),
        ({"json": ["items.0.name:tea"]}, True),
        ({"json": ["items.1.name:tea"]}, False),
        ({"json": ["items.x:tea"]}, False),
        ({"json": ["user"]}, True),
        ({"json": ["user:x"]}, False),
        ({"json": ["note:null"]}, True),
        ({"key": ["user-1"], "json": ["user.id:42"], "contains": ["vip"]}, True),
        ({"key": ["user-1"], "json": ["user.id:0"], "contains": ["vip"]}, False),
    ],
)
def test_conditions(query: dict[str, list[str]], passes: bool) -> None:
    assert read_filter(query).passes(ORDER) is passes


def test_a_value_that_is_no_json_has_no_places_in_it() -> None:
    wanted = read_filter({"json": ["a"]})
    assert not wanted.passes(Record(0, 0, None, b"{a"))
    assert not wanted.passes(Record(0, 0, None, None))
    assert not wanted.passes(Record(0, 0, None, b"[" * 100_000))


def test_bad_filters_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        read_filter({"json": [":1"]})
    with pytest.raises(InvalidRequest):
        read_filter({"key": ["a"] * (CONDITIONS_MAX + 1)})
