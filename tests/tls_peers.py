"""A TLS server and clients for tests of contexts: every connection is echoed, and its certificate noted."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

CONNECT_S_MAX = 60.0


class EchoServer(NamedTuple):
    """A port, and the client certificates that were presented to it, in DER."""

    port: int
    certificates: list[bytes | None]


@asynccontextmanager
async def echo_server(context: ssl.SSLContext) -> AsyncIterator[EchoServer]:
    """Answers every line with the same line, until the client leaves."""
    certificates: list[bytes | None] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        certificates.append(writer.get_extra_info("ssl_object").getpeercert(True))
        try:
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
        except OSError:
            pass  # the client has gone
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield EchoServer(server.sockets[0].getsockname()[1], certificates)
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


class EchoClient:
    """A connection to an echo server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int, context: ssl.SSLContext, host: str = "localhost") -> EchoClient:
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=host))

    async def echo(self, line: bytes = b"hello\n") -> bytes:
        """With TLS 1.3 a client learns only here that its certificate was refused. Raises OSError, or returns less."""
        self._writer.write(line)
        await self._writer.drain()
        return await self._reader.readline()

    @property
    def tls(self) -> ssl.SSLObject:
        found = self._writer.get_extra_info("ssl_object")
        assert isinstance(found, ssl.SSLObject)
        return found

    def close(self) -> None:
        self._writer.transport.abort()


async def is_served(port: int, context: ssl.SSLContext, host: str = "localhost") -> bool:
    """Whether a client can connect and gets an echo."""
    try:
        client = await EchoClient.open(port, context, host)
    except OSError:
        return False
    try:
        return await client.echo() == b"hello\n"
    except OSError:
        return False
    finally:
        client.close()


def connect_again(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool]:
    """A blocking connection that offers to resume a session: its session, and whether the server agreed."""
    with (
        socket.create_connection(("127.0.0.1", port), CONNECT_S_MAX) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as tls,
    ):
        tls.sendall(b"hello\n")
        assert tls.recv(100) == b"hello\n"
        return tls.session, bool(tls.session_reused)
