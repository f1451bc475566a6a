"""A real broker in memory with its HTTP door, asked through the bytes of real requests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from cluster_nodes import until
from http_client import Answer, HttpClient
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


class PatientClient(HttpClient):
    """Lets virtual time pass: a change goes to the metadata store and back."""

    async def answer(self, is_head: bool = False) -> Answer:
        found: list[Answer] = []

        def take() -> bool:
            answer = self.take(is_head)
            found.extend([] if answer is None else [answer])
            return bool(found)

        await until(take)
        return found[0]


def client_of(broker: Broker) -> HttpClient:
    """A client of a broker that has no listening sockets."""
    broker.settings = replace(broker.settings, http_port=0)
    return PatientClient(Doorways(broker))


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
