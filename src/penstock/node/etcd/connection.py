"""One HTTP/1.1 connection to an etcd member: one exchange at a time, or one stream. Deadlines and retries are the
client's.

A connection whose exchange was interrupted cannot be used again; `is_reusable` tells.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.errors import InvalidConfig, Malformed
from penstock.core.model import Address
from penstock.node.etcd.target import TlsFiles
from penstock.wire.http.client import ResponseReader, encode_post

READ_BYTES = 1 << 16
BODY_BYTES_MAX = 1 << 28
"""Responses are pages of metadata; more than this is not etcd."""


class Answer(NamedTuple):
    """A whole response."""

    status: int
    body: bytes


class EtcdConnection:
    """Every call raises OSError if the connection fails, Malformed or TooLarge if the response is not valid."""

    def __init__(self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer
        self._response: ResponseReader | None = None
        self._has_answered = False

    @classmethod
    async def open(cls, address: Address, tls: ssl.SSLContext | None) -> EtcdConnection:
        """Raises OSError, or Malformed if TLS cannot be established."""
        try:
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls)
        except ssl.SSLCertVerificationError as error:
            raise Malformed(
                f"the certificate of {address} is not trusted ({error.verify_message}); name its authority with"
                " ca=FILE in the metadata URL"
            ) from None
        except ssl.SSLError as error:
            raise Malformed(
                f"{address} does not accept this TLS connection: {error.reason or error}"
            ) from None
        return cls(address, reader, writer)

    @property
    def is_reusable(self) -> bool:
        is_idle = self._response is None or (self._response.is_complete and self._response.keeps_alive)
        return is_idle and not self._reader.at_eof() and not self._writer.is_closing()

    async def exchange(self, path: str, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
        """Send one request and read the whole response."""
        response = await self._send(path, headers, body)
        while not response.is_complete:
            await self._receive(response)
        return Answer(response.status, response.take())

    async def start_stream(self, path: str, headers: Sequence[tuple[str, str]], body: bytes) -> int:
        """Send one request; returns the status once the response has begun. `read_stream` continues."""
        response = await self._send(path, headers, body)
        while not response.status:
            await self._receive(response)
        return response.status

    async def read_stream(self) -> bytes:
        """The next piece of the body; empty at its end. Cancelling loses nothing."""
        response = self._response
        assert response is not None, "no stream was started"
        while not (piece := response.take()) and not response.is_complete:
            await self._receive(response)
        return piece

    def close(self) -> None:
        """Close without waiting for data in flight."""
        self._writer.transport.abort()

    async def _send(self, path: str, headers: Sequence[tuple[str, str]], body: bytes) -> ResponseReader:
        if self._writer.transport.is_closing():
            raise ConnectionResetError("the connection was reset")
        self._response = response = ResponseReader(BODY_BYTES_MAX)
        self._writer.write(encode_post(path, str(self.address), headers, body))
        await self._writer.drain()
        return response

    async def _receive(self, response: ResponseReader) -> None:
        content = await self._reader.read(READ_BYTES)
        if not content:
            hint = "" if self._has_answered else " without an answer; if it expects TLS, use etcds://"
            raise ConnectionResetError(f"closed the connection{hint}")
        self._has_answered = True
        response.feed(content)


def tls_context(files: TlsFiles | None) -> ssl.SSLContext | None:
    """Loads the files; raises InvalidConfig with the name of one that cannot be used."""
    if files is None:
        return None
    name = files.ca
    try:
        context = ssl.create_default_context(cafile=files.ca or None)
        if files.cert:
            name = files.cert
            context.load_cert_chain(files.cert, files.key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidConfig(f"cannot use the TLS file {name!r} for etcd: {error.strerror or error}") from None
    return context
