"""Value types shared by all packages. They validate themselves and have no other behaviour."""

from __future__ import annotations

import re
from enum import IntEnum, StrEnum
from typing import NamedTuple

from penstock.core.errors import InvalidTopic
from penstock.core.limits import TOPIC_NAME_CHARS_MAX

NO_TIMESTAMP = -1
NO_PRODUCER = -1
NO_EPOCH = -1
TOPIC_ID_BYTES = 16

TopicRef = str | bytes
"""A topic by its name or by its id."""

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class Durability(StrEnum):
    """When a record counts as persisted: after fdatasync, after an interval flush, or once the OS has it."""

    FSYNC = "fsync"
    INTERVAL = "interval"
    OS = "os"


class Storage(StrEnum):
    """Where the log is stored."""

    DISK = "disk"
    MEMORY = "memory"


class Isolation(IntEnum):
    """What a reader may see of open transactions."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Acks(IntEnum):
    """What a producer waits for."""

    NONE = 0
    LEADER = 1
    ALL = -1


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class PartitionId(NamedTuple):
    """One partition of a topic by the topic's id, which no other topic ever has."""

    topic_id: bytes
    partition: int


class Header(NamedTuple):
    """One header of a record. Names may repeat."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record as a consumer reads it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class NewRecord(NamedTuple):
    """One record as a producer submits it; the log assigns the offset."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = NO_TIMESTAMP


class Address(NamedTuple):
    """A host and a port as clients use them."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_topic_name(name: str) -> str:
    """Validates a topic name by Kafka's rules. InvalidTopic names the rule that it breaks."""
    if not name:
        raise InvalidTopic("a topic name cannot be empty")
    if name in (".", ".."):
        raise InvalidTopic(f"{name!r} is not a valid topic name")
    if len(name) > TOPIC_NAME_CHARS_MAX:
        raise InvalidTopic(f"a topic name has at most {TOPIC_NAME_CHARS_MAX} characters, got {len(name)}")
    if not _TOPIC_NAME.fullmatch(name):
        raise InvalidTopic(f"{name!r}: a topic name may contain only ASCII letters, digits, '.', '_' and '-'")
    return name
