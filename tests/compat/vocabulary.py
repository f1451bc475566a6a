"""The words every client adapter speaks: what is sent, what comes back, how a refusal looks.

Never imports a client library: an adapter translates its library's types into these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pytest
from kio.schema.errors import ErrorCode

Header = tuple[str, bytes | None]
CreateTopic = Callable[..., str]

WAIT_S = 20.0
# Longer than any test waits: a broker that answers only at the end of the wait is caught.
FETCH_WAIT_MS = 40_000
REQUEST_MS_MAX = 60_000

EARLIEST, LATEST, MAX_TIMESTAMP = "earliest", "latest", "max_timestamp"
CREATE_TIME, APPEND_TIME = "create", "append"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as a producer hands it over."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Got:
    """A record as a consumer sees it. `timestamp_kind` is None where the client does not tell."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int
    timestamp_kind: str | None


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a client says about the cluster."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[tuple[int, str, int], ...]


class KafkaRefused(Exception):
    """The broker answered with an error; `name` is Kafka's own word for it."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"{name}: {detail}" if detail else name)
        self.name = name


@contextmanager
def refused(name: str) -> Iterator[None]:
    """The block must be refused, and with exactly this error."""
    with pytest.raises(KafkaRefused) as caught:
        yield
    assert caught.value.name == name, str(caught.value)


class MissingRuntime(Exception):
    """A client cannot run here; the text says what to install."""


def error_name(code: int) -> str:
    """Kafka's name of an error code: 3 -> UNKNOWN_TOPIC_OR_PARTITION."""
    return ErrorCode(code).name.upper()


class Client(Protocol):
    """All a client may be asked. An adapter has only what its client can do: see roster.ABLE."""

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
        """Offsets in the order sent; -1 where the client is not told."""

    def fetch(self, topic: str, partition: int, offset: int, count: int) -> list[Got]:
        """`count` records from `offset` on; waits in the broker until they are there."""

    def offset_of(self, topic: str, partition: int, spec: str | int) -> int:
        """Offset of earliest, latest, max_timestamp, or first record not before a time in ms; -1 is none."""

    def partitions_of(self, topic: str) -> int:
        """How many partitions; an unknown topic is refused and not created."""

    def create_topic(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """New log start offset."""

    def topic_configs(self, topic: str) -> dict[str, str | None]: ...

    def broker_configs(self) -> dict[str, str | None]: ...

    def replace_configs(self, topic: str, configs: dict[str, str]) -> None:
        """AlterConfigs: what is not named goes back to its default."""

    def change_configs(self, topic: str, changes: dict[str, str | None]) -> None:
        """IncrementalAlterConfigs: a value sets, None deletes."""

    def cluster(self) -> Cluster: ...

    def log_dirs(self) -> dict[tuple[str, int], int]:
        """Bytes on disk by topic and partition."""

    def topic_id(self, topic: str) -> str: ...

    def name_of(self, topic_id: str) -> str:
        """Describe a topic by its id."""

    def close(self) -> None: ...
