"""One member of a group as a process of its own, with confluent-kafka. Never decides what is right: it tells all.

The only argument is JSON: {"config": …, "topics": […]}. Each line on stdout is JSON: {"holds": [[topic, partition], …]}
after every change, {"records": [[topic, partition, offset, value], …]} before these are committed, {"committed": true}
after it. A line on stdin makes it leave.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

BATCH_RECORDS = 100
WAIT_S = 0.1
PASSING = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError.UNKNOWN_TOPIC_OR_PART}
REFUSED_BY_REBALANCE = {
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._NO_OFFSET,
}


def tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def run(config: dict[str, Any], topics: list[str]) -> None:
    leaving = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), leaving.set()), daemon=True).start()
    held: set[tuple[str, int]] = set()

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        held.update((one.topic, one.partition) for one in partitions)
        tell({"holds": sorted(held)})

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        held.difference_update((one.topic, one.partition) for one in partitions)
        tell({"holds": sorted(held)})

    consumer = Consumer(config)
    consumer.subscribe(topics, on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not leaving.is_set():
        work(consumer)
    consumer.close()
    tell({"left": True})


def work(consumer: Consumer) -> None:
    records = []
    for message in consumer.consume(BATCH_RECORDS, WAIT_S):
        error = message.error()
        if error is None:
            records.append(
                [message.topic(), message.partition(), message.offset(), (message.value() or b"").decode()]
            )
        elif error.fatal() or error.code() not in PASSING:
            tell({"error": error.name()})
    if not records:
        return
    tell({"records": records})
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as refused:
        if refused.args[0].code() not in REFUSED_BY_REBALANCE | PASSING:
            tell({"error": refused.args[0].name()})
    else:
        tell({"committed": True})


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    run(asked["config"], asked["topics"])
