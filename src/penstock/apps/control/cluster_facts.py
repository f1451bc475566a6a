"""What the console tells about a cluster's topics, leaders and lag, from Kafka calls to its brokers. Changes nothing.

Calls block, so they run in threads, and only a few at a time: consoles cannot exhaust the threads of the coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from penstock.apps.control.commands import ConsoleError, FailureKind
from penstock.client.access import Access, read_addresses
from penstock.client.errors import ClientError, NotFound
from penstock.client.raw.cluster import ANYONE, Cluster
from penstock.wire.kafka import ApiKey, messages

CLIENT_ID = "penstock-console"
CONNECT_MS_MAX = 2_000
REQUEST_MS_MAX = 5_000
CALLS_MAX = 2
"""Calls at the same time; more wait."""
GROUPS_MAX = 200
"""Groups whose lag is looked up by one command: each takes several requests."""
_METADATA_VERSION_MAX = 10
_REMEDY = "See the brokers with: broker list"

T = TypeVar("T")


class PartitionFact(NamedTuple):
    """Where one partition is."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class LagFact(NamedTuple):
    """How far one group is behind in one topic."""

    group: str
    topic: str
    partitions: int
    lag: int


class LagReport(NamedTuple):
    """The lag of groups; `skipped` counts groups beyond the limit."""

    facts: list[LagFact]
    skipped: int


class ClusterFacts(Protocol):
    """Raises ConsoleError if no broker answers."""

    async def partitions(self) -> list[PartitionFact]:
        """All partitions of topics that are not internal."""

    async def lag(self) -> LagReport: ...


class KafkaFacts:
    """Facts of the cluster behind a bootstrap list, which may change."""

    def __init__(self, bootstrap: Callable[[], str]) -> None:
        self._bootstrap = bootstrap
        self._room = asyncio.Semaphore(CALLS_MAX)

    async def partitions(self) -> list[PartitionFact]:
        return await self._call(_read_partitions)

    async def lag(self) -> LagReport:
        return await self._call(_read_lag)

    async def _call(self, read: Callable[[str], T]) -> T:
        async with self._room:
            try:
                return await asyncio.to_thread(read, self._bootstrap())
            except ClientError as error:
                raise ConsoleError(
                    FailureKind.NO_CLUSTER,
                    f"The cluster does not answer: {error.message.rstrip('.')}.",
                    _REMEDY,
                ) from error


def _read_partitions(bootstrap: str) -> list[PartitionFact]:
    access = Access(
        read_addresses(bootstrap),
        client_id=CLIENT_ID,
        connect_ms_max=CONNECT_MS_MAX,
        request_ms_max=REQUEST_MS_MAX,
        call_ms_max=REQUEST_MS_MAX,
    )
    request = messages.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    with Cluster(access) as cluster:
        answer = cluster.ask(
            ApiKey.METADATA, request, ANYONE, version_max=_METADATA_VERSION_MAX, again_on=frozenset()
        )
    found = [
        PartitionFact(
            topic.name or "",
            one.partition_index,
            one.leader_id if one.leader_id >= 0 else None,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
        )
        for topic in answer.topics
        if not topic.is_internal
        for one in topic.partitions
    ]
    return sorted(found, key=lambda one: (one.topic, one.partition))


def _read_lag(bootstrap: str) -> LagReport:
    from penstock.client.rdkafka.admin import Admin

    facts: list[LagFact] = []
    with Admin(
        bootstrap=bootstrap,
        client_id=CLIENT_ID,
        connect_s_max=CONNECT_MS_MAX / 1_000,
        request_s_max=REQUEST_MS_MAX / 1_000,
    ) as admin:
        groups = admin.groups()
        for group in groups[:GROUPS_MAX]:
            try:
                rows = admin.lag(group.group)
            except NotFound:
                continue  # the group or its topic was deleted meanwhile
            for topic in sorted({row.topic for row in rows}):
                lags = [row.lag for row in rows if row.topic == topic]
                facts.append(LagFact(group.group, topic, len(lags), sum(lags)))
    return LagReport(facts, max(0, len(groups) - GROUPS_MAX))
