"""The queue clients over TLS, against a proxy that ends TLS in front of a real broker."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from certificates import Certificates, make_certificates
from penstock import AsyncBrokerClient, BrokerClient
from penstock.client.errors import TlsFailed
from penstock.testing import Broker


class TlsProxy:
    """Decrypts connections and passes them on."""

    def __init__(self, target: tuple[str, int], certificates: Certificates) -> None:
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates.server)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        serving = asyncio.start_server(self._serve, sock=self._listening, ssl=self._context)
        self._loop.run_until_complete(serving)
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection(*self._target)
        await asyncio.gather(_copy(reader, upstream[1]), _copy(upstream[0], writer), return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while content := await reader.read(1 << 16):
        writer.write(content)
        await writer.drain()
    writer.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def port(broker: Broker, certificates: Certificates) -> Iterator[int]:
    proxy = TlsProxy((broker.host, broker.queue_port), certificates)
    yield proxy.port
    proxy.close()


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_messages_in_both_directions_at_the_same_time(port: int, certificates: Certificates) -> None:
    size, count = 200_000, 20
    arrived: list[bytes | None] = []
    done = threading.Event()

    def handle(message: object) -> None:
        arrived.append(message.body)  # type: ignore[attr-defined]
        if len(arrived) == count:
            done.set()

    with BrokerClient("127.0.0.1", port, tls_ca=certificates.ca) as client:
        client.create_topic("tls", 1)
        client.create_subscription("tls", "tls")
        client.subscribe_to_subscription("tls", handle)
        for number in range(count):
            client.publish("tls", bytes([number]) * size)
        assert done.wait(120)
    assert sorted(arrived, key=lambda one: one or b"") == [bytes([number]) * size for number in range(count)]


def test_the_asyncio_client_encrypts_too(port: int, certificates: Certificates) -> None:
    async def talk() -> int:
        async with AsyncBrokerClient("127.0.0.1", port, tls_ca=certificates.ca) as client:
            await client.create_topic("tls-async", 1)
            return await client.publish("tls-async", b"x")

    assert asyncio.run(talk()) == 0


def test_what_is_wrong_with_tls_is_said(port: int, certificates: Certificates) -> None:
    with pytest.raises(TlsFailed, match=r"not trusted.*Set tls_ca"):
        BrokerClient("127.0.0.1", port, tls=True).connect()
    with pytest.raises(TlsFailed, match="another host"):
        BrokerClient("localhost", port, tls_ca=certificates.ca).connect()
    with pytest.raises(TlsFailed, match="is a TLS port: turn on tls"):
        BrokerClient("127.0.0.1", port, request_timeout_s=5).connect()

    async def talk() -> None:
        await AsyncBrokerClient("127.0.0.1", port, tls_ca=certificates.other_ca).connect()

    with pytest.raises(TlsFailed, match="not trusted"):
        asyncio.run(talk())
