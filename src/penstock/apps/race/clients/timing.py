"""How a client's script reports: phases on the clock, each announced to the parent. Never measures anything else.

The parent reads the server's CPU time when a phase is announced and when its figure comes, and answers each
announcement with a line. A part of the messages goes first off the clock, so that connecting, the first metadata and
joining a group do not count.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

WARM_UP_PARTS = 10
"""One message in so many is sent, and read, before the clock starts."""

Act = Callable[[int], None]
"""Produces or consumes so many messages."""


def report(count: int, produce: Act, consume: Act) -> None:
    """Run both off the clock with a part of the messages, then on it with `count`."""
    for name, act in (("produce", produce), ("consume", consume)):
        act(count // WARM_UP_PARTS)
        _say({"begin": name})
        sys.stdin.readline()
        start_ns = time.perf_counter_ns()
        act(count)
        _say({"end": name, "rate": count / ((time.perf_counter_ns() - start_ns) / 1e9)})


def _say(content: dict[str, object]) -> None:
    print(json.dumps(content), flush=True)
