"""Three real brokers: every topic through the text, JSON and HTTP doors of each of them, also while one is killed."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, RejectConnection, TextMessage
from wsproto.events import Request as Upgrade

from conditions import until
from e2e.cluster_up import run
from penstock import Admin, Consumer
from penstock.testing import Broker, Cluster, running_cluster

SECONDS_MAX = 60
PARTITIONS = 6


class TextClient:
    """One connection to a text door."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lines = line.makefile("rb")

    def send(self, topic: str, value: bytes, partition: int) -> None:
        self._line.sendall(b"PUB %s %d partition=%d\r\n%s" % (topic.encode(), len(value), partition, value))

    def answer(self) -> bytes:
        found = self._lines.readline()
        assert found, "closed"
        return found.rstrip()

    def fetch(self, topic: str, offset: str, partition: int, wait_ms: int = 0) -> bytes:
        words = f"FETCH {topic} {offset} partition={partition} wait={wait_ms}\r\n"
        self._line.sendall(words.encode())
        head = self.answer()
        if not head.startswith(b"MSG"):
            return head
        size = int(head.split()[2])
        return self._lines.read(size + 2)[:size]


@contextmanager
def text(broker: Broker) -> Iterator[TextClient]:
    with socket.create_connection(("127.0.0.1", broker.text_port), SECONDS_MAX) as line:
        yield TextClient(line)


def http(broker: Broker, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{broker.http_port}/api/v1/{path}",
        content,
        {"Content-Type": "application/json"} if content else {},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as response:
            return response.status, json.loads(response.read() or b"null")
    except HTTPError as error:
        return error.code, json.loads(error.read())


class JsonClient:
    """One connection to a JSON door."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        body = json.dumps({"command": command, **fields}).encode()
        self._line.sendall(len(body).to_bytes(4, "big") + body)
        size = int.from_bytes(self._line.recv(4, socket.MSG_WAITALL), "big")
        answer: dict[str, Any] = json.loads(self._line.recv(size, socket.MSG_WAITALL))
        return answer


@contextmanager
def json_door(broker: Broker) -> Iterator[JsonClient]:
    with socket.create_connection(("127.0.0.1", broker.json_port), SECONDS_MAX) as line:
        yield JsonClient(line)


def leaders(cluster: Cluster, topic: str) -> list[int]:
    with Admin(bootstrap=cluster.bootstrap) as admin:
        return [one.leader for one in admin.describe_topic(topic).partitions]


def make_topic(cluster: Cluster, name: str) -> list[int]:
    with Admin(bootstrap=cluster.bootstrap) as admin:
        admin.create_topic(name, PARTITIONS)
    found = leaders(cluster, name)
    assert set(found) == {1, 2, 3}
    return found


def test_every_door_of_every_broker_serves_every_partition(tmp_path: Path) -> None:
    with running_cluster(3, tmp_path) as cluster:
        make_topic(cluster, "orders")
        expected: list[list[str]] = [[] for _ in range(PARTITIONS)]
        for broker in cluster.brokers:
            name = f"{broker.port}"
            with text(broker) as line, json_door(broker) as caller:
                for index, values in enumerate(expected):
                    offset = len(values)
                    line.send("orders", f"text {name}".encode(), index)
                    assert line.answer() == b"OK %d" % offset
                    answer = caller.ask("PRODUCE", topic="orders", partition=index, message=f"json {name}")
                    assert answer["ok"] and (answer["partition"], answer["offset"]) == (index, offset + 1)
                    body = {"topic": "orders", "partition": index, "value": f"http {name}"}
                    assert http(broker, "POST", "messages", body) == (
                        200,
                        {"topic": "orders", "partition": index, "offset": offset + 2},
                    )
                    values += [f"text {name}", f"json {name}", f"http {name}"]
        for broker in cluster.brokers:
            with text(broker) as line, json_door(broker) as caller:
                for index, values in enumerate(expected):
                    assert line.fetch("orders", "4", index) == values[4].encode()
                    read = caller.ask("CONSUME", topic="orders", partition=index)
                    assert [one["message"] for one in read["messages"]] == values
                    path = f"topics/orders/partitions/{index}/messages"
                    assert [one["value"] for one in http(broker, "GET", path)[1]["messages"]] == values
                described = http(broker, "GET", "topics/orders")[1]
                assert [one["end_offset"] for one in described["partitions"]] == [9] * PARTITIONS
                assert all(one["bytes"] > 0 and one["online"] for one in described["partitions"])
                assert "partial" not in described
                (topic,) = caller.ask("METADATA", topic="orders")["topics"]
                assert [one["end_offset"] for one in topic["partitions"]] == [9] * PARTITIONS
                offsets = caller.ask("OFFSETS", topics=["orders"])["offsets"]
                assert [one["end_offset"] for one in offsets] == [9] * PARTITIONS


def test_groups_of_all_brokers_are_listed_by_each(tmp_path: Path) -> None:
    with running_cluster(3, tmp_path) as cluster:
        make_topic(cluster, "orders")
        names = [f"group-{number}" for number in range(8)]
        for name in names:
            with Consumer("orders", bootstrap=cluster.bootstrap, group=name, until_end=True) as consumer:
                assert list(consumer) == []
        for broker in cluster.brokers:
            assert [one["group"] for one in http(broker, "GET", "groups")[1]["groups"]] == names
            listed = json.loads(run("group", "list", "--bootstrap", broker.bootstrap, "-o", "json", code=0))
            assert sorted(one["group"] for one in listed) == names
        cluster.broker(3).kill()
        status, told = http(cluster.broker(1), "GET", "groups")
        assert status == 200 and told["partial"] and "broker 3" in told["errors"][0]["detail"]


class Writer(threading.Thread):
    """Publishes at one broker to one partition until it is told to stop, with several messages in flight."""

    def __init__(self, broker: Broker, partition: int) -> None:
        super().__init__()
        self._broker, self._partition = broker, partition
        self.answers: dict[bytes, bytes] = {}
        self._is_over = threading.Event()

    def run(self) -> None:
        number = 0
        with text(self._broker) as line:
            while not self._is_over.is_set():
                values = [b"%06d" % (number + one) for one in range(20)]
                number += len(values)
                for value in values:
                    line.send("orders", value, self._partition)
                for value in values:
                    self.answers[value] = line.answer()

    @property
    def acknowledged(self) -> int:
        return sum(answer.startswith(b"OK") for answer in list(self.answers.values()))

    def stop(self) -> None:
        self._is_over.set()
        self.join(SECONDS_MAX)
        assert not self.is_alive()


def test_a_leader_killed_under_load_loses_and_repeats_nothing(tmp_path: Path) -> None:
    with running_cluster(3, tmp_path, session_ms=2_000) as cluster:
        index = make_topic(cluster, "orders").index(2)
        writers = [Writer(cluster.broker(node_id), index) for node_id in (1, 3)]
        for writer in writers:
            writer.start()
        until(lambda: all(one.acknowledged > 200 for one in writers), "no records were acknowledged")
        cluster.broker(2).kill()
        before = [one.acknowledged for one in writers]
        until(
            lambda: all(any(b"has no leader" in one for one in list(w.answers.values())) for w in writers),
            "nobody was told that the partition has no leader",
        )
        cluster.broker(2).start()
        until(
            lambda: all(one.acknowledged > was + 200 for one, was in zip(writers, before, strict=True)),
            "nothing was acknowledged after the leader came back",
        )
        for writer in writers:
            writer.stop()
        with json_door(cluster.broker(3)) as caller:
            found: list[bytes] = []
            while True:
                read = caller.ask("CONSUME", topic="orders", partition=index, offset=len(found), max=10_000)
                found += [one["message"].encode() for one in read["messages"]]
                if read["next_offset"] == read["end_offset"]:
                    break
        counts = {value: found.count(value) for value in set(found)}
        for writer in writers:
            offsets = [int(one.split()[1]) for one in writer.answers.values() if one.startswith(b"OK")]
            assert offsets == sorted(offsets), "the order of a connection"
            for value, answer in writer.answers.items():
                if answer.startswith(b"OK"):
                    assert found[int(answer.split()[1])] == value
        assert max(counts.values()) <= len(writers), "both writers use the same values, each once"


class TailClient(threading.Thread):
    """A WebSocket that collects what a tail sends."""

    def __init__(self, broker: Broker, path: str) -> None:
        super().__init__(daemon=True)
        self.found: list[dict[str, Any]] = []
        self._frames = WSConnection(ConnectionType.CLIENT)
        self._line = socket.create_connection(("127.0.0.1", broker.http_port), SECONDS_MAX)
        self._line.sendall(self._frames.send(Upgrade(host="127.0.0.1", target=path)))
        self.is_open = threading.Event()

    def run(self) -> None:
        while content := self._line.recv(1 << 16):
            self._frames.receive_data(content)
            for event in self._frames.events():
                assert not isinstance(event, RejectConnection), event
                if isinstance(event, AcceptConnection):
                    self.is_open.set()
                elif isinstance(event, TextMessage):
                    self.found.append(json.loads(event.data))

    def values(self) -> list[str]:
        return sorted(one["value"] for one in list(self.found))


def test_a_tail_goes_on_when_a_leader_comes_back(tmp_path: Path) -> None:
    with running_cluster(3, tmp_path, session_ms=2_000) as cluster, ExitStack() as stack:
        placed = make_topic(cluster, "orders")
        tail = TailClient(cluster.broker(1), "/api/v1/topics/orders/tail")
        tail.start()
        assert tail.is_open.wait(SECONDS_MAX)
        line = stack.enter_context(text(cluster.broker(3)))

        def publish(name: str, indexes: list[int]) -> list[str]:
            values = [f"{name} {index}" for index in indexes]
            for index, value in zip(indexes, values, strict=True):
                line.send("orders", value.encode(), index)
            assert all(line.answer().startswith(b"OK") for _ in indexes)
            return values

        expected = publish("first", list(range(PARTITIONS)))
        until(lambda: tail.values() == sorted(expected), "the tail is incomplete")
        cluster.broker(2).kill()
        expected += publish("second", [index for index, leader in enumerate(placed) if leader != 2])
        until(lambda: tail.values() == sorted(expected), "other partitions must go on")
        cluster.broker(2).start()
        expected += publish("third", list(range(PARTITIONS)))
        until(lambda: tail.values() == sorted(expected), "the partition did not go on")
