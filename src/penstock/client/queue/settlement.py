"""Outcomes of a handled message: accept, release, reject. Shared by the blocking and the asyncio client; no I/O."""

from __future__ import annotations

import logging

from penstock.client.errors import ClientError
from penstock.client.queue.session import HeldMessage, Message

logger = logging.getLogger("penstock.client")

ACCEPT, RELEASE, REJECT = "accept", "release", "reject"


class Reject(Exception):
    """Raise in a handler to move the message to the dead-letter topic instead of redelivering it."""


def held_message(message: Message) -> HeldMessage:
    """The key by which a message is settled."""
    return HeldMessage(message.subscription, message.partition, message.offset)


def handler_failure(message: Message) -> str:
    """Log line for a message whose handler raised."""
    return (
        f"handler of subscription {message.subscription!r} failed on {message.topic}-{message.partition} "
        f"offset {message.offset}, delivery {message.delivery}; releasing the message"
    )


def log_refused(held: HeldMessage, error: ClientError) -> None:
    """Log that the broker rejected the settlement of a message."""
    logger.warning(
        "subscription %r: partition %d offset %d settled too late, it will be redelivered: %s",
        *(held.subscription, held.partition, held.offset, error),
    )
