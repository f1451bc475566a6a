"""A transactional producer behind JSON lines, with any of the Python clients. Never decides what is right: it reports.

Arguments: client, bootstrap, JSON of {"id": transactional id, "timeout_ms": …}. One request per line on stdin, one
answer per line on stdout: {"ok": …}, or {"refused": the client's word for it}.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

WAIT_S = 20.0


class Confluent:
    """confluent-kafka."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        from confluent_kafka import Consumer, Producer

        self._bootstrap = bootstrap
        self._make_consumer = Consumer
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": options["id"],
                "transaction.timeout.ms": options["timeout_ms"],
                "linger.ms": 0,
                "error_cb": lambda _: None,
                "log_level": 0,
            }
        )

    def init(self, _: dict[str, Any]) -> None:
        self._producer.init_transactions(WAIT_S)

    def begin(self, _: dict[str, Any]) -> None:
        self._producer.begin_transaction()

    def send(self, request: dict[str, Any]) -> list[int]:
        offsets: list[int] = []
        errors: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                offsets.append(message.offset())
            else:
                errors.append(error)

        for value in request["values"]:
            self._producer.produce(
                request["topic"], value, partition=request["partition"], on_delivery=delivered
            )
        self._producer.flush(WAIT_S)
        if errors:
            from confluent_kafka import KafkaException

            raise KafkaException(errors[0])
        return offsets

    def offsets(self, request: dict[str, Any]) -> None:
        from confluent_kafka import TopicPartition

        consumer = self._make_consumer({"bootstrap.servers": self._bootstrap, "group.id": request["group"]})
        place = TopicPartition(request["topic"], request["partition"], request["offset"])
        self._producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), WAIT_S)
        consumer.close()

    def commit(self, _: dict[str, Any]) -> None:
        self._producer.commit_transaction(WAIT_S)

    def abort(self, _: dict[str, Any]) -> None:
        self._producer.abort_transaction(WAIT_S)


class KafkaPython:
    """kafka-python."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=options["id"],
            transaction_timeout_ms=options["timeout_ms"],
        )

    def init(self, _: dict[str, Any]) -> None:
        self._producer.init_transactions()

    def begin(self, _: dict[str, Any]) -> None:
        self._producer.begin_transaction()

    def send(self, request: dict[str, Any]) -> list[int]:
        pending = [
            self._producer.send(request["topic"], value.encode(), partition=request["partition"])
            for value in request["values"]
        ]
        return [future.get(WAIT_S).offset for future in pending]

    def offsets(self, request: dict[str, Any]) -> None:
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        place = TopicPartition(request["topic"], request["partition"])
        self._producer.send_offsets_to_transaction(
            {place: OffsetAndMetadata(request["offset"], "", -1)}, request["group"]
        )

    def commit(self, _: dict[str, Any]) -> None:
        self._producer.commit_transaction()

    def abort(self, _: dict[str, Any]) -> None:
        self._producer.abort_transaction()


class Aiokafka:
    """aiokafka, on a loop of its own; its background work goes on while a request is answered."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._options = options
        self._bootstrap = bootstrap
        self._producer: Any = None

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, WAIT_S))

    def init(self, _: dict[str, Any]) -> None:
        async def start() -> None:
            from aiokafka import AIOKafkaProducer

            self._producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                transactional_id=self._options["id"],
                transaction_timeout_ms=self._options["timeout_ms"],
            )
            await self._producer.start()

        self._run(start())

    def begin(self, _: dict[str, Any]) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, request: dict[str, Any]) -> list[int]:
        async def send() -> list[int]:
            pending = [
                await self._producer.send(request["topic"], value.encode(), partition=request["partition"])
                for value in request["values"]
            ]
            return [(await one).offset for one in pending]

        return list(self._run(send()))

    def offsets(self, request: dict[str, Any]) -> None:
        from aiokafka import TopicPartition

        place = TopicPartition(request["topic"], request["partition"])
        self._run(self._producer.send_offsets_to_transaction({place: request["offset"]}, request["group"]))

    def commit(self, _: dict[str, Any]) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self, _: dict[str, Any]) -> None:
        self._run(self._producer.abort_transaction())


CLIENTS = {"confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


def word_for(error: Exception) -> str:
    """What the client calls it: librdkafka by its code, the others by the class of the exception."""
    first = error.args[0] if error.args else None
    return first.name() if hasattr(first, "name") else type(error).__name__


def main() -> None:
    client, bootstrap, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    producer = CLIENTS[client](bootstrap, options)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": getattr(producer, request["op"])(request)}
        except Exception as error:  # noqa: BLE001 - every error is an answer here
            answer = {"refused": word_for(error), "detail": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
