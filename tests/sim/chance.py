"""The core's ports for time and chance, fed by the simulated world. Never real time, never real chance."""

from __future__ import annotations

import random

from sim.loop import SimLoop

START_MS = 1_750_000_000_000
"""Wall clock at virtual time zero; any date will do as long as it is always the same."""


class SimClock:
    """A wall clock of one host; `skew_ms` may be changed at any time to make it wrong."""

    def __init__(self, loop: SimLoop, *, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return START_MS + int(self._loop.time() * 1000) + self.skew_ms


class SimRng:
    """Chance for the code under test, from a stream of the seed."""

    def __init__(self, stream: random.Random) -> None:
        self._stream = stream

    def bytes(self, count: int) -> bytes:
        return self._stream.randbytes(count)

    def below(self, bound: int) -> int:
        return self._stream.randrange(bound)
