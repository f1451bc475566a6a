"""Scenario one: the broker is killed while orders are written, and every acknowledged order is still there."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.stage import Stage
from penstock.testing import Broker, running_broker

TOPIC = "orders"
PARTITIONS = 3
FIRST_ORDERS = 4_000
MORE_ORDERS = 40_000
KILL_AFTER_ACKED = 2_000
ITEMS = {"kettle": 2900, "notebook": 450, "lamp": 3900, "mug": 890, "backpack": 6400}

Acked = dict[tuple[int, int], bytes]
"""The acknowledged value of each partition and offset."""


def play(stage: Stage) -> bool:
    stage.act("Orders that survive a kill -9", "One broker, two third-party clients, one SIGKILL.")
    started = time.monotonic()
    with running_broker() as broker:
        stage.say(
            f"broker on {broker.bootstrap}, ready after {1000 * (time.monotonic() - started):.0f} ms, durability fsync"
        )
        create_topic(broker)
        acked: Acked = {}
        produce(stage, broker, range(FIRST_ORDERS), acked, "confluent-kafka writes")
        read = asyncio.run(read_back(broker.bootstrap, TOPIC, PARTITIONS))
        held = stage.check(
            read == acked, f"aiokafka reads back {len(read):,} of {len(acked):,} orders, byte for byte"
        )
        before = len(acked)
        restart_s = kill_while_producing(stage, broker, acked)
        stage.say(
            f"killed with SIGKILL while writing; {len(acked) - before:,} more orders acknowledged by the end; "
            f"restarted in {restart_s * 1000:.0f} ms"
        )
        read = asyncio.run(read_back(broker.bootstrap, TOPIC, PARTITIONS))
        lost = [where for where, value in acked.items() if read.get(where) != value]
        held &= stage.check(not lost, f"{len(lost)} of {len(acked):,} acknowledged orders lost or changed")
        held &= stage.check(are_dense(read, PARTITIONS), "offsets are dense in every partition")
        held &= stage.check(
            len(set(read.values())) == len(read),
            "no duplicates, although the producer retried",
        )
        show_sample(stage, read)
        held &= stage.check(broker.stop() == 0, "clean shutdown on SIGTERM")
    return held


def create_topic(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result(10)


def order(number: int) -> tuple[bytes, bytes]:
    """Key (the customer) and JSON value of an order."""
    rng = random.Random(number)
    item = rng.choice(sorted(ITEMS))
    count = rng.randint(1, 4)
    content = {
        "order_id": number,
        "customer": f"c{rng.randint(1, 500):04d}",
        "item": item,
        "count": count,
        "total_cents": count * ITEMS[item],
    }
    return content["customer"].encode(), json.dumps(content).encode()


def produce(stage: Stage, broker: Broker, numbers: range, acked: Acked, title: str) -> None:
    """Write orders and record each acknowledged one by partition and offset."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 2, "enable.idempotence": True, "log_level": 2}
    )
    with stage.progress() as progress:
        bar = progress.add_task(title, total=len(numbers))

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                acked[message.partition(), message.offset()] = message.value()
                progress.advance(bar)

        for number in numbers:
            key, value = order(number)
            producer.produce(TOPIC, value, key, on_delivery=delivered)
            producer.poll(0)
        producer.flush(20)


def kill_while_producing(stage: Stage, broker: Broker, acked: Acked) -> float:
    """Kill the broker while orders are written and restart it; returns the restart time.

    The idempotent producer retries unacknowledged batches, and the broker deduplicates them.
    """
    target = len(acked) + KILL_AFTER_ACKED
    numbers = range(FIRST_ORDERS, FIRST_ORDERS + MORE_ORDERS)
    writer = threading.Thread(target=produce, args=(stage, broker, numbers, acked, "…and keeps writing"))
    writer.start()
    while len(acked) < target and writer.is_alive():
        time.sleep(0.001)
    broker.kill()
    started = time.monotonic()
    broker.start()
    restart_s = time.monotonic() - started
    writer.join()
    return restart_s


async def read_back(bootstrap: str, topic: str, partitions: int) -> Acked:
    """All records of the topic, read with another client."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    try:
        places = [TopicPartition(topic, index) for index in range(partitions)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        await consumer.seek_to_beginning(*places)
        read: Acked = {}
        while sum(ends.values()) > len(read):
            batches: dict[Any, Any] = await consumer.getmany(timeout_ms=1000)
            for place, messages in batches.items():
                read |= {(place.partition, one.offset): one.value for one in messages}
        return read
    finally:
        await consumer.stop()


def are_dense(read: Acked, partitions: int) -> bool:
    """Whether the offsets of each partition start at 0 and have no gaps."""
    counts = [
        sorted(offset for partition, offset in read if partition == index) for index in range(partitions)
    ]
    return all(offsets == list(range(len(offsets))) for offsets in counts)


def show_sample(stage: Stage, read: Acked) -> None:
    """The newest order of each partition."""
    rows = []
    for index in range(PARTITIONS):
        offset = max(offset for partition, offset in read if partition == index)
        content = json.loads(read[index, offset])
        rows.append(
            (str(index), f"{offset:,}", content["customer"], f"{content['count']} x {content['item']}")
        )
    stage.table("partition", "newest offset", "customer", "order", rows=rows)
