"""AsyncBrokerClient against a real broker: the same behaviour as the blocking one, on one loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock import AsyncBrokerClient
from penstock.client import errors
from penstock.client.queue import Message, Reject
from penstock.testing import Broker, running_broker

WAIT_S_MAX = 60.0


async def until(what: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not what():
            await asyncio.sleep(0.01)


def with_client(play: Callable[[AsyncBrokerClient, Broker], Coroutine[Any, Any, None]], home: Path) -> None:
    async def main(broker: Broker) -> None:
        async with AsyncBrokerClient("127.0.0.1", broker.queue_port, request_timeout_s=WAIT_S_MAX) as client:
            await play(client, broker)

    with running_broker(home) as broker:
        asyncio.run(main(broker))


def test_publish_many_at_once_subscribe_fail_reject_and_leave(tmp_path: Path) -> None:
    async def play(client: AsyncBrokerClient, broker: Broker) -> None:
        assert await client.create_topic("t", 1)
        assert not await client.create_topic("t")
        offsets = await asyncio.gather(*(client.publish_text("t", str(number)) for number in range(100)))
        assert sorted(offsets) == list(range(100))
        await client.create_subscription("s", "t", max_deliveries=2)
        seen: list[tuple[str, int]] = []

        async def handle(message: Message) -> None:
            seen.append((message.text, message.delivery))
            await asyncio.sleep(0)
            if message.text == "7":
                raise Reject("seven")
            if message.text == "8" and message.delivery == 1:
                raise ValueError("not yet")

        await client.subscribe_to_subscription("s", handle, window=10)
        await until(lambda: len(seen) == 101)
        assert {text for text, number in seen if number == 2} == {"8"}
        await client.unsubscribe_from_subscription("s")
        assert not client.is_subscribed("s")
        described = await client.describe_subscription("s")
        assert (described["members"], described["partitions"][0]["held_count"]) == ([], 0)
        while (await client.describe_subscription("s"))["partitions"][0]["unsettled_count"]:
            await asyncio.sleep(0.01)
        assert await client.redrive("s") == 1
        assert [one["name"] for one in await client.list_subscriptions()] == ["s"]
        await client.delete_subscription("s")
        with pytest.raises(errors.NotFound):
            await client.subscribe_to_subscription("s", handle)

    with_client(play, tmp_path)


def test_it_outlives_its_broker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play(client: AsyncBrokerClient, broker: Broker) -> None:
        got: list[str] = []
        await client.create_topic("t")
        await client.create_subscription("s", "t")
        await client.subscribe_to_subscription("s", lambda message: got.append(message.text))
        await client.publish_text("t", "before")
        await until(lambda: got)
        await asyncio.to_thread(broker.kill)
        late = asyncio.ensure_future(client.publish_text("t", "after"))
        await asyncio.to_thread(broker.start)
        await late
        await until(lambda: "after" in got)
        with pytest.raises(errors.IllegalState):
            await client.connect()

    with caplog.at_level(logging.INFO):
        with_client(play, tmp_path)


def test_what_cannot_be_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        async def silence() -> None:
            client = AsyncBrokerClient("127.0.0.1", port, request_timeout_s=0.2)
            with pytest.raises(errors.IllegalState, match=r"connect\(\) first"):
                await client.create_topic("t")
            with pytest.raises(errors.Unreachable, match="no response"):
                await client.connect()
            with pytest.raises(errors.BadArgument):
                AsyncBrokerClient(request_timeout_s=0)

        asyncio.run(silence())

    async def nobody() -> None:
        with pytest.raises(errors.Unreachable, match=f"127.0.0.1:{port}.*queue port"):
            await AsyncBrokerClient("127.0.0.1", port).connect()

    asyncio.run(nobody())
