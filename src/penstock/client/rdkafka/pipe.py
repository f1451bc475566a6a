"""Exactly-once copy between topics: read, transform, write and commit in one transaction.

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

logger = logging.getLogger("penstock.client.rdkafka.pipe")

WAIT_S = 1.0


def pipe(
    consumer: Consumer,
    producer: Producer,
    transform: Callable[[Message], Iterable[Record]],
    *,
    records_max: int = 500,
) -> int:
    """Run until the end with `until_end`, otherwise forever; returns the number of messages processed.

    A transaction covers up to `records_max` messages, the output of `transform` and the commit of their offsets. A
    transaction aborted by a broker restart or a rebalance is run again. An exception of `transform` aborts the
    transaction and ends the pipe. Raises Fenced if another producer with the same transactional id takes over.
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
            log_retry(error)
        if consumer.is_finished:
            return count


def log_retry(error: Aborted) -> None:
    """Log why a transaction is run again."""
    logger.warning("transaction aborted, running it again: %s", error, extra={"code": error.code})
