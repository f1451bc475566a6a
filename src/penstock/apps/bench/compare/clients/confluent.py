"""Client row: confluent-kafka, for Penstock and Kafka.

`python -m penstock.apps.bench.compare.clients.confluent HOST PORT COUNT STREAM`
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.apps.bench.compare.clients.timing import report
from penstock.apps.bench.harness.payload import payload

SIZE = 1024
AT_ONCE = 500


def main(host: str, port: str, count: int, topic: str) -> None:
    bootstrap: dict[str, str | int | float | bool] = {"bootstrap.servers": f"{host}:{port}"}
    admin = AdminClient(bootstrap)
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    value = payload(SIZE)
    producer = Producer({**bootstrap, "linger.ms": 5})
    settings = {"group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**bootstrap, **settings})
    confirmed = 0

    def delivered(error: object, _message: object) -> None:
        nonlocal confirmed
        if error is not None:
            raise SystemExit(f"not delivered: {error}")
        confirmed += 1

    def produce(messages: int) -> None:
        nonlocal confirmed
        confirmed = 0
        for _ in range(messages):
            while True:
                try:
                    producer.produce(topic, value, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush()
        if confirmed != messages:
            raise SystemExit(f"{confirmed} of {messages} were confirmed")

    def consume(messages: int) -> None:
        seen = 0
        while seen < messages:
            found = consumer.consume(min(AT_ONCE, messages - seen), timeout=1)
            seen += len(found)
            if found:
                consumer.commit(asynchronous=False)

    consumer.subscribe([topic])
    report(count, produce, consume)
    consumer.close()
    admin.delete_topics([topic])[topic].result(30)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
