"""A client in another language behind JSON lines, in the suite's vocabulary.

Never knows which language: the drivers under java/ and node/ answer the same requests in the same words.
"""

from __future__ import annotations

import base64
import json
import select
import subprocess
from typing import Any

from compat.vocabulary import Cluster, Got, KafkaRefused, Sent

ANSWER_S_MAX = 40.0
CLOSE_S_MAX = 15.0


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class DrivenClient:
    """One driver process for the session; one request at a time."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def _ask(self, op: str, **request: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, **request}).encode() + b"\n")
        answer = json.loads(self._line())
        if "refused" in answer:
            raise KafkaRefused(answer["refused"], answer["detail"])
        if "failed" in answer:
            raise RuntimeError(answer["detail"])
        return answer["ok"]

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._process.stdout], [], [], ANSWER_S_MAX)[0]:
                raise TimeoutError("the driver does not answer")
            part = self._process.stdout.read(1 << 20)
            if not part:
                raise RuntimeError(f"the driver left with {self._process.wait()}")
            line += part
        return line

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
        sent = [
            {
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": [[name, _text(value)] for name, value in record.headers],
                "timestamp_ms": record.timestamp_ms,
            }
            for record in records
        ]
        settings = {"partition": partition, "acks": acks, "codec": codec, "idempotent": idempotent}
        return list(self._ask("produce", topic=topic, records=sent, **settings))

    def fetch(self, topic: str, partition: int, offset: int, count: int) -> list[Got]:
        return [
            Got(
                record["offset"],
                _bytes(record["key"]),
                _bytes(record["value"]),
                tuple((name, _bytes(value)) for name, value in record["headers"]),
                record["timestamp_ms"],
                record["timestamp_kind"],
            )
            for record in self._ask("fetch", topic=topic, partition=partition, offset=offset, count=count)
        ]

    def offset_of(self, topic: str, partition: int, spec: str | int) -> int:
        return int(self._ask("offset_of", topic=topic, partition=partition, spec=spec))

    def partitions_of(self, topic: str) -> int:
        return int(self._ask("partitions_of", topic=topic))

    def topic_id(self, topic: str) -> str:
        return str(self._ask("topic_id", topic=topic))

    def name_of(self, topic_id: str) -> str:
        return str(self._ask("name_of", topic_id=topic_id))

    def create_topic(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        self._ask("create_topic", topic=topic, partitions=partitions, replicas=replicas, configs=configs)

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topic", topic=topic)

    def add_partitions(self, topic: str, total: int) -> None:
        self._ask("add_partitions", topic=topic, total=total)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        return int(self._ask("delete_records", topic=topic, partition=partition, before=before))

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        return dict(self._ask("topic_configs", topic=topic))

    def broker_configs(self) -> dict[str, str | None]:
        return dict(self._ask("broker_configs"))

    def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        self._ask("replace_configs", topic=topic, configs=configs)

    def change_configs(self, topic: str, changes: dict[str, str | None]) -> None:
        self._ask("change_configs", topic=topic, changes=changes)

    def cluster(self) -> Cluster:
        described = self._ask("cluster")
        brokers = tuple((node, host, port) for node, host, port in described["brokers"])
        return Cluster(described["cluster_id"], described["controller_id"], brokers)

    def log_dirs(self) -> dict[tuple[str, int], int]:
        return {(topic, partition): size for topic, partition, size in self._ask("log_dirs")}

    def close(self) -> None:
        """End of input is the driver's sign to leave."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(CLOSE_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError("the driver did not leave at the end of its input") from None
