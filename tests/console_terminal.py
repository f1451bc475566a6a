"""A coordinator without processes, for tests of its terminal: `python console_terminal.py` until it is told to stop.

Prints `ready` once it takes commands, and what was done when it ends. SIGINT stops it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from memory_services import MemoryFacts, MemoryServices
from penstock.apps.control.console import Console
from penstock.apps.control.terminal import terminal


class _Stoppable(MemoryServices):
    def __init__(self, stopped: asyncio.Event) -> None:
        super().__init__()
        self._stopped = stopped

    def shut_down(self) -> None:
        super().shut_down()
        self._stopped.set()

    async def restart_all(self) -> None:
        """Waits for `consumer start`."""
        self.gate = asyncio.Event()
        await super().restart_all()

    async def start(self, name: str) -> None:
        gate, self.gate = self.gate, None
        await super().start(name)
        if gate is not None:
            gate.set()

    async def kill(self, name: str) -> None:
        logging.getLogger("penstock").warning("it was killed: %s", name)
        await super().kill(name)


async def _main() -> None:
    logging.basicConfig(stream=sys.stderr, format="LOG %(message)s")
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stopped.set)
    services = _Stoppable(stopped)
    async with terminal(services, console=Console(services, MemoryFacts())):
        print("ready", flush=True)
        await stopped.wait()
    print("done:", services.done, flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
