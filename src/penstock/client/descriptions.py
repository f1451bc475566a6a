"""What Admin answers: topics, settings, groups and lag as values. Never asks a broker."""

from __future__ import annotations

from dataclasses import dataclass

SET_ON_TOPIC = "dynamic topic config"


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic in a list."""

    topic: str
    partitions: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic. `records` counts offsets: compaction and aborted transactions leave gaps."""

    partition: int
    leader: int
    replicas: list[int]
    in_sync: list[int]
    start_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class Config:
    """One setting of a topic, and who set it."""

    name: str
    value: str
    source: str

    @property
    def is_set(self) -> bool:
        """Whether it was set for this topic, rather than being a default."""
        return self.source == SET_ON_TOPIC


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic with its partitions and settings."""

    topic: str
    partitions: list[Partition]
    configs: list[Config]


@dataclass(frozen=True, slots=True)
class Group:
    """One group in a list."""

    group: str
    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group, and the partitions that it has, as `topic-partition`."""

    member: str
    client: str
    host: str
    partitions: list[str]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group with its members."""

    group: str
    kind: str
    state: str
    assignor: str
    members: list[Member]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind in one partition. Where it has committed nothing, everything in it counts."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int
