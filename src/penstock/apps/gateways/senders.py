"""The librdkafka producers of the producer service: one per ack level and delivery mode, and some for transactions.

They are opened on first use, so the service starts without a broker, and replaced when librdkafka gives one up.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from penstock.apps.gateways.brokers import Connect
from penstock.apps.gateways.settings import ProducerSettings
from penstock.client.errors import BadArgument, ClientError, DeliveryFailed, Fenced
from penstock.client.options import RETRIES_MAX, Acks
from penstock.client.rdkafka.batch_sender import BatchSender, SendOutcome
from penstock.v1 import message_pb2

logger = logging.getLogger("penstock.gateways.producer")

TRANSACTIONS_MAX = 8
"""Transactions in progress; more wait for their turn."""

_ACKS: dict[int, Acks] = {
    message_pb2.ACK_LEVEL_UNSPECIFIED: "all",
    message_pb2.ACK_LEVEL_NONE: "none",
    message_pb2.ACK_LEVEL_LEADER: "leader",
    message_pb2.ACK_LEVEL_ALL: "all",
}


_DELIVERIES = frozenset(message_pb2.DeliveryMode.values())


class SendMode(NamedTuple):
    """Ack level and delivery mode of a request."""

    acks: Acks
    is_at_most_once: bool
    is_transaction: bool


def send_mode(ack_level: int, delivery: int) -> SendMode:
    """The mode of a request. Raises BadArgument."""
    if ack_level not in _ACKS:
        raise BadArgument(f"unknown ack_level {ack_level}: use NONE (1), LEADER (2) or ALL (3).")
    if delivery not in _DELIVERIES:
        raise BadArgument(f"unknown delivery {delivery}: use 1 (at most), 2 (at least) or 3 (exactly once).")
    mode = SendMode(
        _ACKS[ack_level],
        delivery == message_pb2.DELIVERY_MODE_AT_MOST_ONCE,
        delivery == message_pb2.DELIVERY_MODE_EXACTLY_ONCE,
    )
    if mode.is_transaction and mode.acks != "all":
        raise BadArgument("EXACTLY_ONCE needs ack_level ALL: a transaction is acknowledged by all replicas.")
    return mode


class Senders:
    """All producers of the service."""

    def __init__(self, settings: ProducerSettings, connect: Connect) -> None:
        self._settings = settings
        self._connect = connect
        self._lock = asyncio.Lock()
        self._plain: dict[SendMode, BatchSender] = {}
        self._idle: list[BatchSender] = []
        self._transactions = asyncio.Semaphore(TRANSACTIONS_MAX)

    async def plain(self, mode: SendMode) -> BatchSender:
        """The producer of a mode without transactions. Raises Unreachable."""
        found = self._plain.get(mode)
        if found is None:
            async with self._lock:
                found = self._plain.get(mode)
                if found is None:
                    found = self._plain[mode] = await self._open(mode)
        return found

    @asynccontextmanager
    async def transactional(self) -> AsyncIterator[BatchSender]:
        """A producer for one transaction; given up if it fails. Raises Unreachable."""
        async with self._transactions:
            sender = self._idle.pop() if self._idle else await self._open(SendMode("all", False, True))
            try:
                yield sender
            except BaseException:
                await sender.close()
                raise
            self._idle.append(sender)

    def check(self, mode: SendMode, sender: BatchSender, outcomes: list[SendOutcome]) -> None:
        """Replace a producer that librdkafka gave up after a fatal error. Its records may be sent again, by another."""
        if Fenced not in set(map(type, outcomes)):
            return
        for index, one in enumerate(outcomes):
            if isinstance(one, Fenced):
                outcomes[index] = DeliveryFailed(str(one), retriable=True)
        if self._plain.get(mode) is sender:
            broken = self._plain.pop(mode)
            logger.error("producer failed, opening another one", extra={"acks": mode.acks})
            _closing.add(task := asyncio.ensure_future(broken.close()))
            task.add_done_callback(_closing.discard)

    async def close(self) -> None:
        """Wait for deliveries, then close all of them."""
        senders = [*self._plain.values(), *self._idle]
        self._plain.clear()
        self._idle.clear()
        await asyncio.gather(*(one.close() for one in senders))

    async def _open(self, mode: SendMode) -> BatchSender:
        settings = self._settings
        options: dict[str, Any] = {
            **await self._connect(),
            "client_id": "penstock-producer-service",
            "acks": mode.acks,
            "delivery": "at_most_once" if mode.is_at_most_once else "at_least_once",
            "linger_ms": settings.linger_ms,
            "batch_bytes_max": settings.batch_bytes_max,
            "compression": settings.compression,
            "retries": RETRIES_MAX if settings.retries is None or mode.is_at_most_once else settings.retries,
            "delivery_s_max": settings.delivery_s_max,
            "queue_records_max": 10 * settings.in_flight_records_max,
            "queue_bytes_max": 10 * settings.in_flight_bytes_max,
        }
        if mode.is_transaction:
            options["delivery"] = "exactly_once"
            options["transactional_id"] = f"penstock-producer-service-{uuid.uuid4().hex}"
            options["retries"] = RETRIES_MAX
        sender = BatchSender(**options)
        try:
            await sender.start()
        except ClientError:
            await sender.close()
            raise
        return sender


_closing: set[asyncio.Future[None]] = set()
"""Producers that are being closed in the background."""
