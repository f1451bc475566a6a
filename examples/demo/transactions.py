"""Scenario three: an aborted transaction is never visible, a committed one is visible completely."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from demo.stage import Stage
from penstock.testing import Broker, running_broker

TOPIC = "payments"
TRANSFERS = 5


def play(stage: Stage) -> bool:
    stage.act("Transactions", "Both sides of a transfer are visible, or neither is.")
    with running_broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
        for future in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
            future.result(10)
        transfer(broker, "kept", commit=True)
        transfer(broker, "dropped", commit=False)
        transfer(broker, "also kept", commit=True)
        everything = read(broker, "read_uncommitted")
        committed = read(broker, "read_committed")
        stage.say(
            f"{len(everything)} records in the log, {sum('dropped' in one for one in everything)} of them aborted"
        )
        held = stage.check(
            not any("dropped" in one for one in committed),
            "a read_committed consumer sees no aborted records",
        )
        whole = [one.split(": ")[0] for one in committed] == ["kept"] * 2 * TRANSFERS + [
            "also kept"
        ] * 2 * TRANSFERS
        return held & stage.check(whole, f"and all {len(committed)} committed records, in order")


def transfer(broker: Broker, name: str, *, commit: bool) -> None:
    """Write several transfers, two records each, in one transaction."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "cashier", "log_level": 2}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    for number in range(TRANSFERS):
        producer.produce(TOPIC, f"{name}: {number} leaves alice".encode())
        producer.produce(TOPIC, f"{name}: {number} reaches bob".encode())
    producer.flush(20)
    if commit:
        producer.commit_transaction(20)
    else:
        producer.abort_transaction(20)


def read(broker: Broker, isolation: str) -> list[str]:
    """All values visible at this isolation level."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "auditor",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[str] = []
    while True:
        message = consumer.poll(10)
        assert message is not None, "the broker did not answer"
        if message.error() is not None:
            break
        values.append((message.value() or b"").decode())
    consumer.close()
    return values
