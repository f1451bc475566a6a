"""A consumer group member of the demo: handles parcels, logs its assignment and progress, commits offsets.

Arguments: bootstrap, group, topic, name, log file. On SIGTERM it leaves the group and exits.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition


def main(bootstrap: str, group: str, topic: str, name: str, log_path: str) -> None:
    """Consume until SIGTERM."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "cooperative-sticky",
            "log_level": 2,
        }
    )
    with Path(log_path).open("a", buffering=1) as log:

        def note(_: Consumer, __: list[TopicPartition]) -> None:
            nonlocal changed
            changed = True

        changed = False
        consumer.subscribe([topic], on_assign=note, on_revoke=note, on_lost=note)
        while not stopping:
            messages = consumer.consume(20, 0.1)
            if changed:
                changed = False
                log.write("has " + " ".join(str(one.partition) for one in consumer.assignment()) + "\n")
            for message in messages:
                if message.error() is None:
                    log.write(f"did {(message.value() or b'').decode()}\n")
            if messages:
                consumer.commit(asynchronous=False)
        consumer.close()


main(*sys.argv[1:])
