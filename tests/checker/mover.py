"""Replicas that move between brokers while everything else runs, those of coordinators too, and preferred elections.

A move that is refused or whose outcome is unknown does no harm. At the end all of them must have come to an end.
"""

from __future__ import annotations

import random
import threading

from checker.sight import COORDINATOR_TOPICS, NO_LEADER, Name, PartitionView, view
from conditions import until
from e2e.move_clients import ongoing, raw_cluster, reassign
from penstock.client.errors import ClientError
from penstock.client.raw.cluster import Cluster
from penstock.wire.kafka import ApiKey, ErrorCode, messages

PAUSE_S = (0.5, 2.5)
CANCEL_SHARE = 1 / 8
ELECT_SHARE = 1 / 4
ELECT_MS_MAX = 5_000
PREFERRED = 0


class Mover:
    """One thread, which gives one partition after the other a random replica set of the same size."""

    def __init__(self, bootstrap: str, topics: list[str], nodes: int, seed: int) -> None:
        self.started = 0
        """Moves that were accepted."""
        self.elected = 0
        """Elections of preferred leaders that were accepted."""
        self._bootstrap = bootstrap
        self._topics = [*topics, *COORDINATOR_TOPICS]
        self._nodes = range(1, nodes + 1)
        self._rng = random.Random(f"moves {seed}")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def problems(self) -> list[str]:
        """Moves that never end."""
        with raw_cluster(self._bootstrap) as cluster:

            def is_over() -> bool:
                try:
                    return not ongoing(cluster)
                except ClientError:
                    return False

            try:
                until(is_over, "never")
            except AssertionError:
                return ["partitions are still moving long after the end"]
        return []

    def _run(self) -> None:
        with raw_cluster(self._bootstrap) as cluster:
            while not self._stopping.wait(self._rng.uniform(*PAUSE_S)):
                topic, draw = self._rng.choice(self._topics), random.Random(self._rng.random())
                try:
                    self._act(cluster, topic, draw)
                except ClientError:
                    continue

    def _act(self, cluster: Cluster, topic: str, draw: random.Random) -> None:
        found = {name: one for name, one in view(cluster).partitions.items() if name[0] == topic}
        if not found:
            return  # an internal topic that nobody has needed yet
        name = draw.choice(sorted(found))
        if draw.random() < ELECT_SHARE and len(found[name].replicas) > 1:
            self.elected += not any(elect(cluster, found))
            return
        targets = draw.sample(self._nodes, min(len(self._nodes), max(1, len(found[name].replicas))))
        if not any(reassign(cluster, topic, {name[1]: targets})):
            self.started += 1
        if draw.random() < CANCEL_SHARE:
            reassign(cluster, topic, {name[1]: None})


def elect(cluster: Cluster, partitions: dict[Name, PartitionView]) -> list[int]:
    """Ask for the preferred leaders of these partitions where others lead; returns the error codes."""
    wanted: dict[str, list[int]] = {}
    for (topic, index), one in sorted(partitions.items()):
        if one.leader not in (NO_LEADER, one.replicas[0]):
            wanted.setdefault(topic, []).append(index)
    if not wanted:
        return [ErrorCode.ELECTION_NOT_NEEDED]
    request = messages.ElectLeadersRequest
    rows = [request.TopicPartitions(topic=topic, partitions=rows) for topic, rows in wanted.items()]
    answer = cluster.ask(
        ApiKey.ELECT_LEADERS,
        request(election_type=PREFERRED, topic_partitions=rows, timeout_ms=ELECT_MS_MAX),
        again_on=frozenset(),
    )
    return [
        answer.error_code,
        *(one.error_code for row in answer.replica_election_results for one in row.partition_result),
    ]
