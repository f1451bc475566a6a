"""A watch as a stream of messages. Ends are messages too: callers list again and watch anew, whatever the cause.

A watch from a compacted revision answers `created`, then `canceled` with the compact revision, and is silent
afterwards. A watch on a member that stopped running is silent without any message: `next` returns None after a while,
and the caller finds out by reading.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from penstock.core.errors import Malformed, TooLarge
from penstock.core.model import Address
from penstock.node.etcd.connection import EtcdConnection
from penstock.wire.etcd.messages import Watched, decode_body, decode_watched

WATCH_IDLE_S_MAX = 2.0
"""A watch that is silent for this long is checked by reading."""
WATCH_PAUSE_S = 0.2
"""Pause before a watch that etcd ended is started anew."""


class WatchStream:
    """One watch on a connection of its own."""

    def __init__(self, connection: EtcdConnection, on_close: Callable[[WatchStream], None]) -> None:
        self._connection = connection
        self._on_close = on_close
        self._rest = b""
        self._ready: deque[Watched] = deque()

    @property
    def address(self) -> Address:
        return self._connection.address

    async def next(self, idle_s_max: float) -> Watched | None:
        """The next message; None if there was none for a while. A lost connection is a message with a cancel reason."""
        try:
            async with asyncio.timeout(idle_s_max):
                while not self._ready:
                    await self._read()
        except TimeoutError:
            return None
        except (OSError, Malformed, TooLarge) as error:
            return Watched(0, (), False, str(error), 0)
        return self._ready.popleft()

    async def _read(self) -> None:
        piece = await self._connection.read_stream()
        if not piece:
            raise ConnectionResetError("the watch has ended")
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._ready += (decode_watched(decode_body(line)) for line in lines if line.strip())

    def close(self) -> None:
        self._connection.close()
        self._on_close(self)
