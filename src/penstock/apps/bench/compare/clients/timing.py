"""How a client script reports to its parent: two timed phases, each announced before it starts.

The parent reads the server's CPU time at the announcement and at the end of a phase, and confirms each announcement
with a line. Some messages are sent and read before the clock starts, so that connecting, the first metadata and
joining a group do not count.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

WARM_UP_PARTS = 10
"""One tenth of the messages is sent and read before the clock starts."""

Phase = Callable[[int], None]
"""Produces or consumes the given number of messages."""


def report(count: int, produce: Phase, consume: Phase) -> None:
    """Run both phases: first untimed with some of the messages, then timed with `count`."""
    for name, phase in (("produce", produce), ("consume", consume)):
        phase(count // WARM_UP_PARTS)
        _send({"begin": name})
        sys.stdin.readline()
        start_ns = time.perf_counter_ns()
        phase(count)
        _send({"end": name, "rate": count / ((time.perf_counter_ns() - start_ns) / 1e9)})


def _send(content: dict[str, object]) -> None:
    print(json.dumps(content), flush=True)
