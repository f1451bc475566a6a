"""Relays a client's connection, byte by byte, to a service at another address. Never looks at the bytes.

The client's `Connection` stays registered with the gate, so connection limits, metrics, idle time and shutdown apply to
a relayed client as to any other. Each side is read only while the other one accepts bytes; what is buffered is bounded
by the transports' high-water mark and one read. EOF of one side is passed on, and the other direction goes on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from penstock.core.model import Address
from penstock.node.connections.connection import LINGER_S_MAX, Connection
from penstock.node.runtime.tasks import Tasks

CONNECT_S_MAX = 5.0
READ_BYTES = 1 << 16


class _Side(asyncio.BufferedProtocol):
    """One of the two sockets: passes what it receives to the other side."""

    def __init__(self, relay: ByteRelay) -> None:
        self._relay = relay
        self._buffer = memoryview(bytearray(READ_BYTES))
        self.transport: asyncio.Transport | None = None
        self.other: _Side
        self.has_ended = False
        """Whether it has sent EOF."""
        self.is_lost = False
        self._linger: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.is_lost and not self.transport.is_closing()

    # -- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._relay.connection.active_at = self._relay.loop.time()
        self.other.write(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool:
        """True: the other direction stays open until its sender ends it."""
        self.has_ended = True
        self._relay.side_ended(self)
        return not self.other.has_ended

    def pause_writing(self) -> None:
        self.other.pause()

    def resume_writing(self) -> None:
        self.other.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = self.has_ended = True
        if self._linger is not None:
            self._linger.cancel()
        self._relay.side_lost(self, exc)

    # -- called by the other side

    def pause(self) -> None:
        if self.transport is not None and self.is_open:
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.transport is not None and self.is_open:
            self.transport.resume_reading()

    def write(self, received: bytes) -> None:
        if self.transport is not None and self.is_open:
            self.transport.write(received)

    def end(self) -> None:
        """Pass on EOF behind what is buffered; without another direction left, close."""
        if self.transport is None or not self.is_open:
            return
        if self.has_ended or not self.transport.can_write_eof():
            self.close()
        else:
            self.transport.write_eof()

    def close(self) -> None:
        """Close once everything is sent, or the peer does not read it in time."""
        if self.transport is not None and self.is_open:
            self.transport.close()
            self._linger = self._relay.loop.call_later(LINGER_S_MAX, self.transport.abort)


class ByteRelay:
    """One relayed connection."""

    def __init__(self, connection: Connection, service: Address, received: bytes, tasks: Tasks) -> None:
        """`received`: the bytes that were already handled; those that still wait in the connection follow them."""
        self.loop = asyncio.get_running_loop()
        self.connection = connection
        self._service = service
        self._client = _Side(self)
        self._upstream = _Side(self)
        self._client.other, self._upstream.other = self._upstream, self._client
        transport, waiting = connection.hand_over(self._client)
        self._client.connection_made(transport)
        self._client.pause()
        tasks.spawn(self._open(received + waiting))

    async def _open(self, received: bytes) -> None:
        """Connect to the service, send it what has arrived, and start to read from the client."""
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await self.loop.create_connection(lambda: self._upstream, *self._service)
        except TimeoutError:
            self.connection.close(self._unreachable(f"no answer within {CONNECT_S_MAX:g} s"))
            return
        except OSError as error:
            self.connection.close(self._unreachable(error.strerror or str(error)))
            return
        if self._client.is_lost:
            self._upstream.close()
            return
        self._client.resume()  # first: a full upstream pauses it again
        self._upstream.write(received)

    def _unreachable(self, why: str) -> str:
        return (
            f"the gRPC service at {self._service} cannot be reached: {why};"
            " start it, or change the setting grpc_relay"
        )

    def side_ended(self, side: _Side) -> None:
        if side is self._upstream and not self._client.has_ended:
            self._log("it closed the connection")
        side.other.end()

    def side_lost(self, side: _Side, exc: Exception | None) -> None:
        """One socket is gone, so the other one is closed."""
        if side is self._client:
            self.connection.connection_lost(exc)
        elif exc is not None and not self._client.has_ended:
            self._log(str(exc))
        side.other.close()

    def _log(self, why: str) -> None:
        logging.getLogger(f"penstock.{self.connection.dialect_name}").warning(
            "closing connection: the gRPC service at %s ended: %s; the client must connect again",
            self._service,
            why,
            extra=self.connection.context,
        )
