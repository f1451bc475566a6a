"""What becomes of a message when its handler is done with it. Shared by the blocking and the asyncio client; no I/O."""

from __future__ import annotations

import logging

from penstock.client.errors import ClientError
from penstock.client.queue_session import HeldMessage, Message

logger = logging.getLogger("penstock.client")

ACCEPT, RELEASE, REJECT = "accept", "release", "reject"


class Reject(Exception):
    """Raise it in a handler: this message will never be good, put it into the dead letter topic."""


def held_place(message: Message) -> HeldMessage:
    """The place of a message, by which it is settled."""
    return HeldMessage(message.subscription, message.partition, message.offset)


def failure_on(message: Message) -> str:
    """What to log of a message whose handler has raised."""
    return (
        f"the handler of {message.subscription!r} failed on {message.topic}-{message.partition} "
        f"offset {message.offset}, delivery {message.delivery}"
    )


def tell_refused(held: HeldMessage, error: ClientError) -> None:
    """The broker does not take what was said of a message."""
    logger.warning(
        "%r: the message at %d-%d was settled too late and is delivered again: %s",
        *(held.subscription, held.partition, held.offset, error),
    )
