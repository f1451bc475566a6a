"""Frames of the JSON door: only JSON goes in, and only JSON comes out."""

from __future__ import annotations

import pytest

from penstock.core.errors import Malformed
from penstock.wire.json.frames import LENGTH_BYTES, decode_object, encode_object


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 400 + ".0", "NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_cannot_say_again_are_refused(number: str) -> None:
    with pytest.raises(Malformed, match="not JSON"):
        decode_object(b'{"id": %s}' % number.encode())


def test_large_and_small_numbers_come_back() -> None:
    for number in ("1.5", "1e308", "-1e-320", str(2**63)):
        found = decode_object(b'{"id": %s}' % number.encode())
        assert decode_object(encode_object(found)[LENGTH_BYTES:]) == found


def test_an_answer_is_never_without_a_meaning() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_object({"id": float("inf")})
