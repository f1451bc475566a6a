"""Values are counted before JSON is decoded, and what stands inside of strings is not counted."""

from __future__ import annotations

import json

import pytest

from penstock.core.errors import TooLarge
from penstock.core.limits import JSON_FRAME_VALUES_MAX
from penstock.wire.json.bounds import check_values
from penstock.wire.json.frames import decode_object


@pytest.mark.parametrize("value", [[], {}, 1, "a", None, [1], {"a": 1}])
def test_too_many_values_are_refused_and_fewer_are_not(value: object) -> None:
    check_values(json.dumps([value] * 100).encode(), 400, "the body")
    with pytest.raises(TooLarge, match="the body has more than 40 JSON values"):
        check_values(json.dumps([value] * 100).encode(), 40, "the body")


@pytest.mark.parametrize(
    "text", [",[{" * 1_000, '"' * 1_000, "\\" * 1_001, '\\",' * 1_000, '{"a": [1, 2]}' * 500]
)
def test_what_a_string_holds_does_not_count(text: str) -> None:
    check_values(json.dumps({"message": text, "key": text}).encode(), 10, "the frame")


def test_a_frame_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(TooLarge, match=str(JSON_FRAME_VALUES_MAX)):
        decode_object(b'{"a":[' + b"[]," * JSON_FRAME_VALUES_MAX + b"[]]}")
