"""Fetches a key set from where the operator says: an https URL or a file. Size, time and redirects are bounded.

Never called with anything that a client or a token names. A URL cannot name a file, and a redirect is an error: what
is fetched is exactly what was configured.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from penstock.core.errors import BrokerError, InvalidConfig, MetadataUnavailable
from penstock.node.security.key_set import KEY_SET_BYTES_MAX
from penstock.node.security.private_file import read_public
from penstock.wire.http.client import ResponseReader

FETCH_S_MAX = 10.0
HEAD_BYTES_MAX = 64 * 1024
URL_CHARS_MAX = 2048
_READ_BYTES = 1 << 16
_OK = 200
_REDIRECTS = range(300, 400)

FetchKeys = Callable[[], Awaitable[bytes]]


class KeysUnavailable(Exception):
    """The keys cannot be fetched now."""


class KeyUrl(NamedTuple):
    """An https URL, taken apart."""

    host: str
    port: int
    target: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.target}"


def parse_key_url(text: str) -> KeyUrl:
    """Raises InvalidConfig."""
    if not text.isascii() or not text.isprintable() or " " in text or len(text) > URL_CHARS_MAX:
        raise InvalidConfig(
            "the URL of the key set has spaces or characters that are not ASCII, or is too long"
        )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidConfig(f"the URL of the key set is not valid: {error}") from None
    if parts.scheme != "https":
        raise InvalidConfig(
            f"the URL of the key set must start with https://, not {parts.scheme[:20]!r}; a file has its own setting"
        )
    if "@" in parts.netloc:
        raise InvalidConfig("the URL of the key set must not contain a user or a password")
    if not host or parts.fragment:
        raise InvalidConfig("the URL of the key set needs a host, and must not have a fragment (#)")
    return KeyUrl(host, port or 443, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))


def keys_from_file(path: Path) -> FetchKeys:
    """Reads the file at every call, so that a new one is found."""

    async def fetch() -> bytes:
        try:
            return read_public(path, "key set", KEY_SET_BYTES_MAX)
        except InvalidConfig as error:
            raise KeysUnavailable(str(error)) from None

    return fetch


def keys_from_url(url: KeyUrl, tls: ssl.SSLContext, fetch_s_max: float = FETCH_S_MAX) -> FetchKeys:
    """Fetches over https; the time limit covers connect, handshake and the whole response."""
    assert tls.verify_mode is ssl.CERT_REQUIRED and tls.check_hostname, "the provider must be verified"

    async def fetch() -> bytes:
        try:
            async with asyncio.timeout(fetch_s_max):
                return await _get(url, tls)
        except TimeoutError:
            raise KeysUnavailable(f"{url} did not answer within {fetch_s_max:g} s") from None
        except (OSError, BrokerError) as error:
            raise KeysUnavailable(f"cannot fetch {url}: {error}") from None

    return fetch


async def _get(url: KeyUrl, tls: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection(url.host, url.port, ssl=tls, limit=_READ_BYTES)
    try:
        host = f"[{url.host}]" if ":" in url.host else url.host
        head = (
            f"GET {url.target} HTTP/1.1",
            f"Host: {host}" + ("" if url.port == 443 else f":{url.port}"),
            "Accept: application/json",
            "Connection: close",
        )
        writer.write("\r\n".join(head).encode("ascii") + b"\r\n\r\n")
        await writer.drain()
        response, body, received = ResponseReader(KEY_SET_BYTES_MAX), bytearray(), 0
        while not response.is_complete:
            content = await reader.read(_READ_BYTES)
            if not content:
                raise MetadataUnavailable("the response ended early")
            received += len(content)
            response.feed(content)
            body += response.take()
            if len(body) > KEY_SET_BYTES_MAX or received > KEY_SET_BYTES_MAX + HEAD_BYTES_MAX:
                raise MetadataUnavailable(f"the response has over {KEY_SET_BYTES_MAX} bytes")
            if response.status in _REDIRECTS:
                raise MetadataUnavailable(
                    f"it redirects (status {response.status}), and redirects are not followed: configure the final URL"
                )
        if response.status != _OK:
            raise MetadataUnavailable(f"it answered with status {response.status}")
        return bytes(body)
    finally:
        writer.transport.abort()
