"""Wildcards in topic names."""

from __future__ import annotations

import re

import pytest

from penstock.apps.cli.failures import ObjectNotFound
from penstock.apps.cli.topic_patterns import is_pattern, pattern_regex, topics_matching

KNOWN = ["orders", "orders-eu", "orders.us", "returns", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["returns", "orders"], ["returns", "orders"]),
        (["orders*"], ["orders", "orders-eu", "orders.us"]),
        (["orders?eu", "orders-*"], ["orders-eu"]),
        (["orders.*"], ["orders.us"]),
        (["*"], ["orders", "orders-eu", "orders.us", "returns"]),
        (["__*"], ["__consumer_offsets"]),
        (["unknown"], ["unknown"]),
    ],
)
def test_finds(words: list[str], found: list[str]) -> None:
    assert topics_matching(words, KNOWN) == found


def test_a_pattern_without_a_topic_is_an_error() -> None:
    with pytest.raises(ObjectNotFound, match=re.escape("No topic matches 'x*'")):
        topics_matching(["x*"], KNOWN)


def test_a_dot_is_a_dot() -> None:
    assert pattern_regex("log.?") == r"^log\..$"
    assert is_pattern("a?") and not is_pattern("a.b-c_d")
