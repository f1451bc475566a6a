"""One port of a node: taken at start, its door's code loaded with the first client. Never reads a request."""

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
    """A listening socket, and the dialect that is spoken on it."""

    def __init__(self, gate: Gate, address: Address, make_dialect: Callable[[], Dialect[Connection]]) -> None:
        self._gate = gate
        self._address = address
        self._make_dialect = make_dialect
        self._loop = asyncio.get_running_loop()
        self._dialect: Dialect[Connection] | None = None
        self._server: asyncio.Server | None = None

    @property
    def dialect(self) -> Dialect[Connection]:
        """What is spoken here; made when it is first asked for."""
        if self._dialect is None:
            self._dialect = self._make_dialect()
        return self._dialect

    async def open(self) -> Address:
        """Take the port; returns the address with its real port. OSError when it cannot."""
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
        """The connection of a client that has come."""
        return Connection(self._loop, self._gate, self.dialect)

    def _apply_buffer_sizes(self) -> None:
        """Sizes set on the listening socket pass to every connection that it accepts."""
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
        """Stop listening, and answer what waits with what there is."""
        if self._server is not None:
            self._server.close()
        if self._dialect is not None:
            self._dialect.release_waiting()
