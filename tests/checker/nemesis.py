"""Faults while the load runs: the broker killed or stopped in its tracks. Never leaves anything broken behind."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

from checker.history import INFO, NEMESIS, Event
from penstock.testing import Broker

KILL, PAUSE, FORGET = "kill", "pause", "forget"
SURVIVABLE = (KILL, PAUSE)
FAULTS = (*SURVIVABLE, FORGET)
"""`forget` cuts the ends off the logs of a killed broker. None can hide that: a run with it has to be found bad."""
KEPT_SHARE = 0.5
CALM_S = (0.5, 2.5)
DOWN_S = (0.0, 0.8)
PAUSED_S = (0.3, 4.0)
"""Longer than a client waits for one request, now and then."""
NO_FAULT_SHARE = 1 / 4


class Nemesis:
    """Each fault that was asked for comes once early, then at random, with a quarter of the turns calm."""

    def __init__(
        self,
        broker: Broker | None,
        faults: tuple[str, ...],
        rng: random.Random,
        note: Callable[[Event], None],
    ) -> None:
        assert broker is not None or not faults, "faults need a broker of our own"
        self._broker = broker
        self._rng = rng
        self._note = note
        self._first = rng.sample(faults, len(faults))
        self._faults = faults

    def turn(self, left_s: float) -> None:
        """A calm while, then at most one fault, healed before this returns."""
        self._sleep(CALM_S, left_s)
        if self._first:
            fault: str | None = self._first.pop()
        elif not self._faults or self._rng.random() < NO_FAULT_SHARE:
            fault = None
        else:
            fault = self._rng.choice(self._faults)
        if fault in (KILL, FORGET):
            self._kill(left_s, forgets=fault == FORGET)
        elif fault == PAUSE:
            self._pause(left_s)

    def _kill(self, left_s: float, *, forgets: bool) -> None:
        assert self._broker is not None
        self._write("kill-broker")
        self._broker.kill()
        if forgets:
            for path in sorted(self._broker.data_dir.glob("topics/*/*/*.log")):
                os.truncate(path, int(path.stat().st_size * KEPT_SHARE))
            self._write("cut-logs")
        self._sleep(DOWN_S, left_s)
        self._broker.start()
        self._write("start-broker")

    def _pause(self, left_s: float) -> None:
        assert self._broker is not None
        os.kill(self._broker.pid, signal.SIGSTOP)
        self._write("pause-broker")
        try:
            self._sleep(PAUSED_S, left_s)
        finally:
            os.kill(self._broker.pid, signal.SIGCONT)
            self._write("resume-broker")

    def _sleep(self, bounds_s: tuple[float, float], left_s: float) -> None:
        time.sleep(max(0.0, min(self._rng.uniform(*bounds_s), left_s)))

    def _write(self, what: str) -> None:
        self._note(Event(NEMESIS, time.monotonic_ns(), INFO, what))
