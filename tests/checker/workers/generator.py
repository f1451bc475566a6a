"""What a worker does next, from its seed: sends and polls in a mix, as list-append does. Never does it itself."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from checker.history import ASSIGN, CRASH, POLL, SEND, SUBSCRIBE, TXN

CHANGE_SHARE = 1 / 64
"""Of all operations, those that change what is read."""
CATCH_UP_SHARE = 1 / 3
"""Of those, the ones that add what was sent and not yet read."""
ABORT_SHARE = 1 / 32
MOPS_MAX = 4
PIPELINED_MAX = 4
KEY_SKEW = 0.7
"""Each key is this much less likely than the one before it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation to invoke."""

    f: str
    value: Any = None
    from_beginning: bool = False


@dataclass(slots=True)
class Generator:
    """`first_value` and the keys make values unique: no other process draws from the same range."""

    rng: random.Random
    keys: list[int]
    first_value: int
    transactional: bool
    subscribes: bool
    crash_share: float
    sent: set[int] = field(default_factory=set)
    """Keys that were sent to and not read since."""
    has_chosen: bool = False

    def next(self) -> Step:
        if not self.has_chosen or self.rng.random() < CHANGE_SHARE:
            self.has_chosen = True
            return self._change()
        if self.rng.random() < self.crash_share:
            self.has_chosen = False
            return Step(CRASH)
        if self.transactional:
            count = self.rng.randint(1, MOPS_MAX)
            return Step(TXN, [self._mop(self.rng.random() < 0.5) for _ in range(count)])
        if self.rng.random() < 0.5:
            return Step(SEND, [self._mop(True) for _ in range(self.rng.randint(1, PIPELINED_MAX))])
        return Step(POLL, [[POLL]])

    def wants_abort(self) -> bool:
        return self.rng.random() < ABORT_SHARE

    def saw(self, sent: list[int], polled: list[int]) -> None:
        self.sent.update(sent)
        self.sent.difference_update(polled)

    def _change(self) -> Step:
        chosen = set(self.rng.sample(self.keys, self.rng.randint(1, len(self.keys))))
        if self.rng.random() < CATCH_UP_SHARE:
            chosen |= self.sent
        if self.subscribes:
            return Step(SUBSCRIBE, sorted({key ^ side for key in chosen for side in (0, 1)}))
        return Step(ASSIGN, sorted(chosen))

    def _mop(self, is_send: bool) -> list[Any]:
        if not is_send:
            return [POLL]
        weights = [KEY_SKEW**place for place in range(len(self.keys))]
        (key,) = self.rng.choices(self.keys, weights)
        self.first_value += 1
        return [SEND, key, self.first_value]
