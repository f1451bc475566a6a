"""One member of a consumer group as a process, through a Python client: reads, prints, commits. Never ends by itself.

Arguments: client, bootstrap, JSON of {"group": …, "topics": […], "commit": "after" | "before" | "auto", "reset":
"earliest" | "none", …}; with "assigned": [[topic, partition], …] it reads these from offset 0, outside of any group.
Each line on stdout is JSON: {"holds": [[topic, partition], …]} whenever that changes, {"read": [topic, partition,
offset, value]} for each record, {"committed": [topic, partition, offset]} after each commit, {"refused": the client's
word} when a commit is not taken, {"failed": …} for what no rebalance explains. `before` commits first and tells of the
records only when that is done. It leaves the group cleanly when its input ends. The members in Java, Node and Go speak
the same words.
"""

from __future__ import annotations

import asyncio
import json
import select
import sys
from typing import Any

POLL_S = 0.1
BEAT_MS = 300
BATCH_RECORDS = 20
RECONNECT_MS_MAX = 300
AUTO_COMMIT_MS = 100
AFTER, BEFORE, AUTO = "after", "before", "auto"


def say(**fact: Any) -> None:
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


def say_holds(places: Any) -> None:
    say(holds=sorted((one.topic, one.partition) for one in places))


def say_read(records: list[Any]) -> None:
    """Records of aiokafka and kafka-python, which look alike."""
    for one in records:
        say(read=[one.topic, one.partition, one.offset, one.value.decode()])


def is_told_to_leave() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


class Confluent:
    """confluent-kafka, one record at a time: nothing is in hand that a rebalance inside poll could take away."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        self._passing = {
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._TRANSPORT,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
        }
        self._mode = options["commit"]
        self._held: set[tuple[str, int]] = set()
        self._consumer = Consumer(self._settings(bootstrap, options))
        if "assigned" in options:
            self._consumer.assign([TopicPartition(topic, at, 0) for topic, at in options["assigned"]])
        else:
            self._consumer.subscribe(
                options["topics"], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )

    def _settings(self, bootstrap: str, options: dict[str, Any]) -> dict[str, Any]:
        is_classic = options["protocol"] == "classic"
        wanted = {
            "bootstrap.servers": bootstrap,
            "group.id": options["group"],
            "group.protocol": options["protocol"],
            "auto.offset.reset": {"none": "error"}.get(options["reset"], options["reset"]),
            "enable.auto.commit": self._mode == AUTO and "assigned" not in options,
            "auto.commit.interval.ms": AUTO_COMMIT_MS,
            "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
            "session.timeout.ms": options["session_ms"] if is_classic else None,
            "heartbeat.interval.ms": BEAT_MS if is_classic else None,
            "partition.assignment.strategy": options.get("strategy", "range") if is_classic else None,
            "group.remote.assignor": options.get("remote_assignor"),
            "group.instance.id": options.get("instance"),
            "client.id": options.get("client_id"),
            "topic.metadata.refresh.interval.ms": options.get("metadata_age_ms"),
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def _assigned(self, _: Any, partitions: Any) -> None:
        self._held |= {(one.topic, one.partition) for one in partitions}
        say(holds=sorted(self._held))

    def _revoked(self, _: Any, partitions: Any) -> None:
        self._held -= {(one.topic, one.partition) for one in partitions}
        say(holds=sorted(self._held))

    def run(self) -> None:
        while not is_told_to_leave():
            message = self._consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self._work(message)
            elif error.fatal() or error.code() not in self._passing:
                say(failed=error.name())
        self._consumer.close()

    def _work(self, message: Any) -> None:
        read = [message.topic(), message.partition(), message.offset(), message.value().decode()]
        if self._mode != BEFORE:
            say(read=read)
        if self._mode != AUTO and self._commit(message) and self._mode == BEFORE:
            say(read=read)

    def _commit(self, message: Any) -> bool:
        from confluent_kafka import KafkaException

        try:
            (done,) = self._consumer.commit(message, asynchronous=False)
            if done.error is not None:
                raise KafkaException(done.error)
        except KafkaException as error:
            say(refused=error.args[0].name())
            return False
        say(committed=[done.topic, done.partition, done.offset])
        return True


class Aiokafka:
    """aiokafka. It rebalances in the background, so what is in hand is finished before partitions are let go."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        self._bootstrap = bootstrap
        self._options = options
        self._mode = options["commit"]
        self._consumer: Any = None

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        in_hand = asyncio.Lock()

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked: Any) -> None:
                async with in_hand:
                    say_holds([])

            async def on_partitions_assigned(self, assigned: Any) -> None:
                say_holds(assigned)

        assigned = [TopicPartition(topic, at) for topic, at in self._options.get("assigned", [])]
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=self._options["group"] if not assigned else None,
            group_instance_id=self._options.get("instance"),
            # It looks for a committed position before it can be given one: without any reset that would be an error.
            auto_offset_reset=self._options["reset"] if not assigned else "earliest",
            enable_auto_commit=self._mode == AUTO and not assigned,
            auto_commit_interval_ms=AUTO_COMMIT_MS,
            session_timeout_ms=self._options["session_ms"],
            heartbeat_interval_ms=BEAT_MS,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        if assigned:
            self._consumer.assign(assigned)
        else:
            self._consumer.subscribe(self._options["topics"], listener=Listener())
        await self._consumer.start()
        for place in assigned:
            self._consumer.seek(place, 0)
        while not is_told_to_leave():
            wait_ms = int(POLL_S * 1000)
            found = await self._consumer.getmany(timeout_ms=wait_ms, max_records=BATCH_RECORDS)
            async with in_hand:
                await self._work(found)
        await self._consumer.stop()

    async def _work(self, found: Any) -> None:
        for place, records in found.items():
            if self._mode != BEFORE:
                say_read(records)
            if (
                self._mode != AUTO
                and await self._commit(place, records[-1].offset + 1)
                and self._mode == BEFORE
            ):
                say_read(records)

    async def _commit(self, place: Any, offset: int) -> bool:
        from aiokafka.errors import KafkaError

        try:
            await self._consumer.commit({place: offset})
        except KafkaError as error:
            say(refused=type(error).__name__)
            return False
        say(committed=[place.topic, place.partition, offset])
        return True


class KafkaPython:
    """kafka-python. It rebalances inside poll."""

    def __init__(self, bootstrap: str, options: dict[str, Any]) -> None:
        from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                say_holds([])

            def on_partitions_assigned(self, assigned: Any) -> None:
                say_holds(assigned)

        self._mode = options["commit"]
        assigned = [TopicPartition(topic, at) for topic, at in options.get("assigned", [])]
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=options["group"] if not assigned else None,
            group_instance_id=options.get("instance"),
            auto_offset_reset=options["reset"],
            enable_auto_commit=self._mode == AUTO and not assigned,
            auto_commit_interval_ms=AUTO_COMMIT_MS,
            session_timeout_ms=options["session_ms"],
            heartbeat_interval_ms=BEAT_MS,
            partition_assignment_strategy=(RangePartitionAssignor,),
            reconnect_backoff_max_ms=RECONNECT_MS_MAX,
        )
        for topic in options["topics"]:
            # A member that joins before it knows its topics never applies the assignment that it is given; and the
            # first answer may well be that it knows none yet.
            while not self._consumer.partitions_for_topic(topic):
                continue
        if assigned:
            self._consumer.assign(assigned)
            for place in assigned:
                self._consumer.seek(place, 0)
        else:
            self._consumer.subscribe(options["topics"], listener=Listener())

    def run(self) -> None:
        while not is_told_to_leave():
            for place, records in self._poll().items():
                if self._mode != BEFORE:
                    say_read(records)
                if (
                    self._mode != AUTO
                    and self._commit(place, records[-1].offset + 1)
                    and self._mode == BEFORE
                ):
                    say_read(records)
        self._consumer.close()

    def _poll(self) -> Any:
        """While every broker of a cluster is down, this client raises what it otherwise retries by itself: it looks for
        the coordinator through the brokers that it has not tried yet, and passes on that the last one refused."""
        from kafka.errors import KafkaConnectionError

        try:
            return self._consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=BATCH_RECORDS)
        except KafkaConnectionError:
            return {}

    def _commit(self, place: Any, offset: int) -> bool:
        from kafka import OffsetAndMetadata
        from kafka.errors import KafkaError

        try:
            self._consumer.commit({place: OffsetAndMetadata(offset, "", -1)})
        except KafkaError as error:
            say(refused=type(error).__name__)
            return False
        say(committed=[place.topic, place.partition, offset])
        return True


CLIENTS = {"confluent-kafka": Confluent, "aiokafka": Aiokafka, "kafka-python": KafkaPython}

if __name__ == "__main__":
    CLIENTS[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3])).run()
