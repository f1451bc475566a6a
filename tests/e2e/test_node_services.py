"""The Node.js writer and reader as processes against a real broker and real gRPC services."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from conditions import until
from grpc_services import ServiceProcess, running_service
from node_services import (
    ANSWER_S_MAX,
    BEARER,
    READER,
    WRITER,
    NodeProcess,
    SocketReader,
    http_client,
    running_node,
)
from penstock import Admin, Consumer, Producer
from penstock.testing import Broker, BrokerDied, running_broker

SOCKETS = 200
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}


@dataclass
class Stack:
    """One broker, both services, the writer and the reader."""

    broker: Broker
    producer: ServiceProcess
    consumer: ServiceProcess
    writer: NodeProcess
    reader: NodeProcess
    write: httpx.Client
    read: httpx.Client

    def topic(self, name: str, partitions: int = 1) -> str:
        answer = self.write.post("/api/v1/topics", json={"name": name, "partitions": partitions})
        assert answer.status_code == 201, answer.text
        return name

    def post(self, topic: str, *values: Any, **options: Any) -> list[dict[str, Any]]:
        """Write values as one batch; returns the results."""
        body = {"topic": topic, "messages": [{"value": one} for one in values], **options}
        answer = self.write.post("/api/v1/messages/batch", json=body)
        assert answer.status_code == 201, answer.text
        results: list[dict[str, Any]] = answer.json()["results"]
        return results

    def lag(self, group: str) -> int:
        """Messages that the group has not committed; -1 before its first commit."""
        answer = self.read.get(f"/api/v1/offsets/{group}")
        offsets = answer.json()["offsets"] if answer.is_success else []
        return sum(one["lag"] for one in offsets) if offsets else -1


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("node")
    with (
        running_broker(storage="memory", no_auto_create_topics=True) as broker,
        running_service(home, "producer-service", "--bootstrap", broker.bootstrap) as producer,
        running_service(home, "consumer-service", "--bootstrap", broker.bootstrap) as consumer,
        running_node(WRITER, home, PRODUCER_URL=producer.address) as writer,
        running_node(
            READER,
            home,
            CONSUMER_URL=consumer.address,
            SOCKET_COMMIT_INTERVAL_MS=50,
            SOCKET_BUFFER_BYTES=65_536,
        ) as reader,
        http_client(writer) as write,
        http_client(reader) as read,
    ):
        found = Stack(broker, producer, consumer, writer, reader, write, read)
        for client in (write, read):
            until(lambda client=client: client.get("/health").is_success, "a service is not ready")  # type: ignore[misc]
        yield found


def read_all(broker: Broker, topic: str) -> list[Any]:
    with Consumer(topic, bootstrap=broker.bootstrap, until_end=True) as consumer:
        return list(consumer)


def test_the_seeds_message_arrives_at_a_socket(stack: Stack) -> None:
    topic = stack.topic("user-events", 3)
    value = {"action": "login", "timestamp": "2024-01-20T10:00:00Z"}
    body = {"topic": topic, "key": "user-123", "value": value, "headers": {"source": "web-app"}}
    with SocketReader(stack.reader, topics=topic) as socket:
        socket.until("ready")
        answer = stack.write.post("/api/v1/messages", json=body)
        assert answer.status_code == 201
        message = socket.message()
    assert {name: message[name] for name in body} == body
    assert {name: message[name] for name in ("partition", "offset", "timestamp")} == {
        name: answer.json()[name] for name in ("partition", "offset", "timestamp")
    }
    topics = stack.write.get("/api/v1/topics").json()["topics"]
    assert {"name": topic, "partitions": 3, "replicas": 1} in topics


def test_values_in_the_log_and_formats(stack: Stack) -> None:
    topic = stack.topic("formats")
    stack.post(topic, {"a": 1}, None)
    stack.post(topic, "text", valueFormat="string", ackLevel="leader", delivery="at-most-once")
    stack.post(topic, "/wA=", valueFormat="base64", partitioner="round-robin")
    stack.post(topic, {"item": "tea"}, valueFormat="avro", avroSchema=AVRO)
    stack.post(topic, 1, 2, delivery="exactly-once")
    values = [one.value for one in read_all(stack.broker, topic)]
    assert values == [b'{"a":1}', None, b"text", b"\xff\0", b"\x06tea", b"1", b"2"]
    query = {"topics": topic, "from": "earliest"}
    with SocketReader(stack.reader, **query) as socket:
        found = [socket.message() for _ in range(5)]
    assert [one["value"] for one in found[:2]] == [{"a": 1}, None]
    assert found[2]["raw"] == "dGV4dA==" and "not JSON" in found[2]["error"]
    as_avro = {**query, "format": "avro", "avroSchema": json.dumps(AVRO), "positions": "0:4"}
    with SocketReader(stack.reader, **as_avro) as socket:
        assert socket.message()["value"] == {"item": "tea"}


def test_bad_requests_of_the_writer(stack: Stack) -> None:
    topic = stack.topic("refusals")

    def reason(**body: Any) -> tuple[int, str]:
        answer = stack.write.post("/api/v1/messages", **body)
        return answer.status_code, answer.json()["error"]["reason"]

    as_json = {"content-type": "application/json"}
    assert reason(json={"topic": "nowhere", "value": 1}) == (404, "NOT_FOUND")
    assert reason(json={"topic": topic, "value": 1, "partition": 7}) == (404, "NOT_FOUND")
    assert reason(json={"topic": topic, "value": 1, "ackLevel": "two"}) == (400, "INVALID_REQUEST")
    assert reason(json={"topic": topic, "value": "x" * 2_000_000}) == (413, "RECORD_TOO_LARGE")
    assert reason(content=b"x" * 5_000_000, headers=as_json) == (413, "BODY_TOO_LARGE")
    assert reason(content=b'{"topic":', headers=as_json) == (400, "MALFORMED_JSON")
    assert reason(content=b"topic=t") == (415, "UNSUPPORTED_MEDIA_TYPE")
    bad_avro = {"topic": topic, "value": {"item": 1}, "valueFormat": "avro", "avroSchema": AVRO}
    assert reason(json=bad_avro) == (400, "SERIALIZATION_FAILED")
    assert stack.write.post("/api/v1/topics", json={"name": topic}).status_code == 409
    assert httpx.get(f"{stack.writer.url}/api/v1/topics", trust_env=False).status_code == 401
    mixed = {"topic": topic, "messages": [{"value": 1}, {"value": 2, "partition": 7}]}
    answer = stack.write.post("/api/v1/messages/batch", json=mixed)
    assert answer.status_code == 207 and answer.json()["failedCount"] == 1
    assert [one.value for one in read_all(stack.broker, topic)] == [b"1"]


def test_bad_requests_of_the_reader(stack: Stack) -> None:
    def refused(headers: dict[str, str], query: str) -> int:
        with pytest.raises(InvalidStatus) as caught:
            address = f"{stack.reader.ws_url}/api/v1/stream?{query}"
            with connect(address, additional_headers=headers, proxy=None):
                pass
        return caught.value.response.status_code

    topic = stack.topic("reader-refusals")
    assert refused({}, f"topics={topic}") == 401
    assert refused({**BEARER, "Origin": "http://elsewhere.example"}, f"topics={topic}") == 403
    assert refused(BEARER, "topics=nowhere") == 404
    for wrong in ("", "topics=", "topics=a b", f"topics={topic}&from=middle", f"topics={topic}&format=avro"):
        assert refused(BEARER, wrong) == 400
    with SocketReader(stack.reader, topics=topic) as socket, pytest.raises(ConnectionClosed) as closed:
        socket.socket.send("nonsense")
        while True:
            socket.read()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
    assert stack.read.post("/api/v1/subscriptions", json={"topics": ["nowhere"]}).status_code == 404
    assert stack.read.post("/api/v1/subscriptions", json={"topics": []}).status_code == 400
    assert stack.read.get("/api/v1/subscriptions/none/messages").status_code == 404


def test_subscriptions_over_rest(stack: Stack) -> None:
    topic = stack.topic("polled", 2)
    stack.post(topic, *range(10))
    body = {"topics": [topic], "groupId": "polled", "fromBeginning": True, "autoCommit": False}
    created = stack.read.post("/api/v1/subscriptions", json=body)
    assert created.status_code == 201
    path = f"/api/v1/subscriptions/{created.json()['id']}"
    found: list[Any] = []
    while len(found) < 10:
        found += stack.read.get(f"{path}/messages", params={"max": 4, "waitMs": 5_000}).json()["messages"]
    assert sorted(one["value"] for one in found) == list(range(10))
    last = {one["partition"]: one["offset"] for one in found}
    offsets = [{"topic": topic, "partition": key, "offset": value} for key, value in last.items()]
    assert stack.read.post(f"{path}/offsets", json={"offsets": offsets}).status_code == 200
    assert stack.lag("polled") == 0
    foreign = {"offsets": [{"topic": topic, "partition": 9, "offset": 1}]}
    assert stack.read.post(f"{path}/offsets", json=foreign).status_code == 409
    assert stack.read.delete(path).status_code == 204
    assert stack.read.get(path).status_code == 404
    back = {"offsets": [{"topic": topic, "partition": key, "offset": 0} for key in (0, 1)]}
    until(lambda: stack.read.put("/api/v1/offsets/polled", json=back).is_success, "the group has members")
    assert stack.lag("polled") == 10
    groups = stack.read.get("/api/v1/offsets").json()["groups"]
    assert "polled" in {one["group"] for one in groups}


def test_sockets_of_a_group_share_and_commit(stack: Stack) -> None:
    topic = stack.topic("shared", 2)
    query = {"topics": topic, "group": "shared", "from": "earliest"}
    with SocketReader(stack.reader, **query) as first:
        assert len(first.until("assigned")["partitions"]) == 2
        stack.post(topic, *range(20), partitioner="round-robin")
        assert sorted(first.values(20)) == list(range(20))
        until(lambda: stack.lag("shared") == 0, "the group did not commit")
    with SocketReader(stack.reader, **query) as second:
        stack.post(topic, 20)
        assert second.values(1) == [20]


def test_what_a_client_did_not_acknowledge_is_delivered_again(stack: Stack) -> None:
    topic = stack.topic("unacked")
    stack.post(topic, *range(10))
    query = {"topics": topic, "group": "unacked", "from": "earliest", "ack": "client"}
    with SocketReader(stack.reader, **query) as first:
        assert first.values(4) == [0, 1, 2, 3]
        first.acknowledges = False
        assert first.values(6) == [4, 5, 6, 7, 8, 9]
        until(lambda: stack.lag("unacked") == 6, "acknowledged messages are not committed")
    with SocketReader(stack.reader, **query) as second:
        assert second.values(6) == [4, 5, 6, 7, 8, 9]


def test_a_slow_socket_delays_nobody_and_misses_nothing(stack: Stack) -> None:
    topic = stack.topic("slow")
    count, padding = 1_500, "x" * 16_000
    with SocketReader(stack.reader, topics=topic) as slow, SocketReader(stack.reader, topics=topic) as quick:
        slow.until("ready")
        quick.until("ready")
        with Producer(bootstrap=stack.broker.bootstrap) as producer:
            for number in range(count):
                producer.send(topic, json.dumps([number, padding]))
        assert [one[0] for one in quick.values(count)] == list(range(count))
        assert [one[0] for one in slow.values(count)] == list(range(count))
        stack.post(topic, ["live"])
        assert slow.values(1) == quick.values(1) == [["live"]]


def test_a_slow_member_keeps_its_messages_for_the_next(stack: Stack) -> None:
    topic = stack.topic("slow-member", 2)
    query = {"topics": topic, "group": "slow-member", "from": "earliest"}
    count = 400
    with SocketReader(stack.reader, **query, ack="client") as quick:
        with SocketReader(stack.reader, **query, ack="client") as stalled:
            stalled.until("assigned")
            while len(assigned := quick.until("assigned")["partitions"]) != 1:
                continue
            own = assigned[0]["partition"]
            with Producer(bootstrap=stack.broker.bootstrap) as producer:
                for number in range(count):
                    producer.send(topic, json.dumps(number), partition=number % 2)
            assert quick.until_values(range(own, count, 2))
        assert quick.until_values(range(1 - own, count, 2))


def test_many_sockets_miss_nothing(stack: Stack) -> None:
    topic = stack.topic("many")
    wanted = list(range(30))

    async def read(ready: asyncio.Semaphore) -> list[Any]:
        address = f"{stack.reader.ws_url}/api/v1/stream?topics={topic}"
        async with connect_async(address, additional_headers=BEARER, proxy=None, open_timeout=60) as socket:
            found: list[Any] = []
            while len(found) < len(wanted):
                frame = json.loads(await socket.recv())
                if frame["type"] == "ready":
                    ready.release()
                elif frame["type"] == "message":
                    found.append(frame["value"])
            return found

    async def run() -> list[list[Any]]:
        ready = asyncio.Semaphore(0)
        readers = [asyncio.ensure_future(read(ready)) for _ in range(SOCKETS)]
        for _ in range(SOCKETS):
            await ready.acquire()
        await asyncio.to_thread(stack.post, topic, *wanted)
        return await asyncio.gather(*readers)

    async def bounded() -> list[list[Any]]:
        return await asyncio.wait_for(run(), ANSWER_S_MAX)

    assert asyncio.run(bounded()) == [wanted] * SOCKETS


def test_back_pressure(stack: Stack, tmp_path: Path) -> None:
    """The producer service is gone: what waits is bounded, refusals come at once, what waited is written later."""
    topic = stack.topic("pressure")
    settings = {"PRODUCER_URL": stack.producer.address, "PENDING_MESSAGES_MAX": 5}
    with running_node(WRITER, tmp_path, **settings) as writer:
        stack.producer.kill()
        try:

            async def flood() -> list[httpx.Response]:
                options = {
                    "base_url": writer.url,
                    "headers": BEARER,
                    "timeout": ANSWER_S_MAX,
                    "trust_env": False,
                }
                async with httpx.AsyncClient(**options) as client:  # type: ignore[arg-type]
                    posts = [
                        asyncio.ensure_future(
                            client.post("/api/v1/messages", json={"topic": topic, "value": number})
                        )
                        for number in range(10)
                    ]
                    while sum(one.done() for one in posts) < 5:
                        await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED, timeout=1)
                        posts.sort(key=lambda one: one.done())
                    assert (await client.get("/health/ready")).status_code == 503
                    await asyncio.to_thread(stack.producer.start)
                    return await asyncio.gather(*posts)

            answers = asyncio.run(flood())
        finally:
            if not stack.producer.is_running:
                stack.producer.start()
        refused = [one for one in answers if one.status_code == 429]
        assert len(refused) == 5
        assert {one.headers["retry-after"] for one in refused} == {"1"}
        written = [json.loads(one.request.content)["value"] for one in answers if one.status_code == 201]
        assert sorted(int(one.value) for one in read_all(stack.broker, topic)) == sorted(written)
        assert len(written) == 5
        assert writer.stop() == 0


def test_dead_letters_and_commits_of_the_handler(stack: Stack, tmp_path: Path) -> None:
    topic = stack.topic("handled")
    handler, out = tmp_path / "handler.mjs", tmp_path / "handled.txt"
    handler.write_text(
        "import { appendFileSync } from 'node:fs';\n"
        "export default async ({ value }) => {\n"
        "  if (value === 'poison') throw new Error('cannot handle it');\n"
        f"  appendFileSync({json.dumps(str(out))}, `${{value}}\\n`);\n"
        "};\n"
    )
    stack.post(topic, "a", "poison", "b")
    stack.post(topic, "{not json", valueFormat="string")
    stack.post(topic, "c")
    settings = {
        "CONSUMER_URL": stack.consumer.address,
        "PRODUCER_URL": stack.producer.address,
        "TOPICS": topic,
        "GROUP_ID": "handled",
        "FROM_BEGINNING": True,
        "AUTO_COMMIT": False,
        "MESSAGE_HANDLER": handler,
        "RETRY_BACKOFF_MS": 1,
    }
    with running_node(READER, tmp_path, **settings) as reader:
        until(lambda: stack.lag("handled") == 0, "the handler did not commit")
        assert out.read_text().split() == ["a", "b", "c"]
        letters = read_all(stack.broker, f"{topic}.dlq")
        assert [one.value for one in letters] == [b'"poison"', b"{not json"]
        causes = [dict(one.headers) for one in letters]
        assert [one["penstock.dead.offset"] for one in causes] == [b"1", b"3"]
        assert causes[0]["penstock.dead.error"] == b"cannot handle it"
        assert reader.stop() == 0


def test_services_end_cleanly_with_sockets_open(stack: Stack, tmp_path: Path) -> None:
    topic = stack.topic("ending")
    with running_node(READER, tmp_path, CONSUMER_URL=stack.consumer.address) as reader:
        with (
            SocketReader(reader, topics=topic, group="ending") as member,
            SocketReader(reader, topics=topic) as every,
        ):
            member.until("assigned")
            every.until("ready")
            assert reader.stop() == 0
            for socket in (member, every):
                with pytest.raises(ConnectionClosed) as closed:
                    while True:
                        socket.read()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
        assert not reader.ready_path.exists()
    with Admin(bootstrap=stack.broker.bootstrap) as admin:
        until(lambda: not admin.describe_group("ending").members, "the member did not leave its group")


@pytest.mark.parametrize("client", [WRITER, READER])
def test_wrong_settings_end_with_all_errors(client: str, tmp_path: Path) -> None:
    words = r"cannot start: Invalid settings: REQUEST_TIMEOUT_MS .*; LOG_LEVEL .*"
    wrong = {"REQUEST_TIMEOUT_MS": "soon", "LOG_LEVEL": "loud"}
    with pytest.raises(BrokerDied, match=words), running_node(client, tmp_path, **wrong):
        pass
    is_open = {"HOST": "0.0.0.0", "AUTH_TOKENS": ""}
    with pytest.raises(BrokerDied, match="AUTH_TOKENS is empty"), running_node(client, tmp_path, **is_open):
        pass
