"""From topic to topic, each message once: read, transform, write and commit as one. Never leaves a step half done.

consumer = Consumer("orders", group="billing", delivery="exactly_once", value_serializer="json")
producer = Producer(delivery="exactly_once", transactional_id="billing-1", value_serializer="json")
pipe(consumer, producer, lambda order: [Record("bills", bill(order.value), key=order.key)])
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from penstock.client.errors import Aborted
from penstock.client.messages import Message, Record
from penstock.client.rdkafka.consumer import Consumer
from penstock.client.rdkafka.producer import Producer

logger = logging.getLogger("penstock.client.pipe")

WAIT_S = 1.0


def pipe(
    consumer: Consumer,
    producer: Producer,
    transform: Callable[[Message], Iterable[Record]],
    *,
    records_max: int = 500,
) -> int:
    """Run until the consumer's `until_end` says so, else for ever; returns how many messages went through.

    Each transaction holds up to `records_max` messages, what `transform` made of them, and the commit of their offsets.
    One that is aborted, because a broker was restarted or the group was shared anew, is run again. What `transform`
    raises ends the pipe; none of its transaction has happened then. Raises Fenced when another producer of the same
    name has taken over.
    """
    count = 0
    while True:
        messages = consumer.batch(records_max, WAIT_S)
        try:
            if messages:
                with producer.transaction(consumer):
                    for message in messages:
                        for record in transform(message):
                            producer.send_record(record)
                count += len(messages)
        except Aborted as error:
            run_again(error)
        if consumer.is_finished:
            return count


def run_again(error: Aborted) -> None:
    """Say why the same messages go through once more."""
    logger.warning("a transaction is run again: %s", error, extra={"code": error.code})
