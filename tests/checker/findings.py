"""The vocabulary of anomalies: their names, what is allowed, and a collector that counts all and keeps a few."""

from __future__ import annotations

from collections.abc import Iterable

EXAMPLES_MAX = 20

INCONSISTENT_OFFSETS = "inconsistent-offsets"
DUPLICATE = "duplicate"
PHANTOM = "phantom"
G1A = "G1a"
PRECOMMITTED_READ = "precommitted-read"
LOST_WRITE = "lost-write"
INT_POLL_SKIP = "int-poll-skip"
INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
INT_SEND_SKIP = "int-send-skip"
INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
POLL_SKIP = "poll-skip"
NONMONOTONIC_POLL = "nonmonotonic-poll"
NONMONOTONIC_SEND = "nonmonotonic-send"
UNSEEN = "unseen"
WRONG_COMMIT = "wrong-commit"
GROUP_SKIP = "group-skip"
OFFSET_RESET = "offset-reset"
SETTLED_TWICE = "settled-twice"
UNDELIVERED = "undelivered"
WRONG_MESSAGE = "wrong-message"
G0 = "G0"
G1C = "G1c"
PROCESS = "-process"
REALTIME = "-realtime"

ALWAYS_ALLOWED = frozenset((INT_SEND_SKIP, G0, G0 + PROCESS, G0 + REALTIME))
ALLOWED_WITH_SUBSCRIBE = frozenset((POLL_SKIP, NONMONOTONIC_POLL))
ALLOWED_WITH_WW = frozenset((G1C, G1C + PROCESS, G1C + REALTIME))


def allowed_kinds(*, subscribes: bool, ww_edges: bool) -> frozenset[str]:
    """What a right broker may show: interleaved producers, rebalances, and both in one graph."""
    allowed = ALWAYS_ALLOWED
    if subscribes:
        allowed |= ALLOWED_WITH_SUBSCRIBE
    if ww_edges:
        allowed |= ALLOWED_WITH_WW
    return allowed


class Findings:
    """Anomalies by kind: how many, and the first few in words."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.examples: dict[str, list[str]] = {}

    def add(self, kind: str, words: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        kept = self.examples.setdefault(kind, [])
        if len(kept) < EXAMPLES_MAX:
            kept.append(words)

    def kinds(self) -> list[str]:
        return sorted(self.counts)

    def outside(self, allowed: Iterable[str]) -> list[str]:
        return sorted(set(self.counts) - set(allowed))
