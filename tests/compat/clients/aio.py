"""aiokafka in the suite's vocabulary, on an event loop of its own. Never joins a group."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from compat.vocabulary import (
    APPEND_TIME,
    CREATE_TIME,
    EARLIEST,
    FETCH_WAIT_MS,
    LATEST,
    REQUEST_MS_MAX,
    WAIT_S,
    Cluster,
    Got,
    KafkaRefused,
    Sent,
    error_name,
)

T = TypeVar("T")


def _check(code: int, detail: str | None = None) -> None:
    if code:
        raise for_code(code)(detail or "")


def _refused(error: KafkaError) -> KafkaRefused:
    return KafkaRefused(error_name(error.errno), str(error))


class AiokafkaClient:
    """One admin client for the session; producers by setting; a consumer per read."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        self._producers: dict[tuple[str, str, bool], AIOKafkaProducer] = {}
        self._admin: AIOKafkaAdminClient = self._run(self._start_admin())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, WAIT_S))
        except KafkaError as error:
            if not hasattr(error, "errno"):
                raise
            raise _refused(error) from None

    async def _start_admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap, client_id="compat-aiokafka")
        await admin.start()
        return admin

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
        return self._run(self._produce(topic, records, partition, (acks, codec, idempotent)))

    async def _produce(
        self, topic: str, records: list[Sent], partition: int, settings: tuple[str, str, bool]
    ) -> list[int]:
        producer = await self._producer(settings)
        pending = [
            await producer.send(
                topic,
                value=record.value,
                key=record.key,
                partition=partition,
                timestamp_ms=record.timestamp_ms,
                headers=list(record.headers),
            )
            for record in records
        ]
        await producer.flush()
        reports = [await future for future in pending]
        return [-1 if report is None else report.offset for report in reports]

    async def _producer(self, settings: tuple[str, str, bool]) -> AIOKafkaProducer:
        if settings not in self._producers:
            acks, codec, idempotent = settings
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                client_id="compat-aiokafka",
                acks="all" if acks == "all" else int(acks),
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                linger_ms=20,
                max_request_size=4_000_000,
            )
            await producer.start()
            self._producers[settings] = producer
        return self._producers[settings]

    async def _consumer(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            client_id="compat-aiokafka",
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            request_timeout_ms=REQUEST_MS_MAX,
        )
        await consumer.start()
        return consumer

    def fetch(self, topic: str, partition: int, offset: int, count: int) -> list[Got]:
        return self._run(self._fetch(TopicPartition(topic, partition), offset, count))

    async def _fetch(self, place: TopicPartition, offset: int, count: int) -> list[Got]:
        consumer = await self._consumer()
        try:
            consumer.assign([place])
            consumer.seek(place, offset)
            records = [await consumer.getone(place) for _ in range(count)]
        finally:
            await consumer.stop()
        return [
            Got(
                record.offset,
                record.key,
                record.value,
                tuple(record.headers),
                record.timestamp,
                APPEND_TIME if record.timestamp_type == 1 else CREATE_TIME,
            )
            for record in records
        ]

    def offset_of(self, topic: str, partition: int, spec: str | int) -> int:
        return self._run(self._offset_of(TopicPartition(topic, partition), spec))

    async def _offset_of(self, place: TopicPartition, spec: str | int) -> int:
        consumer = await self._consumer()
        try:
            if spec == EARLIEST:
                return int((await consumer.beginning_offsets([place]))[place])
            if spec == LATEST:
                return int((await consumer.end_offsets([place]))[place])
            found = (await consumer.offsets_for_times({place: spec}))[place]
            return -1 if found is None else int(found.offset)
        finally:
            await consumer.stop()

    def partitions_of(self, topic: str) -> int:
        return self._run(self._partitions_of(topic))

    async def _partitions_of(self, topic: str) -> int:
        (described,) = await self._admin.describe_topics([topic])
        _check(described["error_code"])
        return len(described["partitions"])

    def create_topic(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        self._run(self._create_topic(NewTopic(topic, partitions, replicas, topic_configs=configs)))

    async def _create_topic(self, new: NewTopic) -> None:
        answer = await self._admin.create_topics([new])
        for _, code, *rest in answer.topic_errors:
            _check(code, str(rest))

    def delete_topic(self, topic: str) -> None:
        self._run(self._delete_topic(topic))

    async def _delete_topic(self, topic: str) -> None:
        answer = await self._admin.delete_topics([topic])
        for _, code, *_rest in answer.topic_error_codes:
            _check(code)

    def add_partitions(self, topic: str, total: int) -> None:
        self._run(self._admin.create_partitions({topic: NewPartitions(total)}))

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = TopicPartition(topic, partition)
        answer = self._run(self._admin.delete_records({place: RecordsToDelete(before)}))
        return int(answer[place])

    async def _configs(self, resource: ConfigResource) -> dict[str, str | None]:
        (answer,) = await self._admin.describe_configs([resource])
        (described,) = answer.resources
        _check(described[0], described[1])
        return {entry[0]: entry[1] for entry in described[4]}

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._run(self._configs(ConfigResource(ConfigResourceType.TOPIC, topic)))

    def broker_configs(self) -> dict[str, str | None]:
        node = str(self.cluster().brokers[0][0])
        return self._run(self._configs(ConfigResource(ConfigResourceType.BROKER, node)))

    def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        self._run(self._replace(ConfigResource(ConfigResourceType.TOPIC, topic, configs)))

    async def _replace(self, resource: ConfigResource) -> None:
        (answer,) = await self._admin.alter_configs([resource])
        for code, detail, *_rest in answer.resources:
            _check(code, detail)

    def cluster(self) -> Cluster:
        described = self._run(self._admin.describe_cluster())
        return Cluster(
            described["cluster_id"],
            described["controller_id"],
            tuple((node["node_id"], node["host"], node["port"]) for node in described["brokers"]),
        )

    def close(self) -> None:
        for producer in self._producers.values():
            self._run(producer.stop())
        self._producers.clear()
        self._run(self._admin.close())
        self._loop.close()
