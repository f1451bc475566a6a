"""The coordinator as a process with small segments, so that there is much to compact; SIGUSR1 compacts.

Prints a line after each compaction. Otherwise it is `python -m penstock.apps.coordinator`.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from penstock.apps import coordinator as app
from penstock.core.log.log import LogLimits
from penstock.node import metadata_coordinator
from penstock.node.cluster import metadata_file

metadata_file.LIMITS = LogLimits(segment_bytes=1_000, segment_ms=2**62, index_interval_bytes=100)
start = metadata_coordinator.start_coordinator


async def start_with_signal(*given: Any) -> metadata_coordinator.MetadataCoordinator:
    found = await start(*given)

    async def compact() -> None:
        await found._log.compact()
        print("compacted", flush=True)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, lambda: loop.create_task(compact()))
    return found


app.start_coordinator = start_with_signal

if __name__ == "__main__":
    app.main()
