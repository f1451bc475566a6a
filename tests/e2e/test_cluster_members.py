"""Members of subscriptions and groups on a cluster of real processes, with the coordinator killed in the middle."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from functools import partial
from typing import Any

from conditions import until
from penstock import BrokerClient, Producer
from penstock.client.queue import Message
from penstock.testing import running_cluster
from penstock.testing.cluster import Cluster

PARTITIONS = 6
SESSION_MS = 2_000


class Readers:
    """One member per broker; counts what was handled."""

    def __init__(self, cluster: Cluster, subscription: str, brokers: list[int]) -> None:
        self.handled: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._clients = [
            BrokerClient(
                port=cluster.broker(node_id).queue_port, client_id=f"reader-{node_id}", request_timeout_s=60
            )
            for node_id in brokers
        ]
        for client in self._clients:
            client.connect()
            client.subscribe_to_subscription(subscription, self._handle, window=10)

    def _handle(self, message: Message) -> None:
        with self._lock:
            self.handled[message.text] += 1

    def close(self) -> None:
        for client in self._clients:
            client.disconnect()


def publish(cluster: Cluster, first: int, count: int) -> set[str]:
    values = {f"m{number}" for number in range(first, first + count)}
    with Producer(bootstrap=cluster.bootstrap) as producer:
        for number in range(first, first + count):
            producer.send("t", f"m{number}", partition=number % PARTITIONS)
    return values


def all_handled(readers: dict[str, Readers], sent: set[str]) -> bool:
    return all(set(one.handled) == sent for one in readers.values())


def has_members(client: BrokerClient, subscription: str, count: int) -> bool:
    return len(client.describe_subscription(subscription)["members"]) == count


def test_members_on_every_broker_get_everything_though_brokers_are_killed() -> None:
    """Each broker is killed once: it coordinates subscriptions, leads partitions, and has members connected to it."""
    with running_cluster(3, session_ms=SESSION_MS) as cluster:
        names = [f"work-{number}" for number in range(4)]
        with BrokerClient(port=cluster.broker(1).queue_port) as client:
            client.create_topic("t", PARTITIONS)
            for name in names:
                client.create_subscription(name, "t")
        readers = {name: Readers(cluster, name, [1, 2, 3]) for name in names}
        sent = publish(cluster, 0, 300)
        until(partial(all_handled, readers, sent), "the first messages")
        for node_id in (1, 2, 3):
            cluster.broker(node_id).kill()
            cluster.broker(node_id).start()
            sent |= publish(cluster, len(sent), 100)
            until(partial(all_handled, readers, sent), f"messages after broker {node_id} was killed")
        with BrokerClient(port=cluster.broker(2).queue_port) as client:
            assert [one["name"] for one in client.list_subscriptions()] == names
            for name in names:
                until(partial(has_members, client, name, 3), f"the members of {name} to be back")
                assert len(client.describe_subscription(name)["partitions"]) == PARTITIONS
        for one in readers.values():
            one.close()


def ask(line: socket.socket, command: str, **fields: Any) -> dict[str, Any]:
    raw = json.dumps({"command": command, **fields}).encode()
    line.sendall(len(raw).to_bytes(4, "big") + raw)
    size = int.from_bytes(_exactly(line, 4), "big")
    found: dict[str, Any] = json.loads(_exactly(line, size))
    return found


def _exactly(line: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        some = line.recv(count - len(content))
        assert some, "the connection has ended"
        content += some
    return content


def test_json_members_of_every_broker_join_any_group() -> None:
    with running_cluster(3, session_ms=SESSION_MS) as cluster:
        with BrokerClient(port=cluster.broker(1).queue_port) as client:
            client.create_topic("t", PARTITIONS)
        for number in range(6):
            group = f"readers-{number}"
            node_id = number % 3 + 1
            with socket.create_connection(("127.0.0.1", cluster.broker(node_id).json_port)) as line:
                told = ask(line, "JOIN", group=group, topics=["t"])
                assert told["ok"], told
                while len(told["assignment"]) < PARTITIONS:
                    told = ask(
                        line,
                        "HEARTBEAT",
                        group=group,
                        member=told["member"],
                        epoch=told["epoch"],
                        assignment=told["assignment"],
                    )
                    assert told["ok"], told
                offsets = [{"topic": "t", "partition": index, "offset": 0} for index in range(PARTITIONS)]
                committed = ask(
                    line, "COMMIT", group=group, member=told["member"], epoch=told["epoch"], offsets=offsets
                )
                assert committed == {"ok": True}
                assert ask(line, "LEAVE", group=group, member=told["member"]) == {"ok": True}
