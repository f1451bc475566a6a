"""Exactly-once processing: each order produces exactly one bill, even after a failure.

Needs a running broker.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock import Admin, Consumer, Message, Producer, Record, pipe

ORDERS, BILLS, GROUP = "example-to-bill", "example-bills", "example-billing"


def bill(order: Message) -> Iterable[Record]:
    yield Record(
        BILLS, {"order_id": order.value["order_id"], "due": order.value["price"] * 1.2}, key=order.key
    )


def main() -> None:
    with Admin() as admin:
        for topic in (ORDERS, BILLS):
            admin.create_topic(topic, partitions=3, if_not_exists=True)
    with Producer(value_serializer="json") as shop:
        for number in range(100):
            shop.send(ORDERS, {"order_id": number, "price": 10 + number}, key=f"order-{number}")
    with (
        Consumer(
            ORDERS, group=GROUP, delivery="exactly_once", until_end=True, value_serializer="json"
        ) as consumer,
        Producer(delivery="exactly_once", transactional_id=f"{GROUP}-1", value_serializer="json") as producer,
    ):
        print(f"{pipe(consumer, producer, bill)} orders billed")


if __name__ == "__main__":
    main()
