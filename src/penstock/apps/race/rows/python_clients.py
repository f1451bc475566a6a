"""What a Python user gets: each broker's own Python client, confirmed produce, consume with commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from penstock.apps.race.course import Course, Figures
from penstock.apps.race.entrants import Entrant
from penstock.apps.race.servers.installing import from_pip
from penstock.apps.race.servers.runner import Promise
from penstock.apps.race.standing import Standing

PACKAGES = ("nats-py==2.16.0", "redis==8.1.0", "rstream==1.1.1")
SCRIPTS = {
    "Penstock": "confluent",
    "Kafka": "confluent",
    "NATS": "nats_py",
    "Redis": "redis_py",
    "RabbitMQ": "rstream_py",
}
COUNTS = {"confluent": 100_000, "redis_py": 100_000, "nats_py": 10_000, "rstream_py": 10_000}
"""Enough for a second or more each way: joining a group counts, and must not be all that counts."""
RUN_S_MAX = 120


class ClientFailed(Exception):
    """A client's script did not come through; the end of its output is in the message."""


def python_clients(course: Course) -> list[Standing]:
    packages = from_pip("python-clients", PACKAGES)

    def run(entrant: Entrant) -> Figures:
        name = entrant.runner.name
        with course.started(entrant, Promise.OS) as server:
            count = COUNTS[SCRIPTS[name]] // course.pick(1, 5)
            rates = _run_script(SCRIPTS[name], server.address(entrant.stream_door), count, packages)
        return rates["produce"], rates["consume"]

    produced, consumed = course.take_turns("Python clients", run, 2)
    return [
        Standing("9", "Python client, 1 KB, confirmed produce", "msg/s", produced, True, 1.0),
        Standing("9b", "Python client, 1 KB, consume with commit", "msg/s", consumed, True, 1.0),
    ]


def _run_script(script: str, address: tuple[str, int], count: int, packages: Path) -> dict[str, float]:
    path = os.pathsep.join([str(packages), *sys.path])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            f"penstock.apps.race.clients.{script}",
            address[0],
            str(address[1]),
            str(count),
        ],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    if done.returncode:
        raise ClientFailed(f"{script}: {(done.stdout + done.stderr)[-1000:]}")
    rates: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return rates
