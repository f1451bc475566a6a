"""A part of the suites of clients, doors and seeds on three brokers. `make test-cluster` runs all of them there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PART = (
    "tests/contract/test_doors.py",
    "tests/compat/test_kafka_answers.py",
    "tests/compat/test_groups_calls.py",
    "tests/seeds/test_seed_001.py::test_publishing_messages",
)
"""Every door, the calls of Kafka and of its groups, in less than a minute."""


def test_a_part_of_the_suites_passes_on_three_brokers(tmp_path: Path) -> None:
    """In a process of its own, because `several_brokers` replaces the broker of all tests of a process."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider"),
            *("-m", "not slow", "--basetemp", str(tmp_path / "suites"), *PART),
        ],
        cwd=ROOT,
        env={**environment, "TEST_NODES": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6_000:] + ran.stderr[-2_000:]
