"""Avro: values are validated against a schema and encoded compactly. Needs a running broker and fastavro."""

from __future__ import annotations

from penstock import Avro, Consumer, Producer
from penstock.client.errors import SerializationFailed

TOPIC = "example-avro-orders"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "item", "type": "string"},
        {"name": "price", "type": ["null", "double"], "default": None},
    ],
}


def main() -> None:
    orders = Avro(ORDER)  # or the path of an .avsc file
    with Producer(value_serializer=orders) as producer:
        placed = producer.send_and_wait(TOPIC, {"order_id": 1, "item": "kettle", "price": 24.5})
        try:
            producer.send(TOPIC, {"order_id": "one", "item": "kettle"})
        except SerializationFailed as error:
            print(f"rejected: {error}")
    with Consumer(
        TOPIC, reset=placed.offset or 0, partitions=[placed.partition], value_serializer=orders
    ) as consumer:
        print(next(consumer).value)


if __name__ == "__main__":
    main()
