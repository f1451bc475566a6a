"""Sizes and times as people write them."""

from __future__ import annotations

import pytest

from penstock.node.definitions.units import parse_bytes, parse_ms, show_bytes, show_ms


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("65536", 65536),
        ("64k", 65536),
        ("64 KiB", 65536),
        ("64kB", 64_000),
        ("1 GiB", 2**30),
        ("1.5m", 1_572_864),
        ("-1", -1),
        (" 2t ", 2 * 2**40),
        ("1_000", 1000),
    ],
)
def test_bytes(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("5m", 300_000),
        ("5min", 300_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
    ],
)
def test_ms(text: str, value: int) -> None:
    assert parse_ms(text) == value


@pytest.mark.parametrize("text", ["", "k", "1 parsec", "1..5k", "0.3", "1k5", "１", "1e6", "--1", "nan"])
def test_bytes_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_bytes(text)


@pytest.mark.parametrize("value", [0, 1, 1023, 1024, 65536, 2**20 + 1, 2**30, 7 * 2**40])
def test_shown_bytes_read_back(value: int) -> None:
    assert parse_bytes(show_bytes(value)) == value


@pytest.mark.parametrize("value", [0, 999, 1000, 90_000, 3_600_000, 604_800_000])
def test_shown_ms_read_back(value: int) -> None:
    assert parse_ms(show_ms(value)) == value
