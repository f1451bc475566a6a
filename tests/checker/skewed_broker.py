"""`python skewed_broker.py FILE start …`: `penstock` with a clock that is off by the milliseconds in FILE, 8 bytes.

The file may change at any time: that is a jump of the clock. Only the time of day is moved, as an administrator or NTP
would move it; timers use the monotonic clock. The environment may name a bug to plant, see broker_plants.py.
"""

from __future__ import annotations

import mmap
import os
import runpy
import sys
import time
from pathlib import Path

from penstock.node.runtime.clock import SystemClock

BYTES = 8
PLANT = "CHECKER_PLANT"


def write_skew(path: Path, skew_ms: int) -> None:
    """Set the clock of the broker that reads this file."""
    mode = "r+b" if path.exists() else "w+b"
    with path.open(mode) as file:
        file.write(skew_ms.to_bytes(BYTES, "little", signed=True))


def skew_clock(path: Path) -> None:
    """Put the system's clock off, for this process."""
    with path.open("rb") as file:
        skew = mmap.mmap(file.fileno(), BYTES, access=mmap.ACCESS_READ)

    def now_ms(_: SystemClock) -> int:
        return time.time_ns() // 1_000_000 + int.from_bytes(skew[:BYTES], "little", signed=True)

    SystemClock.now_ms = now_ms  # type: ignore[method-assign]


if __name__ == "__main__":
    skew_clock(Path(sys.argv.pop(1)))
    if PLANT in os.environ:
        plants = runpy.run_path(str(Path(__file__).with_name("broker_plants.py")))
        plants["BROKER_PLANTS"][os.environ[PLANT]]()
    runpy.run_module("penstock", run_name="__main__", alter_sys=True)
