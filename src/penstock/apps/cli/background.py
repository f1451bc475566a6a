"""Runs a command in the background until it reports success or failure. Knows nothing of what runs there."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from penstock.apps.cli.failures import INTERRUPTED, StartFailed
from penstock.apps.ready import StartError

_FAILED = "failed\n"
_READY = "ready\n"


def run_detached(log_file: Path, run: Callable[[Callable[[str], None]], int]) -> str:
    """Run `run` in a process of its own session, with its output in the file; returns the text that it reports with its
    argument, once it does. Raises StartFailed with its error if it ends before that."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run_child(writing, log_file, run)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        try:
            said = pipe.read()
        except KeyboardInterrupt:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            sys.exit(INTERRUPTED)
    if said.startswith(_READY):
        return said.removeprefix(_READY)
    os.waitpid(pid, 0)
    reason = said.removeprefix(_FAILED) or "It ended without saying why."
    raise StartFailed(f"{reason}\nThe log has more: {log_file}")


def _run_child(writing: int, log_file: Path, run: Callable[[Callable[[str], None]], int]) -> None:
    """The other process. Never returns into the caller's stack: its cleanup belongs to the parent."""
    pipe = os.fdopen(writing, "w", encoding="utf-8")
    code = 1
    try:
        os.setsid()
        _redirect(log_file)

        def report(text: str) -> None:
            pipe.write(_READY + text)
            pipe.close()

        code = run(report)
    except (StartError, OSError) as error:
        if not pipe.closed:
            pipe.write(_FAILED + str(error))
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()  # into the log: the process ends here, so nothing else would print it
        if not pipe.closed:
            pipe.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(log_file: Path) -> None:
    log_file.parent.mkdir(0o700, parents=True, exist_ok=True)
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.close(nothing)
