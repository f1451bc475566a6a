"""How commands that run until Ctrl-C end: signals that let them clean up, and pipes whose reader is gone."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_on_interrupt() -> list[int]:
    """A list that Ctrl-C, SIGTERM or SIGHUP appends to, so that the command can clean up and exit.

    An exception could be raised inside a callback of the client library, which would swallow it. A second signal
    terminates the process.
    """
    stopping: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        stopping.append(number)
        for one, before in handlers.items():
            signal.signal(one, before)

    handlers = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    return stopping


def forget_stdout() -> None:
    """Redirect stdout after a broken pipe: that is a normal exit, and the interpreter must not report it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
