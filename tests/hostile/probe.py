"""The broker of the hostile suite: `penstock`, plus a note of the loop's CPU time whenever the good client is answered.

Run as `python -m hostile.probe start …`. Changes nothing else about the broker.
"""

from __future__ import annotations

import gc
import mmap
import os
import struct
from pathlib import Path
from time import thread_time_ns

from penstock.apps.cli.main import main
from penstock.node.connections.connection import Connection

GOOD_CLIENT = "good-client"
"""The client id whose answers are noted."""

AREA_VARIABLE = "HOSTILE_PROBE"
"""Names the file that both processes map: two 64-bit integers, see the cells."""

AREA_BYTES = 16
CELL = struct.Struct("<q")
ANSWERED_CELL = 0
"""CPU nanoseconds of the loop's thread when the good client was last answered."""

COLLECTED_CELL = 8
"""Nanoseconds of the longest garbage collection; the harness sets it back."""


def install(path: Path) -> None:
    """Note the CPU time of this thread, which becomes the loop's, before each write to the good client."""
    with path.open("r+b") as file:
        area = mmap.mmap(file.fileno(), AREA_BYTES)
    send_ready = Connection._send_ready

    def noting(connection: Connection) -> None:
        if connection.session.client_id == GOOD_CLIENT:
            CELL.pack_into(area, ANSWERED_CELL, thread_time_ns())
        send_ready(connection)

    started_ns = 0

    def collecting(phase: str, info: dict[str, int]) -> None:
        nonlocal started_ns
        if phase == "start":
            started_ns = thread_time_ns()
            return
        longest_ns: int = CELL.unpack_from(area, COLLECTED_CELL)[0]
        CELL.pack_into(area, COLLECTED_CELL, max(longest_ns, thread_time_ns() - started_ns))

    Connection._send_ready = noting  # type: ignore[assignment, method-assign]
    gc.callbacks.append(collecting)


if __name__ == "__main__":
    install(Path(os.environ[AREA_VARIABLE]))
    main()
