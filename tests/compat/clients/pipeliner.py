"""Transactions with many small batches in flight, through confluent-kafka. Prints one line: what it sent, or its error.

python pipeliner.py BOOTSTRAP '{"topic": …, "id": …, "transactions": …, "records": …}'
"""

from __future__ import annotations

import json
import sys
from typing import Any

from confluent_kafka import KafkaException, Producer

WAIT_S = 60.0


def send(bootstrap: str, asked: dict[str, Any]) -> int:
    """The value of record n is n, in a hundred digits."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": asked["id"],
            "max.in.flight": 5,
            "linger.ms": 1,
            "batch.num.messages": 100,
        }
    )
    failures: list[Any] = []
    producer.init_transactions(WAIT_S)
    sent = 0
    for _ in range(asked["transactions"]):
        producer.begin_transaction()
        for _ in range(asked["records"]):
            producer.produce(
                asked["topic"],
                f"{sent:0100d}",
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
            sent += 1
        producer.commit_transaction(WAIT_S)
    if failures:
        raise KafkaException(failures[0])
    return sent


def main() -> None:
    try:
        answer: dict[str, Any] = {"ok": send(sys.argv[1], json.loads(sys.argv[2]))}
    except KafkaException as error:
        answer = {"refused": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
