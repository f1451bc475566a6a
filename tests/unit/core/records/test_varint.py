"""Varints against their known bytes, at their borders, and cut short or too long."""

from __future__ import annotations

import pytest

from penstock.core.errors import CorruptBatch
from penstock.core.records.varint import INT32_BYTES_MAX, INT64_BYTES_MAX, decode, encode

KNOWN = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (-8192, "ff7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
WIDE = [(2**31, "8080808010"), (2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01")]


@pytest.mark.parametrize(("value", "known"), KNOWN + WIDE)
def test_known_bytes(value: int, known: str) -> None:
    packed = bytes.fromhex(known)
    assert encode(value) == packed
    assert decode(b"\xff" + packed + b"\xff", 1, INT64_BYTES_MAX) == (value, 1 + len(packed))


@pytest.mark.parametrize(("value", "known"), KNOWN)
def test_narrow_numbers_are_read_as_narrow(value: int, known: str) -> None:
    assert decode(bytes.fromhex(known), 0) == (value, len(known) // 2)


@pytest.mark.parametrize(("value", "known"), WIDE)
def test_wide_numbers_are_refused_where_narrow_ones_belong(value: int, known: str) -> None:
    with pytest.raises(CorruptBatch, match=r"32 bits|within 5 bytes"):
        decode(bytes.fromhex(known), 0, INT32_BYTES_MAX)


def test_more_than_64_bits_are_refused() -> None:
    with pytest.raises(CorruptBatch, match="64 bits"):
        decode(b"\xff" * 9 + b"\x02", 0, INT64_BYTES_MAX)


@pytest.mark.parametrize("width", [INT32_BYTES_MAX, INT64_BYTES_MAX])
def test_a_varint_that_never_ends_is_refused(width: int) -> None:
    with pytest.raises(CorruptBatch, match=f"within {width} bytes"):
        decode(b"\x80" * 20, 0, width)


@pytest.mark.parametrize("cut", ["", "80", "8080", "80808080"])
def test_a_varint_cut_short_is_refused(cut: str) -> None:
    with pytest.raises(CorruptBatch, match="at 0 is truncated"):
        decode(bytes.fromhex(cut), 0)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_writing_more_than_64_bits_is_our_own_mistake(value: int) -> None:
    with pytest.raises(AssertionError):
        encode(value)
