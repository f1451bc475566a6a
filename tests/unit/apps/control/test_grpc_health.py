"""The health call without a gRPC library, against a real server; and answers that are cut, wrong or endless."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from penstock.apps.control.grpc_health import FRAMES_MAX, read_health
from penstock.apps.control.health_probes import probe_broker, probe_service
from penstock.apps.control.services import Health
from penstock.core.errors import Malformed
from penstock.core.model import Address


@asynccontextmanager
async def health_server() -> AsyncIterator[tuple[Address, health.aio.HealthServicer]]:
    server, status = grpc.aio.server(), health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield Address("127.0.0.1", port), status
    finally:
        await server.stop(None)


def test_a_real_server_is_understood() -> None:
    code = health_pb2.HealthCheckResponse

    async def scene() -> None:
        async with health_server() as (address, status):
            for serving, expected in (
                (code.SERVING, Health.HEALTHY),
                (code.NOT_SERVING, Health.NOT_SERVING),
                (code.SERVING, Health.HEALTHY),
            ):
                await status.set("", serving)
                result = await probe_service(address)
                assert result.health is expected, result
            del status._server_status[""]  # the call fails: NOT_FOUND
            assert (await probe_service(address)).health is Health.NOT_SERVING
        assert (await probe_service(address)).health is Health.UNREACHABLE

    asyncio.run(scene())


def frames(*rows: tuple[int, int, int, bytes]) -> Callable[[int], object]:
    reader = asyncio.StreamReader()
    for kind, flags, stream, payload in rows:
        reader.feed_data(
            len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
        )
    reader.feed_eof()
    return reader.readexactly


@pytest.mark.parametrize(
    ("rows", "is_serving"),
    [
        ([(4, 0, 0, b""), (1, 4, 1, b"x"), (0, 0, 1, b"\0\0\0\0\x02\x08\x01")], True),
        ([(0, 0, 3, b"\0\0\0\0\x02\x08\x01"), (0, 0, 1, b"\0\0\0\0\x02\x08\x02")], False),
        ([(0, 0, 1, b"\0\0\0\0\0")], False),
        ([(1, 5, 1, b"trailers only")], False),
        ([(3, 0, 1, b"\0\0\0\0")], False),
        ([(7, 0, 0, b"\0" * 8)], False),
    ],
)
def test_only_the_message_counts(rows: list[tuple[int, int, int, bytes]], is_serving: bool) -> None:
    async def scene() -> None:
        assert await read_health(frames(*rows)) is is_serving  # type: ignore[arg-type]

    asyncio.run(scene())


def test_answers_are_bounded() -> None:
    async def scene() -> None:
        with pytest.raises(Malformed, match=f"no health answer within {FRAMES_MAX} frames"):
            await read_health(frames(*[(4, 0, 0, b"")] * (FRAMES_MAX + 1)))  # type: ignore[arg-type]
        with pytest.raises(Malformed, match="a frame of 16777215 bytes"):
            reader = asyncio.StreamReader()
            reader.feed_data(b"\xff\xff\xff\0\0\0\0\0\0")
            await read_health(reader.readexactly)
        with pytest.raises(EOFError):
            await read_health(frames((4, 0, 0, b"")))  # type: ignore[arg-type]

    asyncio.run(scene())


def test_a_server_that_closes_or_talks_nonsense_does_not_serve() -> None:
    async def scene() -> None:
        async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        for answer, words in ((close, "closed the connection"), (babble, "nonsense")):
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
            result = await probe_broker(address)
            assert result.health is Health.NOT_SERVING and words in result.detail
            server.close()

    asyncio.run(scene())
