"""What a cluster says of itself through Kafka's protocol: leaders, replicas, coordinators, and how often they change.

Works with any brokers that speak it. Never waits long: a cluster under faults may have no answer.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from penstock.client.access import Access, read_addresses
from penstock.client.errors import ClientError
from penstock.client.raw.cluster import Cluster, KeyKind
from penstock.wire.kafka import ApiKey, messages

ASK_MS_MAX = 2_000
LOOK_S = 0.25
NO_LEADER = -1
COORDINATOR_TOPICS = ("__consumer_offsets", "__transaction_state", "__subscriptions")

Name = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    """`leader` is -1 while there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    topic_id: bytes = bytes(16)


@dataclass(frozen=True, slots=True)
class View:
    controller: int
    partitions: dict[Name, PartitionView]


def connect(bootstrap: str, ms_max: int = ASK_MS_MAX) -> Cluster:
    """Requests that no client library has, with a short patience."""
    return Cluster(
        Access(
            addresses=read_addresses(bootstrap),
            client_id="checker-sight",
            connect_ms_max=ms_max,
            request_ms_max=ms_max,
            call_ms_max=ms_max,
        )
    )


def view(cluster: Cluster) -> View:
    """Raises ClientError."""
    answer = cluster.ask(
        ApiKey.METADATA,
        messages.MetadataRequest(topics=None, allow_auto_topic_creation=False),
        version_max=10,
        again_on=frozenset(),
    )
    return View(
        answer.controller_id,
        {
            (topic.name or "", one.partition_index): PartitionView(
                one.leader_id,
                one.leader_epoch,
                tuple(one.replica_nodes),
                frozenset(one.isr_nodes),
                topic.topic_id,
            )
            for topic in answer.topics
            for one in topic.partitions
        },
    )


class Sight:
    """Answers None where the cluster has no answer."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def view(self) -> View | None:
        with connect(self._bootstrap) as cluster:
            try:
                return view(cluster)
            except ClientError:
                return None

    def partition(self, name: Name) -> PartitionView | None:
        found = self.view()
        return None if found is None else found.partitions.get(name)

    def controller(self) -> int | None:
        found = self.view()
        return None if found is None else found.controller

    def coordinator(self, kind: KeyKind, key: str) -> int | None:
        """The node id of the coordinator of a group or transactional id."""
        request = messages.FindCoordinatorRequest(key=key, key_type=int(kind))
        with connect(self._bootstrap) as cluster:
            try:
                return cluster.ask(
                    ApiKey.FIND_COORDINATOR, request, version_max=3, again_on=frozenset()
                ).node_id
            except ClientError:
                return None


class Changes:
    """A thread that looks at the metadata all the time. Leaders are counted by their epochs, so none is missed."""

    def __init__(self, bootstrap: str) -> None:
        self.leader_changes = 0
        self.isr_changes = 0
        self._bootstrap = bootstrap
        self._last: dict[Name, PartitionView] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self, now: View) -> None:
        """Compare with the newest state known of each partition: a broker that lags behind tells of older ones."""
        for name, one in now.partitions.items():
            last = self._last.get(name)
            if last is None or one.leader_epoch > last.leader_epoch:
                if last is not None:
                    self.leader_changes += one.leader_epoch - last.leader_epoch
                    self.isr_changes += one.isr != last.isr
                self._last[name] = one
            elif one.leader_epoch == last.leader_epoch and one.isr != last.isr:
                self.isr_changes += 1
                self._last[name] = one

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            with connect(self._bootstrap) as cluster:
                while not self._stopping.wait(LOOK_S):
                    try:
                        self.look(view(cluster))
                    except ClientError:
                        break
