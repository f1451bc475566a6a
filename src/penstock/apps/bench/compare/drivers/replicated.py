"""A topic whose partitions have a replica on every broker of a cluster, and writers at the leaders."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.apps.bench.compare.drivers.kafka import KafkaWriter
from penstock.apps.bench.harness.cluster import Cluster
from penstock.apps.bench.harness.cluster_state import await_state, read_state
from penstock.apps.bench.harness.frames import create_topic_frame, delete_topic_frame
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader

READY_S_MAX = 60.0


class ReplicatedTopic:
    """One topic with a replica on every broker, or on fewer; all but one of them are required for acks=all."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, replicas: int | None = None) -> None:
        self._cluster = cluster
        self.topic = topic
        self.partitions = partitions
        self._replicas = replicas or len(cluster.members)

    def create(self) -> None:
        """Create the topic; returns once all brokers know its leaders. Raises UnexpectedResponse."""
        frame = create_topic_frame(
            self.topic, self.partitions, self._replicas, min_insync_replicas=max(1, self._replicas - 1)
        )
        with Loader(self._cluster.addresses[0]) as loader:
            (created,) = loader.call(frame).topics
        if created.error_code:
            raise UnexpectedResponse(
                f"{self.topic} was not created, error code {created.error_code}: {created.error_message}"
            )
        for address in self._cluster.addresses:
            await_state(
                address,
                lambda state: (
                    len(state.of(self.topic)) == self.partitions
                    and all(one.in_sync == one.replicas for one in state.of(self.topic))
                ),
                READY_S_MAX,
            )
        self._await_leading()

    def _await_leading(self) -> None:
        """Kafka announces leaders before they know about it themselves."""
        deadline = time.monotonic() + READY_S_MAX
        for partition, leader in enumerate(self.leaders()):
            with Loader(self._cluster.members[leader].address) as loader:
                while -1 in loader.end_offsets(self.topic, range(partition, partition + 1)):
                    if time.monotonic() > deadline:
                        raise UnexpectedResponse(f"{self.topic}-{partition} has no leader")

    def delete(self) -> None:
        with Loader(self._cluster.addresses[0]) as loader:
            (dropped,) = loader.call(delete_topic_frame(self.topic)).responses
        if dropped.error_code:
            raise UnexpectedResponse(f"cannot delete {self.topic}, error code {dropped.error_code}")

    def leaders(self) -> list[int]:
        """The node id of the leader of each partition, as the first running broker sees it."""
        running = next(one for one in self._cluster.members.values() if one.process is not None)
        return [one.leader for one in read_state(running.address).of(self.topic)]

    def writers(self, size: int, per_partition: int) -> list[KafkaWriter]:
        """Connections to the leader of each partition. Each sends to one partition."""
        return [
            KafkaWriter(self._cluster.members[leader].address, size, self.topic, partition)
            for partition, leader in enumerate(self.leaders())
            for _ in range(per_partition)
        ]


@contextmanager
def replicated_topic(
    cluster: Cluster, topic: str, partitions: int, replicas: int | None = None
) -> Iterator[ReplicatedTopic]:
    """A new topic, deleted at the end of the block unless that failed."""
    found = ReplicatedTopic(cluster, topic, partitions, replicas)
    found.create()
    yield found
    found.delete()
