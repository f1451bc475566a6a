"""What a Python user gets: each broker's own Python client, confirmed produce, consume with commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import IO, Any

from penstock.apps.race.course import Heat, Lap
from penstock.apps.race.row import Line, Row
from penstock.apps.race.rows.streaming import KB
from penstock.apps.race.servers.installing import from_pip

PACKAGES = ("nats-py==2.16.0", "redis==8.1.0", "rstream==1.1.1")
SCRIPTS = {
    "Penstock": "confluent",
    "Kafka": "confluent",
    "NATS": "nats_py",
    "Redis": "redis_py",
    "RabbitMQ": "rstream_py",
}
COUNTS = {"confluent": 100_000, "redis_py": 100_000, "nats_py": 10_000, "rstream_py": 10_000}
"""Enough for about a second each way."""
QUICK_PART = 2
RUN_S_MAX = 120
FLUSHED_COMMITS = (
    "Penstock flushes a committed offset before it answers, whatever the durability of other topics; Kafka leaves it in"
    " the page cache. There is one commit for 500 messages, and a flush is slow while the disk writes back what was"
    " produced just before."
)


class ClientFailed(Exception):
    """A client's script failed; the end of its output is in the message."""


def _python_clients(heat: Heat) -> Lap:
    """The CPU time is that of both phases, over the messages of both."""
    script = SCRIPTS[heat.name]
    count = COUNTS[script] // heat.course.pick(1, QUICK_PART)
    rates, cpu_s = _run_script(heat, script, count)
    return Lap((rates["produce"], rates["consume"]), count * 2, cpu_s)


def _run_script(heat: Heat, script: str, count: int) -> tuple[dict[str, float], float]:
    host, port = heat.server.address(heat.entrant.stream_door)
    path = os.pathsep.join([str(from_pip("python-clients", PACKAGES)), *sys.path])
    words = [sys.executable, "-m", f"penstock.apps.race.clients.{script}", host, str(port), str(count)]
    rates: dict[str, float] = {}
    cpu_s = 0.0
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                [*words, heat.course.new_name()],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
        stack.callback(process.kill)
        timer = threading.Timer(RUN_S_MAX, process.kill)
        timer.start()
        stack.callback(timer.cancel)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        while len(rates) < 2:
            _expect(process.stdout, process.stderr, "begin")
            with heat.spent() as spent:
                print(file=process.stdin, flush=True)
                ended = _expect(process.stdout, process.stderr, "end")
            rates[ended["end"]] = ended["rate"]
            cpu_s += spent.cpu_s
        process.wait()
    return rates, cpu_s


def _expect(out: IO[str], errors: IO[str], key: str) -> dict[str, Any]:
    """The script's next line. Raises ClientFailed when it says something else or ends."""
    line = out.readline()
    if not line.startswith(f'{{"{key}"'):
        raise ClientFailed((line + errors.read())[-1000:])
    found: dict[str, Any] = json.loads(line)
    return found


PYTHON_CLIENTS = Row(
    "Python clients",
    (
        Line("9", "Python client, 1 KB, confirmed produce", "msg/s", True, 1.0),
        Line("9b", "Python client, 1 KB, consume with commit", "msg/s", True, 1.0, why=FLUSHED_COMMITS),
    ),
    _python_clients, KB,
)  # fmt: skip
