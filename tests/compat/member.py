"""One member of a consumer group as a process, through a Python client: reads, prints, commits. Never ends by itself.

    python -m compat.member CLIENT BOOTSTRAP '{"group": …, "topic": …}'

Prints JSON lines: {"assigned": [partitions]} whenever that changes, {"read": [partition, offset, value]} for each
record, {"committed": {partition: offset}} after each commit. Leaves the group cleanly when its input ends. The members
in Java and Node speak the same words.
"""

from __future__ import annotations

import asyncio
import json
import select
import sys
from typing import Any

POLL_S = 0.1
BEAT_MS = 300


def say(**fact: Any) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


def is_told_to_leave() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def run_confluent(bootstrap: str, options: dict[str, Any]) -> None:
    from confluent_kafka import Consumer, KafkaException

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": options["group"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": options.get("auto_commit", False),
        "auto.commit.interval.ms": 100,
        "session.timeout.ms": options["session_ms"],
        "heartbeat.interval.ms": BEAT_MS,
        "partition.assignment.strategy": options.get("strategy", "range"),
        "reconnect.backoff.max.ms": 300,
    }
    if "instance" in options:
        settings["group.instance.id"] = options["instance"]
    consumer = Consumer(settings)

    def changed(_consumer: Any, _partitions: Any) -> None:
        nonlocal is_changed
        is_changed = True

    is_changed = False
    consumer.subscribe([options["topic"]], on_assign=changed, on_revoke=changed, on_lost=changed)
    while not is_told_to_leave():
        message = consumer.poll(POLL_S)
        if is_changed:
            is_changed = False
            say(assigned=sorted(one.partition for one in consumer.assignment()))
        if message is None or message.error() is not None:
            continue
        say(read=[message.partition(), message.offset(), message.value().decode()])
        if options.get("auto_commit"):
            continue
        try:
            done = consumer.commit(message, asynchronous=False)
            say(committed={one.partition: one.offset for one in done})
        except KafkaException as error:
            say(refused=error.args[0].name())
    consumer.close()


async def run_aiokafka(bootstrap: str, options: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            say(assigned=[])

        async def on_partitions_assigned(self, assigned: Any) -> None:
            say(assigned=sorted(one.partition for one in assigned))

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=options["group"],
        group_instance_id=options.get("instance"),
        auto_offset_reset="earliest",
        enable_auto_commit=options.get("auto_commit", False),
        auto_commit_interval_ms=100,
        session_timeout_ms=options["session_ms"],
        heartbeat_interval_ms=BEAT_MS,
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    consumer.subscribe([options["topic"]], listener=Listener())
    await consumer.start()
    while not is_told_to_leave():
        found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=20)
        for partition, records in found.items():
            for record in records:
                say(read=[partition.partition, record.offset, record.value.decode()])
            if options.get("auto_commit"):
                continue
            try:
                await consumer.commit({partition: records[-1].offset + 1})
                say(committed={partition.partition: records[-1].offset + 1})
            except KafkaError as error:
                say(refused=type(error).__name__)
    await consumer.stop()


def run_kafka_python(bootstrap: str, options: dict[str, Any]) -> None:
    from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            say(assigned=[])

        def on_partitions_assigned(self, assigned: Any) -> None:
            say(assigned=sorted(one.partition for one in assigned))

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=options["group"],
        group_instance_id=options.get("instance"),
        auto_offset_reset="earliest",
        enable_auto_commit=options.get("auto_commit", False),
        auto_commit_interval_ms=100,
        session_timeout_ms=options["session_ms"],
        heartbeat_interval_ms=BEAT_MS,
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    consumer.subscribe([options["topic"]], listener=Listener())
    while not is_told_to_leave():
        for partition, records in consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=20).items():
            for record in records:
                say(read=[partition.partition, record.offset, record.value.decode()])
            if options.get("auto_commit"):
                continue
            try:
                consumer.commit({partition: OffsetAndMetadata(records[-1].offset + 1, "", -1)})
                say(committed={partition.partition: records[-1].offset + 1})
            except KafkaError as error:
                say(refused=type(error).__name__)
    consumer.close()


def main() -> None:
    client, bootstrap, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    if client == "aiokafka":
        asyncio.run(run_aiokafka(bootstrap, options))
    else:
        {"confluent-kafka": run_confluent, "kafka-python": run_kafka_python}[client](bootstrap, options)


if __name__ == "__main__":
    main()
