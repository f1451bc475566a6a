"""Which replicas are wrong, if their checksums differ."""

from __future__ import annotations

import pytest

from penstock.core.replication.scrub_verdict import ScrubVerdict, find_minority


@pytest.mark.parametrize("digests", [{}, {1: b"a"}, {1: b"a", 2: b"a"}, {1: b"a", 2: b"a", 3: b"a"}])
def test_equal_checksums_need_no_verdict(digests: dict[int, bytes]) -> None:
    assert find_minority(digests) is None


@pytest.mark.parametrize(
    ("digests", "losers"),
    [
        ({1: b"a", 2: b"b", 3: b"b"}, (1,)),
        ({1: b"b", 2: b"b", 3: b"a"}, (3,)),
        ({1: b"a", 2: b"b", 3: b"b", 4: b"b"}, (1,)),
        ({1: b"a", 2: b"b", 3: b"b", 4: b"b", 5: b"c"}, (1, 5)),
    ],
)
def test_the_majority_is_right(digests: dict[int, bytes], losers: tuple[int, ...]) -> None:
    assert find_minority(digests) == ScrubVerdict(losers, b"b")


@pytest.mark.parametrize(
    "digests",
    [
        {1: b"a", 2: b"b"},
        {1: b"a", 2: b"b", 3: b"c"},
        {1: b"a", 2: b"a", 3: b"b", 4: b"b"},
        {1: b"a", 2: b"a", 3: b"b", 4: b"c"},
    ],
)
def test_without_a_majority_nobody_loses(digests: dict[int, bytes]) -> None:
    assert find_minority(digests) == ScrubVerdict((), b"")
