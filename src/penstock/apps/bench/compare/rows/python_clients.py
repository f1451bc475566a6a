"""What a Python application gets: each broker's own Python client, confirmed produce, consume with commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from typing import IO, Any

from penstock.apps.bench.compare.rows.streams import KB
from penstock.apps.bench.compare.runs.row import Row, RowLine
from penstock.apps.bench.compare.runs.row_runner import RunContext, RunResult
from penstock.apps.bench.compare.servers.install import from_pip

PACKAGES = ("nats-py==2.16.0", "redis==8.1.0", "rstream==1.1.1")
COUNTS = {"confluent": 100_000, "redis_py": 100_000, "nats_py": 10_000, "rstream_py": 10_000}
"""Enough for about a second per phase."""
QUICK_PART = 2
RUN_S_MAX = 120
FLUSHED_COMMITS = (
    "Penstock flushes a committed offset before it replies, independent of the durability of other topics; Kafka leaves"
    " it in the page cache. There is one commit per 500 messages, and a flush is slow while the disk writes back the"
    " messages produced just before."
)


class ClientScriptFailed(Exception):
    """A client script failed; the message contains the end of its output."""


def _python_clients(context: RunContext) -> RunResult:
    """The CPU time covers both phases, and so does the number of messages."""
    script = context.contender.client
    count = COUNTS[script] // context.runner.pick(1, QUICK_PART)
    rates, cpu_s = _run_script(context, script, count)
    return RunResult((rates["produce"], rates["consume"]), count * 2, cpu_s)


def _run_script(context: RunContext, script: str, count: int) -> tuple[dict[str, float], float]:
    host, port = context.server.address(context.contender.stream_door)
    path = os.pathsep.join([str(from_pip("python-clients", PACKAGES)), *sys.path])
    command = [
        sys.executable,
        "-m",
        f"penstock.apps.bench.compare.clients.{script}",
        host,
        str(port),
        str(count),
    ]
    rates: dict[str, float] = {}
    cpu_s = 0.0
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                [*command, context.runner.new_name()],
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
            with context.cpu_time() as spent:
                print(file=process.stdin, flush=True)
                ended = _expect(process.stdout, process.stderr, "end")
            rates[ended["end"]] = ended["rate"]
            cpu_s += spent.cpu_s
        process.wait()
    return rates, cpu_s


def _expect(out: IO[str], errors: IO[str], key: str) -> dict[str, Any]:
    """The next line of the script. Raises ClientScriptFailed if it is another line or the end."""
    line = out.readline()
    if not line.startswith(f'{{"{key}"'):
        raise ClientScriptFailed((line + errors.read())[-1000:])
    found: dict[str, Any] = json.loads(line)
    return found


PYTHON_CLIENTS = Row(
    "Python clients",
    (
        RowLine("9", "Python client, 1 KB, confirmed produce", "msg/s", True, 1.0),
        RowLine("9b", "Python client, 1 KB, consume with commit", "msg/s", True, 1.0, why=FLUSHED_COMMITS),
    ),
    _python_clients, KB,
)  # fmt: skip
