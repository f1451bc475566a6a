"""PySpark's worker daemon without the tracebacks of workers whose JVM closed the connection. Changes nothing else.

Spark closes the socket of a worker that was idle for a minute or whose rows are no longer needed. A worker that plans
or commits treats this as an error and reports it to the closed socket. Over a Unix socket, which our sessions use,
that fails immediately, and PySpark's daemon prints a BrokenPipeError traceback for each such worker.
The Python wrapper from `scripts` starts it in place of `pyspark.daemon`.
"""

from __future__ import annotations

from collections.abc import Callable
from socket import socket
from typing import Any

from pyspark import daemon

HUNG_UP = 1
"""Exit code of a worker that must not be reused."""

Worker = Callable[[socket, bool], int]


def quiet(worker: Worker) -> Worker:
    """The same worker, except that it exits silently when the JVM has closed the connection."""

    def work(connection: socket, authenticated: bool) -> int:
        try:
            return worker(connection, authenticated)
        except BrokenPipeError:
            return HUNG_UP

    return work


def main() -> None:
    patched: Any = daemon
    patched.worker = quiet(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
