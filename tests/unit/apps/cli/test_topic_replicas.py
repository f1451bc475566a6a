"""Which warnings the creator of a topic gets."""

from __future__ import annotations

import pytest

from penstock.apps.cli.topic_replicas import warnings_of

APART = {1: "a", 2: "b", 3: "c"}
TOGETHER = {1: "a", 2: "a", 3: "c"}


@pytest.mark.parametrize(
    ("replicas", "racks", "isr_size_min", "said"),
    [
        ([[1], [2]], TOGETHER, 1, []),
        ([[1, 2, 3]], APART, 2, []),
        ([[1, 2]], APART, 1, ["is lost"]),
        ([[1, 2]], APART, 2, ["stop while either"]),
        ([[1, 2, 3]], TOGETHER, 2, ["share a machine"]),
        ([[1, 3], [2, 1]], TOGETHER, 1, ["is lost", "share a machine"]),
        ([[1, 2, 3]], {}, 2, []),
        ([], APART, 1, []),
    ],
)
def test_warnings(
    replicas: list[list[int]], racks: dict[int, str], isr_size_min: int, said: list[str]
) -> None:
    found = warnings_of(replicas, racks, isr_size_min)
    assert len(found) == len(said)
    assert all(words in warning for words, warning in zip(said, found, strict=True))
