"""Waiting for something to become true. Never takes the time for an answer: it says whether it happened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], seconds_max: float, look_s: float = 0.02) -> bool:
    """Whether it held within the time."""
    ends_s = time.monotonic() + seconds_max
    tick = threading.Event()
    while not holds():
        if time.monotonic() > ends_s:
            return False
        tick.wait(look_s)
    return True
