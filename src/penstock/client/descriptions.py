"""Values returned by Admin: brokers, topics, settings, groups and lag."""

from __future__ import annotations

from dataclasses import dataclass

SET_ON_TOPIC = "dynamic topic config"


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """One broker and the address that it advertises."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ClusterBrokers:
    """The brokers of a cluster, sorted by id."""

    cluster_id: str
    brokers: list[BrokerDescription]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic in a list."""

    topic: str
    partitions: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic. `records` is an upper bound: compaction and aborted transactions leave gaps."""

    partition: int
    leader: int
    replicas: list[int]
    in_sync: list[int]
    start_offset: int
    end_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class Config:
    """One setting of a topic and its source."""

    name: str
    value: str
    source: str

    @property
    def is_set(self) -> bool:
        """Whether the topic overrides the default."""
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
    """One member of a group and its assigned partitions, as `topic-partition`."""

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
    """Lag of a group in one partition. Without a committed offset, all records in it count."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int
