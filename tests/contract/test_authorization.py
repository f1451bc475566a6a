"""An authorizer that refuses everything, and every call of every door: none gets through.

The calls are those of the doors' own tables, so that a new one that asks for no permission fails here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from http_client import HttpClient
from in_process_client import Caller, Line, receive
from kafka_requests import Names, request_of
from manual_ports import turns
from memory_broker import SETTINGS, until, with_broker
from penstock.apps.doorways import Doorways
from penstock.core.access import Operation, Resource
from penstock.core.model import NewRecord, TopicPartition
from penstock.core.records.build import build_batch
from penstock.core.session import ANONYMOUS, Session
from penstock.node.broker import Broker
from penstock.node.coordinators.committed import NO_RETENTION, Committer, NewOffset
from penstock.node.coordinators.subscriptions import SubscriptionRequest
from penstock.wire.kafka import API, ApiKey, ErrorCode, messages
from penstock.wire.queue.frames import MessageType
from penstock.wire.queue.request_properties import KNOWN
from penstock.wire.text.commands import NAMES
from queue_peer import Peer

TOPIC, GROUP, TRANSACTIONAL_ID, SUBSCRIPTION = "orders", "readers", "payments", "billing"
NAMES_THERE = Names(TOPIC, GROUP, TRANSACTIONAL_ID)
FORBIDDEN = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
EVERY_DOOR = {"queue_port": 0, "text_port": 0, "json_port": 0, "http_port": 0}


class Refusing:
    """Allows nothing, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Operation, Resource]] = []

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        assert session.principal == ANONYMOUS and session.address == "10.0.0.7", session
        self.asked.append((operation, resource))
        return False


class Stage:
    """A broker with something of everything, and its doors. `refuse` puts the authorizer in."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.doors = Doorways(broker)
        self.authorizer = Refusing()

    async def fill(self) -> None:
        broker = self.broker
        await broker.auto_create_topic(TOPIC)
        partition = broker.partition(TOPIC, 0)
        partition.append(memoryview(build_batch([NewRecord(None, b"1")], broker.runtime.clock.now_ms())))
        await partition.sync_dirty()
        await broker.group_coordinator.open()
        answers: list[Any] = []
        offset = NewOffset(TopicPartition(TOPIC, 0), 1, -1, "")
        broker.group_coordinator.committed.commit(GROUP, Committer(), [offset], NO_RETENTION, answers.append)
        await until(lambda: answers)
        await broker.transactions.init(TRANSACTIONAL_ID, 60_000, None)
        await broker.subscriptions.create(SubscriptionRequest(SUBSCRIPTION, TOPIC))

    def refuse(self) -> None:
        self.doors.waist.authorization.authorizer = self.authorizer

    def take_asked(self) -> list[tuple[Operation, Resource]]:
        asked, self.authorizer.asked = self.authorizer.asked, []
        return asked

    def state(self) -> Any:
        """All that calls could have changed."""
        broker = self.broker
        groups = broker.group_coordinator.groups
        return (
            broker.metadata_end,
            [(str(one), one.end_offset, one.start_offset) for one in broker.partitions()],
            [(one.group_id, one.state_name) for one in groups.list()],
            [one.name for one in broker.subscriptions.list()],
        )


def play(test: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def main(broker: Broker) -> None:
        stage = Stage(broker)
        await stage.fill()
        before = stage.state()
        await test(stage)
        assert stage.state() == before

    with_broker(main, replace(SETTINGS, **EVERY_DOOR))  # type: ignore[arg-type]


def change(test: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    """The same for tests that change something before the authorizer comes."""

    async def main(broker: Broker) -> None:
        stage = Stage(broker)
        await stage.fill()
        await test(stage)

    with_broker(main, replace(SETTINGS, **EVERY_DOOR))  # type: ignore[arg-type]


# -- Kafka

OPEN_CALLS = {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER}
"""What Kafka leaves open: clients cannot connect without it."""
AUTHENTICATION = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
"""How a client comes to have a name; nobody has a permission before."""

EMPTY_ANSWERS: dict[tuple[int, int], str] = {
    **{(ApiKey.LIST_GROUPS, version): "groups" for version in range(6)},
    **{(ApiKey.LIST_TRANSACTIONS, version): "transaction_states" for version in range(3)},
    (ApiKey.DESCRIBE_LOG_DIRS, 1): "results",
}
"""What leaves out all that the client may not know of, or has no place for an error."""


def codes(answer: Any) -> Iterator[ErrorCode]:
    """Every error in an answer."""
    if isinstance(answer, list):
        for one in answer:
            yield from codes(one)
    elif hasattr(type(answer), "__struct_fields__") or hasattr(type(answer), "__slots__"):
        names = getattr(type(answer), "__struct_fields__", None) or type(answer).__slots__
        for name in names:
            value = getattr(answer, name)
            if name.endswith("error_code"):
                yield ErrorCode(value)
            elif isinstance(value, list) or hasattr(type(value), "__struct_fields__"):
                yield from codes(value)


def kafka_calls() -> list[tuple[int, int]]:
    """Every call that the door serves, in its first and its last version; read from the door itself."""
    found: list[tuple[int, int]] = []

    async def read(broker: Broker) -> None:
        for key in sorted(Doorways(broker).kafka._dispatch._handlers.keys() - AUTHENTICATION):
            found.extend((key, version) for version in {API[key].version_min, API[key].version_max})

    with_broker(read)
    return found


@pytest.mark.parametrize(("api_key", "version"), kafka_calls(), ids=lambda one: str(one))
def test_kafka(api_key: int, version: int) -> None:
    async def test(stage: Stage) -> None:
        request = request_of(api_key, version, NAMES_THERE, stage.broker)
        stage.refuse()
        answer = await Caller(stage.doors).ask(api_key, version, request)
        asked = stage.take_asked()
        if api_key in OPEN_CALLS - {ApiKey.DESCRIBE_CLUSTER}:
            return
        assert asked, "no permission was asked for"
        if api_key == ApiKey.DESCRIBE_CLUSTER:
            assert answer.cluster_authorized_operations == 0
        elif (api_key, version) in EMPTY_ANSWERS:
            assert getattr(answer, EMPTY_ANSWERS[api_key, version]) == []
        else:
            found = set(codes(answer))
            assert found & FORBIDDEN, answer
            assert found <= FORBIDDEN | {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}, answer

    play(test)


def test_kafka_tells_of_no_topic_where_none_is_named() -> None:
    async def test(stage: Stage) -> None:
        stage.refuse()
        caller = Caller(stage.doors)
        answer = await caller.ask(ApiKey.METADATA, 12, messages.MetadataRequest(topics=None))
        assert answer.topics == []
        body = messages.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=10, cursor=None)
        assert (await caller.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)).topics == []
        new = messages.MetadataRequest.MetadataRequestTopic(name="new", topic_id=bytes(16))
        wanted = messages.MetadataRequest(topics=[new], allow_auto_topic_creation=True)
        (topic,) = (await caller.ask(ApiKey.METADATA, 12, wanted)).topics
        assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    play(test)


# -- HTTP

OPEN_ROUTES = {"healthz", "readyz", "openapi"}
"""What watches a broker has no identity; the description is the same everywhere."""
LISTING_ROUTES = {"list_topics": "topics", "list_groups": "groups", "list_subscriptions": "subscriptions"}
BODIES: dict[str, Any] = {
    "elect": {"partitions": [{"topic": TOPIC}]},
    "reassign": {"reassignments": [{"topic": TOPIC, "replicas": [1]}]},
    "publish": {"topic": TOPIC, "value": "2"},
    "publish_batch": {"topic": TOPIC, "messages": [{"value": "2"}]},
    "create_topic": {"name": "new"},
    "change_topic": {"partitions": 3},
    "scrub": {},
    "commit_offsets": {"offsets": [{"topic": TOPIC, "offset": 0}]},
    "create_subscription": {"name": "new", "topic": TOPIC},
    "redrive": {},
}
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def test_http() -> None:
    async def test(stage: Stage) -> None:
        stage.refuse()
        door: Any = stage.doors.listeners["http"].dialect
        for route in door.routes:
            path = route.path.format(
                topic=TOPIC, partition=0, group=GROUP, broker=1, subscription=SUBSCRIPTION
            )
            client = HttpClient(stage.doors)
            upgrade = UPGRADE if route.handler is None else {}
            answer = await client.ask(route.method, path, BODIES.get(route.call), **upgrade)
            asked = stage.take_asked()
            await client.hang_up()
            if route.call in OPEN_ROUTES:
                assert answer.status == 200, route
            elif route.call in LISTING_ROUTES:
                assert asked and answer.json == {LISTING_ROUTES[route.call]: []}, route
            else:
                assert asked and answer.status == 403, (route, answer)

    play(test)


# -- JSON

COMMANDS: dict[str, dict[str, Any]] = {
    "PRODUCE": {"topic": TOPIC, "message": "2"},
    "CONSUME": {"topic": TOPIC},
    "COMMIT": {"group": GROUP, "offsets": [{"topic": TOPIC, "offset": 0}]},
    "OFFSETS": {"group": GROUP, "topics": [TOPIC]},
    "CREATE_TOPIC": {"topic": "new"},
    "LIST_TOPICS": {},
    "METADATA": {"topic": TOPIC},
    "JOIN": {"group": GROUP, "topics": [TOPIC]},
    "HEARTBEAT": {"group": GROUP, "member": "m", "epoch": 1, "assignment": []},
    "LEAVE": {"group": GROUP, "member": "m"},
}


class JsonClient:
    """One connection to the JSON door."""

    def __init__(self, doors: Doorways) -> None:
        self.connection = doors.listeners["json"].connect()
        self.line = Line(self.connection)
        self.connection.connection_made(self.line)  # type: ignore[arg-type]

    async def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        body = json.dumps({"command": command, **fields}).encode()
        receive(self.connection, self.line, len(body).to_bytes(4, "big") + body)
        await until(lambda: len(self.line.sent) > 4)
        size = 4 + int.from_bytes(self.line.sent[:4], "big")
        answer: dict[str, Any] = json.loads(self.line.sent[4:size])
        del self.line.sent[:size]
        return answer


def test_json() -> None:
    async def test(stage: Stage) -> None:
        stage.refuse()
        door: Any = stage.doors.listeners["json"].dialect
        client = JsonClient(stage.doors)
        for command in door.handlers:
            answer = await client.ask(command, **COMMANDS[command])
            assert stage.take_asked(), command
            if command == "LIST_TOPICS":
                assert answer == {"ok": True, "topics": []}
            else:
                assert answer["error"] in {"TOPIC_FORBIDDEN", "GROUP_FORBIDDEN"}, (command, answer)
        assert (await client.ask("METADATA"))["topics"] == []

    play(test)


# -- text

LINES = {
    "PUB": b"PUB orders 1\r\n2",
    "FETCH": b"FETCH orders 0\r\n",
    "TOPICS": b"TOPICS\r\n",
    "HELP": b"HELP\r\n",
    "QUIT": b"QUIT\r\n",
}
OPEN_LINES = {"HELP", "QUIT"}
"""They touch nothing."""


def test_text() -> None:
    async def test(stage: Stage) -> None:
        stage.refuse()
        assert LINES.keys() == set(NAMES)
        for name in NAMES:
            connection = stage.doors.listeners["text"].connect()
            line = Line(connection)
            connection.connection_made(line)  # type: ignore[arg-type]
            receive(connection, line, LINES[name])
            await until(lambda line=line: line.sent)  # type: ignore[misc]
            asked = stage.take_asked()
            if name in OPEN_LINES:
                continue
            assert asked, name
            expected = b"TOPICS 0\r\n" if name == "TOPICS" else b"ERR topic-forbidden "
            assert bytes(line.sent).startswith(expected), (name, line.sent)
            line.close()
            await turns()

    play(test)


# -- queue

OPEN_REQUESTS = {MessageType.HEARTBEAT}
"""It says that the connection lives, and nothing else."""
SEATED = {MessageType.ACK, MessageType.UNSUBSCRIBE}
"""What only members can say."""
WORDS: dict[MessageType, tuple[str, ...]] = {
    MessageType.HEARTBEAT: (),
    MessageType.LIST_SUBSCRIPTIONS: (),
    MessageType.PUBLISH: ("@topic=orders",),
    MessageType.CREATE_TOPIC: ("@topic=new",),
    MessageType.CREATE_SUBSCRIPTION: ("@subscription=new", "@topic=orders"),
}


def test_queue() -> None:
    async def test(stage: Stage) -> None:
        stage.refuse()
        for kind in set(KNOWN) - SEATED:
            peer = Peer(stage.doors)
            words = WORDS.get(kind, (f"@subscription={SUBSCRIPTION}",))
            peer.send(kind, *words, sequence=0)
            (answer,) = await peer.read()
            asked = stage.take_asked()
            properties = dict(answer.properties)
            if kind is MessageType.LIST_SUBSCRIPTIONS:
                assert asked and answer.body == b"[]"
            elif kind not in OPEN_REQUESTS:
                assert asked and properties["@code"] == "FORBIDDEN", (kind, properties)
            peer.line.close()
            await turns()

    play(test)


@pytest.mark.parametrize("kind", sorted(SEATED))
def test_queue_members(kind: MessageType) -> None:
    """Members took their seats while they were allowed to."""

    async def test(stage: Stage) -> None:
        peer = Peer(stage.doors)
        await peer.subscribe(SUBSCRIPTION)
        await peer.read()
        stage.refuse()
        peer.send(kind, f"@subscription={SUBSCRIPTION}", sequence=0)
        (answer,) = await peer.read()
        assert dict(answer.properties)["@code"] == "FORBIDDEN"
        (progress,) = stage.broker.subscriptions.progress(SUBSCRIPTION)
        assert (progress.settled_offset, progress.held_count) == (0, 1)
        peer.line.close()
        await turns()

    change(test)


def test_an_acknowledgement_that_repeats_is_refused_as_well() -> None:
    """Acknowledgements are remembered as they lie in their frames; that must not pass by the authorizer."""

    async def test(stage: Stage) -> None:
        peer = Peer(stage.doors)
        await peer.subscribe(SUBSCRIPTION)
        await peer.read()
        peer.send(MessageType.ACK, f"@subscription={SUBSCRIPTION}", "@partition=0", sequence=0)
        await turns()
        stage.refuse()
        peer.send(MessageType.ACK, f"@subscription={SUBSCRIPTION}", "@partition=0", sequence=0)
        (answer,) = await peer.read()
        assert dict(answer.properties)["@code"] == "FORBIDDEN"
        peer.line.close()
        await turns()

    change(test)
