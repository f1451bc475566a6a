"""A producer as a process, through a Python client: numbered records with keys, until its input ends.

Arguments: client, bootstrap, JSON of {"topic": …, "keys": …, "pace_s": …}. Record n has the key n modulo `keys` and the
value n; the client chooses the partition. Each line on stdout is JSON: {"acked": [partition, offset, n]} for every
record that all in-sync replicas have, {"failed": …} for one that the client gave up. Every producer is idempotent and
has several requests in flight, if its client can. The writers in Java, Node and Go do the same.
"""

from __future__ import annotations

import asyncio
import json
import select
import sys
import time
from collections.abc import Iterator
from typing import Any

GIVE_UP_MS = 180_000
CLOSE_S_MAX = 30.0


def say(**fact: Any) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


def numbers() -> Iterator[int]:
    """0, 1, 2 … until the input ends."""
    number = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        yield number
        number += 1


def record(number: int, options: dict[str, Any]) -> tuple[bytes, bytes]:
    """Key and value."""
    return b"%d" % (number % options["keys"]), b"%d" % number


def write_confluent(bootstrap: str, options: dict[str, Any]) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "delivery.timeout.ms": GIVE_UP_MS,
            "linger.ms": 0,
            "log_level": 0,
        }
    )

    def told(error: Any, message: Any) -> None:
        if error is None:
            say(acked=[message.partition(), message.offset(), int(message.value())])
        else:
            say(failed=error.name())

    for number in numbers():
        key, value = record(number, options)
        producer.produce(options["topic"], value, key, on_delivery=told)
        producer.poll(options["pace_s"])
    producer.flush(CLOSE_S_MAX)


def write_aiokafka(bootstrap: str, options: dict[str, Any]) -> None:
    asyncio.run(_write_aiokafka(bootstrap, options))


async def _write_aiokafka(bootstrap: str, options: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, request_timeout_ms=GIVE_UP_MS
    )
    await producer.start()

    def told(number: int, sent: asyncio.Future[Any]) -> None:
        if (error := sent.exception()) is None:
            say(acked=[sent.result().partition, sent.result().offset, number])
        else:
            say(failed=repr(error))

    for number in numbers():
        key, value = record(number, options)
        sent = await producer.send(options["topic"], value, key)
        sent.add_done_callback(lambda done, number=number: told(number, done))
        await asyncio.sleep(options["pace_s"])
    await producer.stop()


def write_kafka_python(bootstrap: str, options: dict[str, Any]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, acks="all", delivery_timeout_ms=GIVE_UP_MS
    )
    for number in numbers():
        key, value = record(number, options)
        sent = producer.send(options["topic"], value, key)
        sent.add_callback(lambda at, number=number: say(acked=[at.partition, at.offset, number]))
        sent.add_errback(lambda error: say(failed=repr(error)))
        time.sleep(options["pace_s"])
    producer.close(timeout=CLOSE_S_MAX)


CLIENTS = {
    "confluent-kafka": write_confluent,
    "aiokafka": write_aiokafka,
    "kafka-python": write_kafka_python,
}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
