"""What subscriptions use of partitions that other brokers lead: sources of records, logs to write to, offsets.

Only the broker of a cluster has it. Which broker leads a partition is looked up with every call.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.events import Topic
from penstock.core.model import PartitionId, TopicPartition
from penstock.node.coordinators.remote_feed import RemoteFeed
from penstock.node.coordinators.remote_log import FindPartition, NewProducerId, RemoteLog
from penstock.node.coordinators.subscription_feed import FeedSource, SubscriptionFeed
from penstock.node.remote.other_brokers import OtherBrokers
from penstock.node.replicas.edges import Bounds
from penstock.node.runtime.runtime import Runtime


class RemoteSources:
    """The partitions of other brokers, for the subscriptions of this one."""

    def __init__(
        self,
        runtime: Runtime,
        others: OtherBrokers,
        find_partition: FindPartition,
        new_producer_id: NewProducerId,
    ) -> None:
        self._runtime = runtime
        self._others = others
        self._find_partition = find_partition
        self._new_producer_id = new_producer_id
        self._logs: dict[PartitionId, RemoteLog] = {}

    def source(self, topic: Topic, index: int) -> FeedSource:
        """The records of a partition, for one subscription."""
        one = RemoteFeed(self._others.reads, topic, index)
        return FeedSource(one, one.read_ahead, one.read_again, one.read_opened)

    def log(self, topic: Topic, index: int) -> RemoteLog:
        """A partition to write to. There is one of each, so that the broker does not need a producer id per record."""
        place = PartitionId(topic.id, index)
        if place not in self._logs:
            self._logs[place] = RemoteLog(
                self._runtime, self._others, self._find_partition, self._new_producer_id, topic, index
            )
        return self._logs[place]

    async def bounds(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds | BrokerError]:
        """Start offsets and high watermarks of partitions, or why they are unknown."""
        return await self._others.offsets.bounds(places)

    async def refresh(self, feeds: Sequence[SubscriptionFeed]) -> list[int]:
        """Learn the ends of the partitions that feeds read from other brokers; returns those that are not known."""
        remote = [feed.partition for feed in feeds if isinstance(feed.partition, RemoteFeed)]
        found = await self.bounds([one.place for one in remote])
        missing = []
        for one in remote:
            bounds = found[one.place]
            if isinstance(bounds, BrokerError):
                missing.append(one.index)
            else:
                one.note_end(bounds.end_offset)
        return missing

    def forget_topics(self, names: Container[str]) -> None:
        """Topics were deleted."""
        for place, log in list(self._logs.items()):
            if log.place.topic in names:
                del self._logs[place]
