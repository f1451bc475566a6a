"""A real broker in memory with its HTTP door, asked through the bytes of real requests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from http_client import HttpClient
from memory_broker import SETTINGS, with_broker
from penstock.apps.doorways import Doorways
from penstock.node.broker import Broker

Test = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """A broker and its doors, without listening sockets."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.doors = Doorways(broker)
        self.clients: list[HttpClient] = []

    def client(self) -> HttpClient:
        client = HttpClient(self.doors)
        self.clients.append(client)
        return client


@pytest.fixture
def play() -> Callable[..., None]:
    """Runs a test with a stage whose broker has these settings."""

    def run(test: Test, workers: Any = None, **settings: Any) -> None:
        async def main(broker: Broker) -> None:
            stage = Stage(broker)
            await test(stage)
            for client in stage.clients:
                await client.hang_up()

        with_broker(main, replace(SETTINGS, http_port=0, **settings), workers)

    return run
