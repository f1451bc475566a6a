"""Ranges of proven bytes behave like a set of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.log.verified_ranges import VerifiedRanges

ranges = st.tuples(st.integers(0, 40), st.integers(0, 40))


@given(st.lists(ranges), st.integers(0, 40), st.lists(ranges))
def test_ranges_are_a_set_of_bytes(
    added: list[tuple[int, int]], cut: int, later: list[tuple[int, int]]
) -> None:
    ranges, model = VerifiedRanges(), set[int]()
    for start, end in added:
        ranges.add(start, end)
        model |= set(range(start, end))
    ranges.cut(cut)
    model = {one for one in model if one < cut}
    for start, end in later:
        ranges.add(start, end)
        model |= set(range(start, end))
    for start in range(41):
        for end in range(start + 1, 41):
            assert ranges.covers(start, end) == (set(range(start, end)) <= model)
