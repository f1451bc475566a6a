"""Consume, transform, produce, in transactions: one member of a group, with confluent-kafka. Never ends by itself.

Arguments: bootstrap, JSON of {"id", "group", "source", "target"}. A line on stdout for each committed transaction: how
many records it copied. When it can go on only as a new producer it leaves with exit code 1.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

WAIT_S = 5.0
HANGS_S = 10
"""librdkafka's send_offsets_to_transaction may never return after its broker came back, whatever its timeout: the alarm
then ends this process, and whoever supervises it starts another."""
BATCH = 7


class Copier:
    """Copies from the source to the target, each record once."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        quick = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0}
        self._target = options["target"]
        self.consumer = Consumer(
            {
                **quick,
                "group.id": options["group"],
                "session.timeout.ms": options["session_ms"],
                "heartbeat.interval.ms": 300,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._producer = Producer(
            {
                **quick,
                "transactional.id": options["id"],
                "transaction.timeout.ms": options["timeout_ms"],
                "linger.ms": 0,
                "error_cb": lambda _: None,
            }
        )
        self._producer.init_transactions(WAIT_S)
        self.consumer.subscribe([options["source"]])

    def copy_some(self) -> int:
        """One transaction; how many records it had."""
        messages = [one for one in self.consumer.consume(BATCH, 0.2) if one.error() is None]
        if not messages:
            return 0
        self._producer.begin_transaction()
        try:
            for one in messages:
                self._producer.produce(self._target, one.value(), partition=one.partition())
            positions = self.consumer.position(self.consumer.assignment())
            self._producer.send_offsets_to_transaction(
                positions, self.consumer.consumer_group_metadata(), WAIT_S
            )
            self._producer.commit_transaction(WAIT_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(WAIT_S)
            self._rewind()
            return 0
        return len(messages)

    def _rewind(self) -> None:
        """Back to what is committed: the records of the aborted transaction come again."""
        for place in self.consumer.committed(self.consumer.assignment(), WAIT_S):
            place.offset = max(0, place.offset)
            self.consumer.seek(place)


def main() -> int:
    copier = Copier(sys.argv[1], json.loads(sys.argv[2]))
    while True:
        signal.alarm(HANGS_S)
        try:
            copied = copier.copy_some()
        except KafkaException as error:
            print(f"cannot go on: {error}", file=sys.stderr)
            return 1
        if copied:
            print(copied, flush=True)


if __name__ == "__main__":
    sys.exit(main())
