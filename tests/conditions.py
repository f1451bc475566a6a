"""Waits until a condition holds, however loaded the machine is. Never sleeps for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

WAIT_S_MAX = 120.0


def until(what: Callable[[], object], words: str) -> None:
    """Look again and again; fail with the words when it does not happen."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not what():
        assert time.monotonic() < deadline, words
        time.sleep(0.01)
