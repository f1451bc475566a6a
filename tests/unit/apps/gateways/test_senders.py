"""The producers of the producer service: one per mode, replaced after a fatal error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.apps.gateways import senders as senders_module
from penstock.apps.gateways.senders import Senders, SendMode, send_mode
from penstock.apps.gateways.settings import ProducerSettings
from penstock.client.errors import BadArgument, DeliveryFailed, Fenced
from penstock.client.rdkafka.batch_sender import SendOutcome
from penstock.v1 import message_pb2

MODE = SendMode("all", False, False)


class Producer:
    """A sender that only counts."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.closed = 0

    async def start(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        self.closed += 1


def test_a_producer_that_failed_is_replaced_and_its_records_may_be_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(senders_module, "BatchSender", Producer)

    async def connection() -> dict[str, Any]:
        return {"bootstrap": "127.0.0.1:1"}

    async def test() -> None:
        senders = Senders(ProducerSettings(), connection)
        first: Any = await senders.plain(MODE)
        assert await senders.plain(MODE) is first and first.options["acks"] == "all"
        outcomes: list[SendOutcome] = [(0, 1, 2), Fenced("t: out of order")]
        senders.check(MODE, first, outcomes)
        senders.check(MODE, first, [Fenced("t: a later batch of it")])
        assert outcomes[0] == (0, 1, 2)
        failure = outcomes[1]
        assert isinstance(failure, DeliveryFailed) and failure.retriable and "out of order" in str(failure)
        assert await senders.plain(MODE) is not first
        while not first.closed:
            await asyncio.sleep(0)
        assert first.closed == 1
        await senders.close()

    asyncio.run(test())


def test_modes_are_validated() -> None:
    assert send_mode(0, 0) == MODE
    for ack_level, delivery in ((9, 0), (0, 9), (message_pb2.ACK_LEVEL_NONE, 3)):
        with pytest.raises(BadArgument):
            send_mode(ack_level, delivery)
