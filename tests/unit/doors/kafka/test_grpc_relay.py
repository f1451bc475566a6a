"""The Kafka port of a broker with grpc_relay: HTTP/2 goes to the service, Kafka requests are answered as ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from memory_broker import SETTINGS, with_broker
from penstock.apps.doorways import KAFKA, Doorways
from penstock.core.model import Address
from penstock.node.broker import Broker
from penstock.wire.foreign_protocol import HTTP2_PREFACE
from penstock.wire.kafka import ApiKey, encode_request
from request_builders import metadata

SECONDS_MAX = 60

Received = list[bytes]


def request(number: int) -> bytes:
    return bytes(encode_request(ApiKey.METADATA, 9, number, "test", metadata()))


async def answer(reader: asyncio.StreamReader) -> int:
    """The number of the next response."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    return int.from_bytes((await reader.readexactly(size))[:4], "big")


def play(test: Callable[[Address, Received], Coroutine[Any, Any, None]]) -> None:
    """Runs a test with the address of a Kafka port and what the service behind it has received."""
    received: Received = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1 << 16):
            received.append(piece)
            writer.write(b"ok")
        writer.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:

        async def main(broker: Broker) -> None:
            service = await asyncio.start_server(serve, sock=listening)
            doors = Doorways(broker)
            addresses = await doors.open()
            await doors.serve(addresses[KAFKA])
            async with asyncio.timeout(SECONDS_MAX):
                await test(addresses[KAFKA], received)
            await doors.close()
            service.close()

        service = f"127.0.0.1:{listening.getsockname()[1]}"
        with_broker(main, replace(SETTINGS, port=0, grpc_relay=service))


def test_the_first_bytes_decide() -> None:
    async def test(kafka: Address, received: Received) -> None:
        reader, writer = await asyncio.open_connection(*kafka)
        grpc_reader, grpc_writer = await asyncio.open_connection(*kafka)
        grpc_writer.write(HTTP2_PREFACE + b"x")
        writer.write(request(1) + request(2))
        assert [await answer(reader), await answer(reader)] == [1, 2]
        assert await grpc_reader.readexactly(2) == b"ok"
        assert b"".join(received) == HTTP2_PREFACE + b"x"
        writer.write(request(3))
        assert await answer(reader) == 3
        grpc_writer.write_eof()
        assert await grpc_reader.read() == b""
        for one in (writer, grpc_writer):
            one.close()

    play(test)


@pytest.mark.parametrize("is_together", [True, False])
def test_http2_behind_kafka_requests_is_refused(is_together: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def test(kafka: Address, received: Received) -> None:
        reader, writer = await asyncio.open_connection(*kafka)
        if is_together:
            writer.write(request(1) + HTTP2_PREFACE)
        else:
            writer.write(request(1))
            assert await answer(reader) == 1
            writer.write(HTTP2_PREFACE)
        with suppress(ConnectionError):  # it is closed with bytes unread
            await reader.read()
        assert received == []
        writer.close()

    play(test)
    assert len([record for record in caplog.records if "closing connection" in record.getMessage()]) == 1
