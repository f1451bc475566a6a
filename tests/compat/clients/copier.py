"""Consume, transform, produce, in transactions: one member of a group, with a Python client. Never ends by itself.

Arguments: client, bootstrap, JSON of {"id", "group", "protocol", "source", "target", …}. A line on stdout for each
committed transaction: how many records it copied. When it can go on only as a new producer it leaves with exit code 1,
and whoever supervises it starts another. The copiers in Java and Node do the same.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import signal
import sys
from typing import Any

WAIT_S = 5.0
HANGS_S = int(os.environ.get("COPIER_HANGS_S", "10"))
"""Some calls of some clients may never return after their broker came back, whatever their time-out: the alarm then
ends this process, as a supervisor would. 0: no alarm; SIGUSR1 shows where it stands."""
BATCH_RECORDS = 20
POLL_S = 0.2
BEAT_MS = 300
RECONNECT_MS_MAX = 200


def say_copied(count: int) -> None:
    """One transaction is through."""
    signal.alarm(HANGS_S)
    if count:
        print(count, flush=True)


class Confluent:
    """confluent-kafka: one producer for all partitions, fenced by the generation of its group (KIP-447)."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        from confluent_kafka import Consumer, KafkaException, Producer

        self.error = KafkaException
        # Otherwise librdkafka may look for its broker for ever, once it was away in the middle of a transaction.
        recovery = {"metadata.recovery.strategy": options.get("recovery", "none")}
        quick = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": RECONNECT_MS_MAX, "log_level": 0}
        if options.get("debug"):
            quick |= {"debug": options["debug"], "log_level": 7}
        classic = {"session.timeout.ms": options["session_ms"], "heartbeat.interval.ms": BEAT_MS}
        self._target = options["target"]
        self._consumer = Consumer(
            {
                **quick,
                **recovery,
                "group.id": options["group"],
                "group.protocol": options["protocol"],
                **(classic if options["protocol"] == "classic" else {}),
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._producer = Producer(
            {
                **quick,
                **recovery,
                "transactional.id": options["id"],
                "transaction.timeout.ms": options["timeout_ms"],
                "linger.ms": 0,
                "error_cb": lambda _: None,
            }
        )
        self._producer.init_transactions(WAIT_S)
        self._consumer.subscribe([options["source"]])

    def run(self) -> None:
        while True:
            say_copied(self._copy_some())

    def _copy_some(self) -> int:
        messages = [one for one in self._consumer.consume(BATCH_RECORDS, POLL_S) if one.error() is None]
        if not messages:
            return 0
        self._producer.begin_transaction()
        try:
            for one in messages:
                self._producer.produce(self._target, one.value(), partition=one.partition())
            positions = self._consumer.position(self._consumer.assignment())
            self._producer.send_offsets_to_transaction(
                positions, self._consumer.consumer_group_metadata(), WAIT_S
            )
            self._producer.commit_transaction(WAIT_S)
        except self.error as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(WAIT_S)
            self._rewind()
            return 0
        return len(messages)

    def _rewind(self) -> None:
        """Back to what is committed: the records of the aborted transaction come again."""
        for place in self._consumer.committed(self._consumer.assignment(), WAIT_S):
            place.offset = max(0, place.offset)
            self._consumer.seek(place)


class KafkaPython:
    """kafka-python: one producer for all partitions, fenced by the generation of its group (KIP-447)."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        from kafka import KafkaConsumer, KafkaProducer
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.errors import KafkaError

        self.error = KafkaError
        self._target = options["target"]
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=options["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=options["session_ms"],
            heartbeat_interval_ms=BEAT_MS,
            partition_assignment_strategy=(RangePartitionAssignor,),
            reconnect_backoff_max_ms=RECONNECT_MS_MAX,
        )
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=options["id"],
            transaction_timeout_ms=options["timeout_ms"],
            reconnect_backoff_max_ms=RECONNECT_MS_MAX,
        )
        self._producer.init_transactions()
        # A member that joins before it knows its topic never applies the assignment that it is given.
        self._consumer.partitions_for_topic(options["source"])
        self._consumer.subscribe([options["source"]])

    def run(self) -> None:
        while True:
            say_copied(self._copy_some())

    def _copy_some(self) -> int:
        from kafka import OffsetAndMetadata

        found = self._consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=BATCH_RECORDS)
        if not found:
            return 0
        self._producer.begin_transaction()
        for place, records in found.items():
            for one in records:
                self._producer.send(self._target, one.value, partition=place.partition)
        ends = {place: OffsetAndMetadata(records[-1].offset + 1, "", -1) for place, records in found.items()}
        self._producer.send_offsets_to_transaction(ends, self._consumer.group_metadata())
        self._producer.commit_transaction()
        return sum(map(len, found.values()))


class Aiokafka:
    """aiokafka knows no KIP-447: a producer for each partition, whose transactional id fences whoever had it before."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        from aiokafka.errors import KafkaError

        self.error = KafkaError
        self._bootstrap = bootstrap
        self._options = options
        self._consumer: Any = None
        self._producers: dict[Any, Any] = {}
        self._assignments = 0
        self._in_hand = asyncio.Lock()

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        copier = self

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked: Any) -> None:
                async with copier._in_hand:
                    await copier._let_go()

            async def on_partitions_assigned(self, assigned: Any) -> None:
                async with copier._in_hand:
                    await copier._take(assigned)

        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=self._options["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=self._options["session_ms"],
            heartbeat_interval_ms=BEAT_MS,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        self._consumer.subscribe([self._options["source"]], listener=Listener())
        await self._consumer.start()
        while True:
            found = await self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=BATCH_RECORDS)
            assignments = self._assignments
            async with self._in_hand:
                # What was read before the last assignment comes again: that one went back to what is committed.
                is_current = assignments == self._assignments
                say_copied(await self._copy(found) if is_current else 0)

    async def _let_go(self) -> None:
        for producer in self._producers.values():
            await producer.stop()
        self._producers.clear()

    async def _take(self, assigned: Any) -> None:
        """Fence the producer that had a partition before, and only then look how far it came."""
        from aiokafka import AIOKafkaProducer

        await self._let_go()
        for place in assigned:
            self._producers[place] = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                transactional_id=f"{self._options['group']}-{place.partition}",
                transaction_timeout_ms=self._options["timeout_ms"],
            )
            await self._producers[place].start()
            self._consumer.seek(place, await self._consumer.committed(place) or 0)
        self._assignments += 1

    async def _copy(self, found: Any) -> int:
        copied = 0
        for place, records in found.items():
            if place not in self._producers:
                continue
            producer = self._producers[place]
            async with producer.transaction():
                for one in records:
                    await producer.send(self._options["target"], one.value, partition=place.partition)
                await producer.send_offsets_to_transaction(
                    {place: records[-1].offset + 1}, self._options["group"]
                )
            copied += len(records)
        return copied


CLIENTS = {"confluent-kafka": Confluent, "aiokafka": Aiokafka, "kafka-python": KafkaPython}


def main() -> int:
    signal.alarm(HANGS_S)
    faulthandler.register(signal.SIGUSR1)
    copier = CLIENTS[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
    try:
        copier.run()
    except copier.error as error:
        print(f"cannot go on: {error!r}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
