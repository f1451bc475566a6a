"""`python -m penstock.apps.race.clients.confluent HOST PORT COUNT`: confluent-kafka, for Penstock and Apache Kafka."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.apps.race.clients.timing import report
from penstock.apps.race.payload import payload

TOPIC = "race"
SIZE = 1024
AT_ONCE = 500


def main(host: str, port: str, count: int) -> None:
    bootstrap: dict[str, str | int | float | bool] = {"bootstrap.servers": f"{host}:{port}"}
    admin = AdminClient(bootstrap)
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
    value = payload(SIZE)
    confirmed = 0

    def delivered(error: object, _message: object) -> None:
        nonlocal confirmed
        if error is not None:
            raise SystemExit(f"not delivered: {error}")
        confirmed += 1

    def produce() -> None:
        producer = Producer({**bootstrap, "linger.ms": 5})
        for _ in range(count):
            while True:
                try:
                    producer.produce(TOPIC, value, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush()
        if confirmed != count:
            raise SystemExit(f"{confirmed} of {count} were confirmed")

    def consume() -> None:
        asked = {"group.id": "race", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**bootstrap, **asked})
        consumer.subscribe([TOPIC])
        seen = 0
        while seen < count:
            messages = consumer.consume(AT_ONCE, timeout=1)
            seen += len(messages)
            if messages:
                consumer.commit(asynchronous=False)
        consumer.close()

    report(count, produce, consume)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
