"""One port of a node: bound at start; its door is imported with the first client. Reads no requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from penstock.node.connections.addresses import Address
from penstock.node.connections.connection import Connection
from penstock.node.connections.conversation import Dialect
from penstock.node.connections.gate import Gate

BACKLOG = 1024


class Listener:
    """A listening socket and its dialect."""

    def __init__(self, gate: Gate, address: Address, make_dialect: Callable[[], Dialect[Connection]]) -> None:
        self._gate = gate
        self._address = address
        self._make_dialect = make_dialect
        self._loop = asyncio.get_running_loop()
        self._dialect: Dialect[Connection] | None = None
        self._server: asyncio.Server | None = None

    @property
    def dialect(self) -> Dialect[Connection]:
        """The dialect of this port; created on first use."""
        if self._dialect is None:
            self._dialect = self._make_dialect()
        return self._dialect

    async def open(self) -> Address:
        """Bind the port; returns the address with the actual port. Raises OSError."""
        host, port = self._address
        self._server = await self._loop.create_server(
            self.connect, host, port, backlog=BACKLOG, start_serving=False
        )
        self._apply_buffer_sizes()
        return Address(host, self._server.sockets[0].getsockname()[1])

    async def serve(self) -> None:
        """Accept connections."""
        assert self._server is not None
        await self._server.start_serving()

    def connect(self) -> Connection:
        """Create the connection of a new client."""
        return Connection(self._loop, self._gate, self.dialect)

    def _apply_buffer_sizes(self) -> None:
        """Accepted sockets inherit the buffer sizes of the listening socket."""
        assert self._server is not None
        sizes = {
            socket.SO_RCVBUF: self._gate.limits.socket_receive_bytes,
            socket.SO_SNDBUF: self._gate.limits.socket_send_bytes,
        }
        for listening in self._server.sockets:
            for option, size in sizes.items():
                if size:
                    listening.setsockopt(socket.SOL_SOCKET, option, size)

    def close(self) -> None:
        """Stop listening, and answer waiting calls with what is available."""
        if self._server is not None:
            self._server.close()
        if self._dialect is not None:
            self._dialect.release_waiting()
