"""confluent-kafka (librdkafka) in the suite's vocabulary. Never joins a group."""

from __future__ import annotations

import time
import warnings
from typing import Any

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from compat.vocabulary import (
    APPEND_TIME,
    CREATE_TIME,
    EARLIEST,
    FETCH_WAIT_MS,
    LATEST,
    MAX_TIMESTAMP,
    REQUEST_MS_MAX,
    WAIT_S,
    Cluster,
    Got,
    KafkaRefused,
    Sent,
    error_name,
)

SPECS = {EARLIEST: OffsetSpec.earliest, LATEST: OffsetSpec.latest, MAX_TIMESTAMP: OffsetSpec.max_timestamp}


def _refused(error: KafkaError) -> KafkaRefused:
    code = error.code()
    return KafkaRefused(error_name(code) if code >= 0 else error.name(), error.str())


def _wait(future: Any) -> Any:
    try:
        return future.result(WAIT_S)
    except KafkaException as refusal:
        raise _refused(refusal.args[0]) from None


def _got(message: Message) -> Got:
    kind, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or ()
    return Got(
        message.offset() or 0,
        message.key(),
        message.value(),
        tuple(headers),
        timestamp_ms,
        APPEND_TIME if kind == TIMESTAMP_LOG_APPEND_TIME else CREATE_TIME,
    )


class ConfluentClient:
    """One AdminClient for the session; producers by setting; a consumer per read."""

    def __init__(self, bootstrap: str) -> None:
        self._base: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "client.id": "compat-confluent",
        }
        self._admin = AdminClient(self._base)
        self._producers: dict[tuple[str, str, bool], Producer] = {}

    def produce(
        self,
        topic: str,
        records: list[Sent],
        *,
        partition: int = 0,
        acks: str = "all",
        codec: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        producer = self._producer(acks, codec, idempotent)
        reports: list[tuple[KafkaError | None, Message]] = []
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=partition,
                timestamp=record.timestamp_ms or 0,
                on_delivery=lambda error, message: reports.append((error, message)),
            )
        assert producer.flush(WAIT_S) == 0, "records are still queued"
        for error, _ in reports:
            if error is not None:
                raise _refused(error)
        return [-1 if acks == "0" else message.offset() or 0 for _, message in reports]

    def _producer(self, acks: str, codec: str, idempotent: bool) -> Producer:
        settings = (acks, codec, idempotent)
        if settings not in self._producers:
            self._producers[settings] = Producer(
                {
                    **self._base,
                    "acks": acks,
                    "compression.type": codec,
                    "enable.idempotence": idempotent,
                    "linger.ms": 20,
                    "message.timeout.ms": 15_000,
                    "message.max.bytes": 4_000_000,
                }
            )
        return self._producers[settings]

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                **self._base,
                "group.id": "compat-unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": FETCH_WAIT_MS,
                "socket.timeout.ms": REQUEST_MS_MAX,
                "allow.auto.create.topics": False,
            }
        )

    def fetch(self, topic: str, partition: int, offset: int, count: int) -> list[Got]:
        consumer = self._consumer()
        consumer.assign([TopicPartition(topic, partition, offset)])
        got: list[Got] = []
        deadline = time.monotonic() + WAIT_S
        try:
            while len(got) < count:
                message = consumer.poll(max(0.0, deadline - time.monotonic()))
                if message is None:
                    raise TimeoutError(f"{len(got)} of {count} records of {topic}")
                if (error := message.error()) is not None:
                    raise _refused(error)
                got.append(_got(message))
        finally:
            consumer.close()
        return got

    def offset_of(self, topic: str, partition: int, spec: str | int) -> int:
        wanted = SPECS[spec]() if isinstance(spec, str) else OffsetSpec.for_timestamp(spec)
        (future,) = self._admin.list_offsets({TopicPartition(topic, partition): wanted}).values()
        return int(_wait(future).offset)

    def partitions_of(self, topic: str) -> int:
        (future,) = self._admin.describe_topics(TopicCollection([topic])).values()
        return len(_wait(future).partitions)

    def topic_id(self, topic: str) -> str:
        (future,) = self._admin.describe_topics(TopicCollection([topic])).values()
        return str(_wait(future).topic_id)

    def create_topic(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        (future,) = self._admin.create_topics(
            [NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=configs)]
        ).values()
        _wait(future)

    def delete_topic(self, topic: str) -> None:
        (future,) = self._admin.delete_topics([topic]).values()
        _wait(future)

    def add_partitions(self, topic: str, total: int) -> None:
        (future,) = self._admin.create_partitions([NewPartitions(topic, total)]).values()
        _wait(future)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        (future,) = self._admin.delete_records([TopicPartition(topic, partition, before)]).values()
        return int(_wait(future).low_watermark)

    def _configs(self, kind: ResourceType, name: str) -> dict[str, str | None]:
        (future,) = self._admin.describe_configs([ConfigResource(kind, name)]).values()
        return {entry.name: entry.value for entry in _wait(future).values()}

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs(ResourceType.TOPIC, topic)

    def broker_configs(self) -> dict[str, str | None]:
        return self._configs(ResourceType.BROKER, str(self.cluster().brokers[0][0]))

    def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=configs)
        with warnings.catch_warnings():  # this call is deprecated, and what older programs send
            warnings.filterwarnings("ignore", "alter_configs has been deprecated", DeprecationWarning)
            (future,) = self._admin.alter_configs([resource]).values()
        _wait(future)

    def change_configs(self, topic: str, changes: dict[str, str | None]) -> None:
        entries = [
            ConfigEntry(
                name,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in changes.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        (future,) = self._admin.incremental_alter_configs([resource]).values()
        _wait(future)

    def cluster(self) -> Cluster:
        described = _wait(self._admin.describe_cluster())
        return Cluster(
            described.cluster_id,
            described.controller.id,
            tuple((node.id, node.host, node.port) for node in described.nodes),
        )

    def close(self) -> None:
        for producer in self._producers.values():
            producer.flush(WAIT_S)
        self._producers.clear()
