"""How a client's script tells its times: one line of JSON. Never measures anything else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable


def report(count: int, produce: Callable[[], None], consume: Callable[[], None]) -> None:
    """Run both against the clock and print messages a second."""
    rates = {}
    for name, act in (("produce", produce), ("consume", consume)):
        start_ns = time.perf_counter_ns()
        act()
        rates[name] = count / ((time.perf_counter_ns() - start_ns) / 1e9)
    print(json.dumps(rates), flush=True)
