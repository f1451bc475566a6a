"""REST → writer → gRPC → brokers → gRPC → reader → WebSocket, while a broker and both services are killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from conditions import until
from grpc_services import ServiceProcess, running_service
from node_services import READER, WRITER, NodeProcess, SocketReader, http_client, running_node
from penstock import Admin
from penstock.testing import Cluster, running_cluster

TOPIC = "user-events"
PARTITIONS = 3
POSTS_PER_PHASE = 30
SESSION_MS = 4_000
"""Of members that a killed service leaves behind, and of brokers."""
POST_S_MAX = 60
Services = tuple[Cluster, ServiceProcess, ServiceProcess, NodeProcess, NodeProcess]


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    brokers = {"default_replication_factor": 3, "session_ms": SESSION_MS, "group_session_ms_min": SESSION_MS}
    patience = {"REQUEST_TIMEOUT_MS": POST_S_MAX * 1_000}
    quick = {"SESSION_TIMEOUT_MS": SESSION_MS, "SOCKET_COMMIT_INTERVAL_MS": 50}
    with (
        running_cluster(3, tmp_path / "cluster", **brokers) as cluster,
        running_service(tmp_path, "producer-service", "--bootstrap", cluster.bootstrap) as producer,
        running_service(tmp_path, "consumer-service", "--bootstrap", cluster.bootstrap) as consumer,
        running_node(WRITER, tmp_path, PRODUCER_URL=producer.address, **patience) as writer,
        running_node(READER, tmp_path, CONSUMER_URL=consumer.address, **quick) as reader,
    ):
        yield cluster, producer, consumer, writer, reader


class Posts:
    """Posts numbers in the background, one after another, and remembers what was acknowledged."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.acknowledged: list[int] = []
        self.refused: list[Any] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            body = {"topic": TOPIC, "key": str(number), "value": number}
            try:
                answer = self._client.post("/api/v1/messages", json=body, timeout=2 * POST_S_MAX)
            except httpx.HTTPError as error:
                self.refused.append((number, error))
                continue
            if answer.status_code == 201:
                self.acknowledged.append(number)
            else:
                self.refused.append((number, answer.status_code, answer.text))
            number += 1

    def more(self) -> None:
        """Wait until some more posts are acknowledged."""
        wanted = len(self.acknowledged) + POSTS_PER_PHASE
        until(lambda: len(self.acknowledged) >= wanted, f"posts do not get through: {self.refused[-3:]}")

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def leader(cluster: Cluster) -> int:
    with Admin(bootstrap=cluster.bootstrap) as admin:
        return next(one.leader for one in admin.describe_topic(TOPIC).partitions)


def test_nothing_acknowledged_is_lost(services: Services) -> None:
    cluster, producer, consumer, writer, reader = services
    with http_client(writer) as client:
        topic = {"name": TOPIC, "partitions": PARTITIONS, "replicas": 3}
        assert client.post("/api/v1/topics", json=topic).status_code == 201
        with (
            SocketReader(reader, topics=TOPIC) as every,
            SocketReader(reader, topics=TOPIC, group="chain", ack="client", **{"from": "earliest"}) as member,
        ):
            every.until("ready")
            posts = Posts(client)
            try:
                posts.more()
                cluster.broker(leader(cluster)).kill()
                posts.more()
                for service in (producer, consumer):
                    service.kill()
                with ThreadPoolExecutor() as threads:
                    list(threads.map(lambda service: service.start(), (producer, consumer)))
                posts.more()
            finally:
                posts.stop()
            assert posts.refused == []
            seen_by_every = every.until_values(posts.acknowledged)
            seen_by_member = member.until_values(posts.acknowledged)
            assert set(seen_by_every) == set(seen_by_member) == set(posts.acknowledged)
            assert len(posts.acknowledged) >= 3 * POSTS_PER_PHASE
            _check_committed(reader, member)
    assert (writer.stop(), reader.stop()) == (0, 0)


def _check_committed(reader: NodeProcess, member: SocketReader) -> None:
    """The group commits everything, if what is delivered once more is acknowledged too."""
    with http_client(reader) as client:

        def lag() -> int:
            member.drain()
            answer = client.get("/api/v1/offsets/chain")
            offsets = answer.json()["offsets"] if answer.is_success else []
            return sum(one["lag"] for one in offsets) if offsets else -1

        until(lambda: lag() == 0, "the group did not commit everything")
