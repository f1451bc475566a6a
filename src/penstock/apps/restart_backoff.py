"""Decides when a process that has exited is started again, and when it is given up. Time is an argument."""

from __future__ import annotations

from collections import deque

WINDOW_S = 60.0
"""Exits within this time count towards giving up; a process that ran this long starts with the shortest delay again."""


class RestartBackoff:
    """Delays double from `first_s` to `last_s`. With `exits_max`, so many exits within a minute are the end."""

    def __init__(self, first_s: float, last_s: float, exits_max: int | None = None) -> None:
        self._first_s = first_s
        self._last_s = last_s
        self._exits_max = exits_max
        self._delay_s = first_s
        self._exits: deque[float] = deque(maxlen=exits_max or 1)

    def after_exit(self, now_s: float, ran_s: float) -> float | None:
        """The delay before the restart; None: give up."""
        self._exits.append(now_s)
        is_often = self._exits_max is not None and len(self._exits) == self._exits_max
        if is_often and now_s - self._exits[0] <= WINDOW_S:
            return None
        if ran_s >= WINDOW_S:
            self._delay_s = self._first_s
        return self.next_delay_s()

    def next_delay_s(self) -> float:
        """The delay now; the next one is longer."""
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, self._last_s)
        return delay_s
