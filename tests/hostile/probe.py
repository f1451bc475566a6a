"""The broker of the hostile suite: `penstock`, plus a note of the loop's CPU time whenever the good client is answered.

Run as `python -m hostile.probe start …`. Changes nothing else about the broker.
"""

from __future__ import annotations

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
"""Names the file that both processes map: one 64-bit integer, CPU nanoseconds of the loop's thread."""

AREA_BYTES = 8
CELL = struct.Struct("<q")


def install(path: Path) -> None:
    """Note the CPU time of this thread, which becomes the loop's, before each write to the good client."""
    with path.open("r+b") as file:
        area = mmap.mmap(file.fileno(), AREA_BYTES)
    send_ready = Connection._send_ready

    def noting(connection: Connection) -> None:
        if connection.client_id == GOOD_CLIENT:
            CELL.pack_into(area, 0, thread_time_ns())
        send_ready(connection)

    Connection._send_ready = noting  # type: ignore[method-assign]


if __name__ == "__main__":
    install(Path(os.environ[AREA_VARIABLE]))
    main()
