"""kafka-python in the suite's vocabulary. Never joins a group: partitions are assigned by hand."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import KafkaError

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

ERROR_NUMBER = re.compile(r"\[Error (\d+)\]")
SPECS = {EARLIEST: OffsetSpec.EARLIEST, LATEST: OffsetSpec.LATEST, MAX_TIMESTAMP: OffsetSpec.MAX_TIMESTAMP}


def _check(code: int, detail: str | None = None) -> None:
    if code:
        raise KafkaRefused(error_name(code), detail or "")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        code = getattr(error, "errno", None)
        if not isinstance(code, int):
            raise
        raise KafkaRefused(error_name(code), str(error)) from None


class KafkaPythonClient:
    """One admin client for the session; producers by setting; a consumer per read."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="compat-kafka-python")
        self._producers: dict[tuple[str, str, bool], KafkaProducer] = {}

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
        with _translated():
            pending = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
                for record in records
            ]
            producer.flush(WAIT_S)
            return [future.get(WAIT_S).offset for future in pending]

    def _producer(self, acks: str, codec: str, idempotent: bool) -> KafkaProducer:
        settings = (acks, codec, idempotent)
        if settings not in self._producers:
            self._producers[settings] = KafkaProducer(
                bootstrap_servers=self._bootstrap,
                client_id="compat-kafka-python",
                acks="all" if acks == "all" else int(acks),
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                linger_ms=20,
                max_request_size=4_000_000,
            )
        return self._producers[settings]

    def fetch(self, topic: str, partition: int, offset: int, count: int) -> list[Got]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            client_id="compat-kafka-python",
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            request_timeout_ms=REQUEST_MS_MAX,
            allow_auto_create_topics=False,
        )
        place = TopicPartition(topic, partition)
        got: list[Got] = []
        deadline = time.monotonic() + WAIT_S
        try:
            consumer.assign([place])
            consumer.seek(place, offset)
            while len(got) < count:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(got)} of {count} records of {topic}")
                with _translated():
                    polled = consumer.poll(timeout_ms=1000, max_records=count - len(got))
                got += [
                    Got(
                        record.offset,
                        record.key,
                        record.value,
                        tuple(record.headers),
                        record.timestamp,
                        APPEND_TIME if record.timestamp_type == 1 else CREATE_TIME,
                    )
                    for record in polled.get(place, ())
                ]
        finally:
            consumer.close()
        return got

    def offset_of(self, topic: str, partition: int, spec: str | int) -> int:
        place = TopicPartition(topic, partition)
        wanted = SPECS[spec] if isinstance(spec, str) else spec
        with _translated():
            return int(self._admin.list_partition_offsets({place: wanted})[place].offset)

    def partitions_of(self, topic: str) -> int:
        (described,) = self._admin.describe_topics([topic])
        _check(described["error_code"])
        return len(described["partitions"])

    def topic_id(self, topic: str) -> str:
        (described,) = self._admin.describe_topics([topic])
        _check(described["error_code"])
        return str(described["topic_id"])

    def name_of(self, topic_id: str) -> str:
        (described,) = self._admin.describe_topics([uuid.UUID(topic_id)])
        _check(described["error_code"])
        return str(described["name"])

    def create_topic(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        new = {"num_partitions": partitions, "replication_factor": replicas, "configs": configs}
        with _translated():
            self._admin.create_topics({topic: new})

    def delete_topic(self, topic: str) -> None:
        with _translated():
            self._admin.delete_topics([topic])

    def add_partitions(self, topic: str, total: int) -> None:
        with _translated():
            self._admin.create_partitions({topic: total})

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        place = TopicPartition(topic, partition)
        with _translated():
            answer = self._admin.delete_records({place: before})[place]
        _check(answer["error_code"])
        return int(answer["low_watermark"])

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        with _translated():
            answer = self._admin.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all"
            )
        return {name: entry["value"] for name, entry in answer["topic"][topic].items()}

    def broker_configs(self) -> dict[str, str | None]:
        node = str(self.cluster().brokers[0][0])
        with _translated():
            answer = self._admin.describe_configs(
                [ConfigResource(ConfigResourceType.BROKER, node)], config_filter="all"
            )
        return {name: entry["value"] for name, entry in answer["broker"][node].items()}

    def change_configs(self, topic: str, changes: dict[str, str | None]) -> None:
        steps = {
            name: (AlterConfigOp.DELETE if value is None else AlterConfigOp.SET, value)
            for name, value in changes.items()
        }
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, steps)
        with _translated():
            answer = self._admin.alter_configs([resource], raise_on_unknown=False, incremental=True)
        refusal = ERROR_NUMBER.match(answer["topic"][topic])
        _check(int(refusal[1]) if refusal else 0, answer["topic"][topic])

    def cluster(self) -> Cluster:
        described = self._admin.describe_cluster()
        return Cluster(
            described["cluster_id"],
            described["controller_id"],
            tuple((node["broker_id"], node["host"], node["port"]) for node in described["brokers"]),
        )

    def log_dirs(self) -> dict[tuple[str, int], int]:
        return {
            (topic["name"], partition["partition_index"]): partition["partition_size"]
            for broker in self._admin.describe_log_dirs()
            for directory in broker["log_dirs"]
            for topic in directory["topics"]
            for partition in topic["partitions"]
        }

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close()
        self._producers.clear()
        self._admin.close()
