"""Which replicas are wrong, if their checksums of the same committed records differ. The majority is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

REPLICAS_MIN = 3
"""With fewer replicas there is no majority against one of them."""


class ScrubVerdict(NamedTuple):
    """The replicas that differ from the majority, and its checksum; without a majority, none and an empty one."""

    losers: tuple[int, ...]
    digest: bytes


def find_minority(digests: Mapping[int, bytes]) -> ScrubVerdict | None:
    """Checksums by broker; None if all are equal."""
    if len(set(digests.values())) <= 1:
        return None
    ((digest, count),) = Counter(digests.values()).most_common(1)
    if len(digests) < REPLICAS_MIN or 2 * count <= len(digests):
        return ScrubVerdict((), b"")
    return ScrubVerdict(tuple(sorted(one for one, other in digests.items() if other != digest)), digest)
