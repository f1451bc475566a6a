"""A listening port of a simulated host, as asyncio's servers look. Never builds a connection; `net` does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, NamedTuple

from sim.hosts import Host

if TYPE_CHECKING:
    from sim.net import SimNet


class Listening(NamedTuple):
    """The part of a listening socket that programs ask for: its address."""

    host: str
    port: int

    def getsockname(self) -> tuple[str, int]:
        return self.host, self.port


class SimServer(asyncio.AbstractServer):
    """Accepts connections to (host, port) while it serves."""

    def __init__(
        self,
        net: SimNet,
        host: Host,
        context: Context,
        factory: Callable[[], asyncio.BaseProtocol],
        address: tuple[str, int],
        *,
        local_only: bool,
    ) -> None:
        self._net = net
        self.host = host
        self.context = context
        self.factory = factory
        self.port = address[1]
        self.local_only = local_only
        self._address = Listening(*address)
        self._open = True
        self._serving = False
        self._ended: asyncio.Future[None] = net.loop.create_future()

    @property
    def sockets(self) -> tuple[Listening, ...]:
        return (self._address,) if self._open else ()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._net.loop

    def is_serving(self) -> bool:
        return self._serving

    async def start_serving(self) -> None:
        self._serving = self._open

    async def serve_forever(self) -> None:
        await self.start_serving()
        try:
            await asyncio.shield(self._ended)
        finally:
            self.close()

    def close(self) -> None:
        """Stop listening; connections that were accepted live on."""
        if self._open:
            self._open = self._serving = False
            self._net.unlisten(self)
            if not self._ended.done():
                self._ended.set_result(None)

    async def wait_closed(self) -> None:
        await asyncio.shield(self._ended)
