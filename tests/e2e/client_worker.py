"""A program that uses the Python clients and may be killed at any moment. Never decides when it is over; a test does.

Arguments: JSON with `bootstrap`, `mode`, `source`, `target`, `delivery`.
`handle`: prints each message's value and waits for a line on stdin before it asks for the next one.
`pipe`: copies from source to target in transactions and prints a line for each message that it has taken up.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from penstock import Consumer, Message, Producer, Record, pipe

RECONNECT = {"reconnect.backoff.max.ms": 100}


def consumer(job: dict[str, Any], **options: Any) -> Consumer:
    return Consumer(
        job["source"],
        bootstrap=job["bootstrap"],
        group=job["source"],
        delivery=job["delivery"],
        instance_id="worker",
        commit_interval_ms=50,
        connect_s_max=30,
        librdkafka=RECONNECT,
        value_serializer="string",
        **options,
    )


def handle(job: dict[str, Any]) -> None:
    with consumer(job, read_ahead_records_max=1) as source:
        for message in source:
            print(message.value, flush=True)
            if not sys.stdin.readline():
                return


def copy(job: dict[str, Any]) -> None:
    def transform(message: Message) -> Iterable[Record]:
        print(message.value, flush=True)
        yield Record(job["target"], message.value, partition=message.partition)

    producer = Producer(
        bootstrap=job["bootstrap"],
        delivery="exactly_once",
        transactional_id=job["source"],
        value_serializer="string",
        connect_s_max=30,
        librdkafka=RECONNECT,
    )
    with consumer(job) as source, producer:
        pipe(source, producer, transform, records_max=10)


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    {"handle": handle, "pipe": copy}[job["mode"]](job)
