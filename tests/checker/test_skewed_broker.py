"""A clock that is moved while it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from checker.skewed_broker import write_skew

HOUR_MS = 3_600_000
PROBE = """
import sys, time
from pathlib import Path
from checker.skewed_broker import skew_clock, write_skew
from penstock.node.runtime.clock import SystemClock
path = Path(sys.argv[1])
skew_clock(path)
def hours(): return round((SystemClock().now_ms() - time.time() * 1000) / 3_600_000)
before = hours()
write_skew(path, -2 * 3_600_000)
print(before, hours())
"""


def test_the_clock_follows_the_file(tmp_path: Path) -> None:
    write_skew(tmp_path / "skew", HOUR_MS)
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(tmp_path / "skew")],
        env={"PYTHONPATH": f"{root / 'tests'}:{root / 'src'}"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["1", "-2"]
