"""Sends orders to a topic and prints their offsets. Needs a running broker: `penstock start`.

    python examples/produce.py [TOPIC] [COUNT]

PENSTOCK_BOOTSTRAP is the address of the broker; default 127.0.0.1:9092.
"""

from __future__ import annotations

import sys

from penstock import Producer


def main(topic: str = "example-orders", count: str = "5") -> None:
    with Producer(value_serializer="json", key_serializer="string") as producer:
        sent = [
            producer.send(topic, {"order_id": number, "item": "kettle"}, key=f"customer-{number % 3}")
            for number in range(int(count))
        ]
        for delivery in sent:
            placed = delivery.result()
            print(f"{placed.topic} partition {placed.partition} offset {placed.offset}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
