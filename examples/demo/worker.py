"""One worker of the demo's group: handles parcels, writes its assignment and its work to a file, and commits.

Arguments: bootstrap, group, topic, name, diary file. Exits on SIGTERM after leaving the group.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition


def main(bootstrap: str, group: str, topic: str, name: str, diary_path: str) -> None:
    """Work until told to stop."""
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
    with Path(diary_path).open("a", buffering=1) as diary:

        def note(_: Consumer, __: list[TopicPartition]) -> None:
            nonlocal changed
            changed = True

        changed = False
        consumer.subscribe([topic], on_assign=note, on_revoke=note, on_lost=note)
        while not stopping:
            messages = consumer.consume(20, 0.1)
            if changed:
                changed = False
                diary.write("has " + " ".join(str(one.partition) for one in consumer.assignment()) + "\n")
            for message in messages:
                if message.error() is None:
                    diary.write(f"did {(message.value() or b'').decode()}\n")
            if messages:
                consumer.commit(asynchronous=False)
        consumer.close()


main(*sys.argv[1:])
