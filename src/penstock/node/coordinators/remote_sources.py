"""What subscriptions use of partitions that other brokers lead: sources of records, logs to write to, offsets.

Only the broker of a cluster has it. Which broker leads a partition is looked up with every call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence

from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Topic
from penstock.core.model import PartitionId, TopicPartition
from penstock.node.coordinators.feed_fetcher import FeedFetcher
from penstock.node.coordinators.remote_feed import RemoteFeed
from penstock.node.coordinators.remote_log import FindPartition, NewProducerId, RemoteLog
from penstock.node.coordinators.subscription_feed import FeedSource, SubscriptionFeed
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_queries import EARLIEST, LATEST
from penstock.node.runtime.runtime import Runtime

OFFSET_CALLS_MAX = 8
"""Offsets that one caller looks up at a time."""


class RemoteSources:
    """The partitions of other brokers, for the subscriptions of this one."""

    def __init__(
        self,
        runtime: Runtime,
        links: PeerLinks,
        node_id: int,
        catalog: Catalog,
        leader_of: Callable[[str, int], int],
        find_partition: FindPartition,
        new_producer_id: NewProducerId,
    ) -> None:
        self._runtime = runtime
        self._links = links
        self._catalog = catalog
        self._find_partition = find_partition
        self._new_producer_id = new_producer_id
        self._fetcher = FeedFetcher(links, node_id, leader_of)
        self._logs: dict[PartitionId, RemoteLog] = {}

    def source(self, topic: Topic, index: int) -> FeedSource:
        """The records of a partition, for one subscription."""
        one = self._partition(topic, index)
        return FeedSource(one, one.read_ahead, one.read_again, one.read_opened)

    def log(self, topic: Topic, index: int) -> RemoteLog:
        """A partition to write to. There is one of each, so that the broker does not need a producer id per record."""
        place = PartitionId(topic.id, index)
        if place not in self._logs:
            self._logs[place] = RemoteLog(
                self._runtime,
                self._links,
                self._fetcher,
                self._find_partition,
                self._new_producer_id,
                self._partition(topic, index),
            )
        return self._logs[place]

    def _partition(self, topic: Topic, index: int) -> RemoteFeed:
        bytes_max = self._catalog.config(topic.name).message_bytes_max
        return RemoteFeed(self._runtime, self._fetcher, topic, index, bytes_max)

    async def starts(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | BrokerError]:
        """The start offsets of partitions, or why they are unknown."""
        return await self._offsets(places, EARLIEST)

    async def ends(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | BrokerError]:
        """Their high watermarks."""
        return await self._offsets(places, LATEST)

    async def refresh(self, feeds: Sequence[SubscriptionFeed]) -> list[int]:
        """Learn the ends of the partitions that feeds read from other brokers; returns those that are not known."""
        remote = [feed.partition for feed in feeds if isinstance(feed.partition, RemoteFeed)]
        ends = await self.ends([one.place for one in remote])
        missing = []
        for one in remote:
            end_offset = ends[one.place]
            if isinstance(end_offset, BrokerError):
                missing.append(one.index)
            else:
                one.high_watermark = max(one.high_watermark, end_offset)
        return missing

    async def _offsets(
        self, places: Sequence[TopicPartition], timestamp_ms: int
    ) -> Mapping[TopicPartition, int | BrokerError]:
        turns = asyncio.Semaphore(OFFSET_CALLS_MAX)

        async def ask(place: TopicPartition) -> int | BrokerError:
            async with turns:
                try:
                    return await self._fetcher.offset_at(place, timestamp_ms)
                except BrokerError as error:
                    return error

        found = await asyncio.gather(*map(ask, places))
        return dict(zip(places, found, strict=True))

    def forget_topics(self, names: Container[str]) -> None:
        """Topics were deleted."""
        for place, log in list(self._logs.items()):
            if log.topic in names:
                del self._logs[place]

    def close(self) -> None:
        self._fetcher.close()
