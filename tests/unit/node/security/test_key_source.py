"""Fetching a key set: https or a file and nothing else, bounded in size and time, without redirects."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.core.errors import InvalidConfig
from penstock.node.security.key_set import KEY_SET_BYTES_MAX
from penstock.node.security.key_source import (
    KeysUnavailable,
    KeyUrl,
    keys_from_file,
    keys_from_url,
    parse_key_url,
)
from penstock.node.security.tls_context import TlsPolicy, client_context, server_context
from security_samples import client_paths, make_tls_files, server_paths

KEYS = b'{"keys":[]}'
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://id.example.com/keys", KeyUrl("id.example.com", 443, "/keys")),
        ("https://id.example.com", KeyUrl("id.example.com", 443, "/")),
        ("https://[::1]:8443/a/b?c=d", KeyUrl("::1", 8443, "/a/b?c=d")),
        ("HTTPS://ID.example.com/", KeyUrl("id.example.com", 443, "/")),
    ],
)
def test_urls(text: str, url: KeyUrl) -> None:
    assert parse_key_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://id.example.com/keys",
        "file:///etc/passwd",
        "ftp://id.example.com/keys",
        "gopher://id.example.com/keys",
        "data:application/json,{}",
        "//id.example.com/keys",
        "/etc/passwd",
        "https:///keys",
        "https://user:password@id.example.com/keys",
        "https://id.example.com@evil.example/keys",
        "https://id.example.com/keys#fragment",
        "https://id.example.com:99999/keys",
        "https://id.example.com:x/keys",
        "https://id.example.com/ke ys",
        "https://id.example.com/keys\r\nHost: evil.example",
        "https://id.example.com/\x00",
        "https://[::1/keys",
        "https://例え.example/keys",
        "https://id.example.com/" + "x" * 3000,
    ],
)
def test_urls_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="URL of the key set"):
        parse_key_url(text)


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(InvalidConfig) as raised:
        parse_key_url("https://user:hunter2@id.example.com/keys")
    assert "hunter2" not in str(raised.value)


def test_a_file_is_read_at_every_call(tmp_path: Path) -> None:
    fetch = keys_from_file(tmp_path / "keys.json")
    with pytest.raises(KeysUnavailable, match="cannot read"):
        asyncio.run(fetch())
    (tmp_path / "keys.json").write_bytes(KEYS)
    assert asyncio.run(fetch()) == KEYS
    (tmp_path / "keys.json").write_bytes(b"x" * (KEY_SET_BYTES_MAX + 1))
    with pytest.raises(KeysUnavailable, match="over the limit"):
        asyncio.run(fetch())


# -- over https


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tls_files(tmp_path_factory.mktemp("tls") / "files")


@asynccontextmanager
async def provider(
    files: Path, *pieces: bytes, stays_open: bool = False
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that reads a request and answers with these pieces; its port, and the requests."""
    requests: list[bytes] = []
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if stays_open:
                await done.wait()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client leaves as soon as it has seen enough
        writer.close()

    tls = server_context(server_paths(files), TlsPolicy(), datetime.now(UTC))
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], requests
    finally:
        done.set()
        server.close()


def trusting(files: Path) -> ssl.SSLContext:
    return client_context(client_paths(files, None), TlsPolicy(), datetime.now(UTC))


def fetched(
    files: Path, *pieces: bytes, stays_open: bool = False, fetch_s_max: float = 60.0, host: str = "127.0.0.1"
) -> tuple[bytes, list[bytes]]:
    async def run() -> tuple[bytes, list[bytes]]:
        async with provider(files, *pieces, stays_open=stays_open) as (port, requests):
            fetch = keys_from_url(KeyUrl(host, port, "/keys?a=b"), trusting(files), fetch_s_max)
            return await fetch(), requests

    return asyncio.run(run())


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_keys_are_fetched(files: Path) -> None:
    body, (request,) = fetched(files, answer(KEYS))
    assert body == KEYS
    assert request.startswith(b"GET /keys?a=b HTTP/1.1\r\nHost: 127.0.0.1:")


def test_chunked_answers_in_pieces(files: Path) -> None:
    head = CHUNKED
    body, _ = fetched(files, head, b"5\r\n" + KEYS[:5] + b"\r\n", b"6\r\n" + KEYS[5:] + b"\r\n0\r\n\r\n")
    assert body == KEYS


@pytest.mark.parametrize("target", ["http://127.0.0.1/", "file:///etc/passwd", "https://other.example/keys"])
@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect"])
def test_redirects_are_not_followed(files: Path, target: str, status: str) -> None:
    with pytest.raises(KeysUnavailable, match="redirects are not followed"):
        fetched(files, answer(b"", status, f"Location: {target}"))


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ((answer(KEYS, "404 Not Found"),), "status 404"),
        ((answer(KEYS, "500 Oops"),), "status 500"),
        ((answer(KEYS)[:-3],), "ended early"),
        ((b"",), "ended early"),
        ((b"SSH-2.0-OpenSSH\r\n\r\n",), "not HTTP"),
        ((answer(b"x" * (KEY_SET_BYTES_MAX + 1)),), "over"),
        (
            (
                CHUNKED,
                *[b"10000\r\n" + b"x" * 65536 + b"\r\n"] * 20,
            ),
            "over",
        ),
        ((b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"x" * 60_000 + b"\r\n"] * 30), "over|not HTTP"),
    ],
)
def test_other_answers_are_refused(files: Path, pieces: tuple[bytes, ...], words: str) -> None:
    with pytest.raises(KeysUnavailable, match=words):
        fetched(files, *pieces)


def test_a_provider_that_does_not_answer_is_given_up(files: Path) -> None:
    with pytest.raises(KeysUnavailable, match=r"did not answer within 0.2 s"):
        fetched(files, b"HTTP/1.1 200 OK\r\n", stays_open=True, fetch_s_max=0.2)


def test_the_provider_is_verified(files: Path, tmp_path: Path) -> None:
    strangers = make_tls_files(tmp_path / "strangers")

    async def run() -> bytes:
        async with provider(files, answer(KEYS)) as (port, _):
            return await keys_from_url(KeyUrl("127.0.0.1", port, "/"), trusting(strangers))()

    with pytest.raises(KeysUnavailable, match=r"(?i)certificate"):
        asyncio.run(run())


def test_a_context_that_verifies_nothing_is_a_defect() -> None:
    careless = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    careless.check_hostname = False
    careless.verify_mode = ssl.CERT_NONE
    with pytest.raises(AssertionError):
        keys_from_url(KeyUrl("127.0.0.1", 1, "/"), careless)


def test_nobody_listens(files: Path) -> None:
    with pytest.raises(KeysUnavailable, match=r"cannot fetch https://127.0.0.1:1/"):
        asyncio.run(keys_from_url(KeyUrl("127.0.0.1", 1, "/"), trusting(files))())
