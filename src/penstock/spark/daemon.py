"""PySpark's daemon of Python workers, quiet about workers whose JVM has hung up. Changes nothing else.

Spark closes the socket of a worker that was idle for a minute, or whose rows nobody wants any more. A worker that plans
or commits takes this for an error and reports it into the closed socket. Over a Unix socket, which our sessions use,
that fails at once, and PySpark's daemon prints a traceback of BrokenPipeError for each such worker.
Started by the Python script of `scripts`, in place of `pyspark.daemon`.
"""

from __future__ import annotations

from collections.abc import Callable
from socket import socket
from typing import Any

from pyspark import daemon

HUNG_UP = 1
"""The exit code of a worker that is not to be used again."""

Worker = Callable[[socket, bool], int]


def quiet(worker: Worker) -> Worker:
    """The same worker, which ends without a word when there is nobody left to tell."""

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
