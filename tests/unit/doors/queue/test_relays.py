"""Members and calls that reach another broker than the one that coordinates their subscription."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from cluster_doors import PORTS, DoorNodes, behind_doors
from cluster_nodes import until
from penstock.client.errors import ClientError
from penstock.client.queue.async_broker_client import AsyncBrokerClient
from penstock.client.queue.session import Message
from penstock.core.session import broker_principal
from penstock.doors.queue.membership import WAITING_BYTES_MAX
from penstock.node.topic_creation import NewTopic, ReplicaAssignment
from penstock.wire.link.handshake import NONCE_BYTES, LinkIdentity, LinkInitiator
from penstock.wire.queue.frames import Frame, FrameStream, MessageType, encode
from subscription_node import publish

REMOTE = 2
HELD_MAX = 40
"""Messages that may be on their way to a client that does not read: two brokers and two connections hold some."""


def client_of(broker_id: int, name: str = "reader") -> AsyncBrokerClient:
    return AsyncBrokerClient(f"node-{broker_id}", PORTS["queue"], name)


async def send(nodes: DoorNodes, *values: bytes, topic: str = "t") -> None:
    """Messages to the only partition of a topic, at its leader."""
    leader = nodes.placed(next(iter(nodes.brokers)), topic)[0].leader
    await nodes.spawn(f"node-{leader}", publish(nodes.brokers[leader], *values, topic=topic))


async def stage(nodes: DoorNodes, home: int = REMOTE, leader: int = REMOTE) -> str:
    """A topic of one partition that a broker leads, and the name of a subscription that a broker will coordinate."""
    await nodes.converged()
    new = NewTopic("t", assignments=[ReplicaAssignment(0, [leader])])
    await nodes.spawn("node-1", nodes.brokers[1].create_topic(new))
    await nodes.open_subscriptions()
    return nodes.subscription_at(home)


class Stream:
    """A client of the queue door that speaks frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._frames: list[Frame] = []
        self._split = FrameStream(1 << 24)

    @classmethod
    async def connect(cls, broker_id: int) -> Stream:
        return cls(*await asyncio.open_connection(f"node-{broker_id}", PORTS["queue"]))

    def send(self, kind: MessageType, *properties: str, sequence: int = -1, body: bytes = b"") -> None:
        pairs = tuple((name, value) for name, _, value in (one.partition("=") for one in properties))
        self.writer.write(encode(Frame(kind, sequence, 0, pairs, body)))

    async def read(self) -> Frame | None:
        """The next frame; None at the end of the connection."""
        while not self._frames:
            content = await self._reader.read(1 << 16)
            if not content:
                return None
            self._frames += self._split.feed(content)
        return self._frames.pop(0)

    async def ask(self, kind: MessageType, *properties: str, **more: Any) -> dict[str, str]:
        self.send(kind, *properties, **more)
        frame = await self.read()
        assert frame is not None, "the connection has ended"
        return dict(frame.properties)


@pytest.mark.parametrize("entry", [1, 2, 3])
def test_every_call_works_on_every_broker(entry: int) -> None:
    async def play(nodes: DoorNodes) -> None:
        name = await stage(nodes)
        other = nodes.subscription_at(3)
        got: list[Message] = []

        async def talk() -> None:
            async with client_of(entry) as client:
                assert await client.create_subscription(name, "t") is True
                assert await client.create_subscription(name, "t") is False
                await client.create_subscription(other, "t")
                listed = [one["name"] for one in await client.list_subscriptions()]
                assert listed == sorted([name, other])
                with pytest.raises(ClientError, match="no subscription"):
                    await client.describe_subscription(nodes.subscription_at(REMOTE, not_named=name))
                await client.subscribe_to_subscription(name, got.append)
                await send(nodes, b"a", b"b", b"c")
                await until(lambda: len(got) == 3)
                await until_settled(client, name, 3)
                found = await client.describe_subscription(name)
                assert [one["id"].rpartition("-")[0] for one in found["members"]] == ["reader"]
                await client.unsubscribe_from_subscription(name)
                assert (await client.describe_subscription(name))["members"] == []
                assert await client.redrive(name) == 0
                await client.delete_subscription(name)
                assert [one["name"] for one in await client.list_subscriptions()] == [other]

        await nodes.spawn("client", talk())
        assert [(one.body, one.delivery) for one in got] == [(b"a", 1), (b"b", 1), (b"c", 1)]

    behind_doors(play)


async def until_settled(client: AsyncBrokerClient, name: str, offset: int) -> None:
    while (await client.describe_subscription(name))["partitions"][0]["settled_offset"] < offset:
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("seed", range(5))
def test_members_on_all_brokers_share_a_subscription_and_its_coordinator_may_die(seed: int) -> None:
    async def play(nodes: DoorNodes) -> None:
        name = await stage(nodes, home=3)
        handled: Counter[bytes] = Counter()
        clients = {entry: client_of(entry, f"reader-{entry}") for entry in (1, 2)}

        async def begin(entry: int) -> None:
            client = clients[entry]
            await client.connect()
            await client.create_subscription(name, "t")
            await client.subscribe_to_subscription(
                name, lambda message: handled.update([message.body]), window=2
            )

        for entry in clients:
            await nodes.spawn(f"client-{entry}", begin(entry))
        # The coordinator is not the topic's leader, or publishing would stop as well.
        sent = [b"%d" % number for number in range(30)]
        await send(nodes, *sent[:20])
        await until(lambda: len(handled) == 20)
        await asyncio.sleep(1)
        before = dict(handled)
        nodes.kill(3)
        nodes.expire(3)
        await asyncio.sleep(3)
        await nodes.start(3)
        await nodes.converged()
        await send(nodes, *sent[20:])
        await until(lambda: set(handled) == set(sent))
        assert {value: handled[value] for value in before} == before, "what was settled does not come again"
        for entry, client in clients.items():
            await nodes.spawn(f"client-{entry}", client.disconnect())

    behind_doors(play, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_lost_client_counts_as_delivered_and_a_lost_broker_does_not(seed: int) -> None:
    async def play(nodes: DoorNodes) -> None:
        name = await stage(nodes)

        async def hold(entry: int) -> Stream:
            stream = await Stream.connect(entry)
            await stream.ask(MessageType.CREATE_SUBSCRIPTION, f"@subscription={name}", "@topic=t")
            told = await stream.ask(MessageType.SUBSCRIBE, f"@subscription={name}")
            assert told["@status"] == "success", told
            return stream

        async def delivered(stream: Stream) -> tuple[bytes, str]:
            frame = await stream.read()
            assert frame is not None and frame.type is MessageType.DATA, frame
            return frame.body, dict(frame.properties)["@delivery"]

        await send(nodes, b"a")
        first = await nodes.spawn("client-1", hold(1))
        assert await nodes.spawn("client-1", delivered(first)) == (b"a", "1")
        nodes.kill(1)
        second = await nodes.spawn("client-3", hold(3))
        assert await nodes.spawn("client-3", delivered(second)) == (b"a", "1"), (
            "the broker died, not the client"
        )
        second.writer.transport.abort()
        third = await nodes.spawn("client-2", hold(REMOTE))
        assert await nodes.spawn("client-2", delivered(third)) == (b"a", "2"), "the client died"
        nodes.expire(1)

    behind_doors(play, seed=seed)


def test_a_stopping_broker_returns_the_messages_of_its_clients_uncounted() -> None:
    async def play(nodes: DoorNodes) -> None:
        name = await stage(nodes)
        await send(nodes, b"a")

        async def hold(entry: int) -> tuple[Stream, dict[str, str]]:
            stream = await Stream.connect(entry)
            await stream.ask(MessageType.CREATE_SUBSCRIPTION, f"@subscription={name}", "@topic=t")
            await stream.ask(MessageType.SUBSCRIBE, f"@subscription={name}")
            frame = await stream.read()
            assert frame is not None and frame.type is MessageType.DATA
            return stream, dict(frame.properties)

        stream, _ = await nodes.spawn("client-1", hold(1))
        await nodes.stop(1)
        last = await nodes.spawn("client-1", stream.read())
        assert last is not None and dict(last.properties)["@retriable"] == "true"
        _, told = await nodes.spawn("client-3", hold(3))
        assert told["@delivery"] == "1"

    behind_doors(play)


def test_a_client_that_does_not_read_leaves_the_messages_to_others() -> None:
    async def play(nodes: DoorNodes) -> None:
        name = await stage(nodes)
        got: list[bytes] = []

        async def silent() -> Stream:
            stream = await Stream.connect(1)
            await stream.ask(MessageType.CREATE_SUBSCRIPTION, f"@subscription={name}", "@topic=t")
            await stream.ask(MessageType.SUBSCRIBE, f"@subscription={name}", "@window=1000")
            stream.writer.transport.pause_reading()  # type: ignore[attr-defined]
            return stream

        slow = await nodes.spawn("client-1", silent())
        client = client_of(3)

        async def quick() -> None:
            await client.connect()
            await client.subscribe_to_subscription(name, lambda message: got.append(message.body), window=50)

        await nodes.spawn("client-3", quick())
        count, large = 150, 200_000
        for number in range(count):
            await send(nodes, b"%03d" % number + bytes(large))
        await until(lambda: len(got) > count - HELD_MAX)
        (connection,) = (one for one in nodes.doors[1].gate.connections if one.dialect_name == "queue")
        assert connection.waiting_bytes < WAITING_BYTES_MAX + (1 << 20), "it is not read for"
        await nodes.spawn("client-3", client.disconnect())
        slow.writer.transport.abort()

    behind_doors(play)


def test_pipelined_acknowledgements_are_confirmed_and_rejected_by_the_coordinator() -> None:
    async def play(nodes: DoorNodes) -> None:
        name = await stage(nodes)

        async def talk() -> None:
            stream = await Stream.connect(1)
            await stream.ask(MessageType.CREATE_SUBSCRIPTION, f"@subscription={name}", "@topic=t")
            told = await stream.ask(MessageType.SUBSCRIBE, f"@subscription={name}", "@request=7")
            assert told["@request"] == "7" and told["@topic"] == "t"
            await send(nodes, b"a", b"b")
            assert [(await stream.read()).body for _ in range(2)] == [b"a", b"b"]  # type: ignore[union-attr]
            told = await stream.ask(MessageType.ACK, f"@subscription={name}", "@request=8", sequence=0)
            assert (told["@status"], told["@request"]) == ("success", "8")
            told = await stream.ask(MessageType.ACK, f"@subscription={name}", sequence=0)
            assert told["@code"] == "NOT_HELD" and told["@subscription"] == name
            told = await stream.ask(MessageType.ACK, f"@subscription={name}", "@request=9", sequence=0)
            assert (told["@code"], told["@request"]) == ("NOT_HELD", "9")
            told = await stream.ask(
                MessageType.ACK, f"@subscription={name}", "@outcome=nothing", "@request=1", sequence=1
            )
            assert told["@code"] == "INVALID_REQUEST"
            stream.send(MessageType.ACK, f"@subscription={name}", sequence=1)
            told = await stream.ask(MessageType.UNSUBSCRIBE, f"@subscription={name}")
            assert told["@status"] == "success", told
            told = await stream.ask(MessageType.SUBSCRIBE, f"@subscription={name}", "@window=0")
            assert told["@code"] == "INVALID_REQUEST" and "window" in told["@error"]

        await nodes.spawn("client", talk())

    behind_doors(play)


def test_a_subscription_without_a_coordinator_is_refused_for_now_and_others_go_on() -> None:
    async def play(nodes: DoorNodes) -> None:
        name, own = await stage(nodes), nodes.subscription_at(1)
        nodes.kill(REMOTE)
        nodes.expire(REMOTE)
        await asyncio.sleep(2)

        async def talk() -> None:
            stream = await Stream.connect(1)
            told = await stream.ask(MessageType.CREATE_SUBSCRIPTION, f"@subscription={name}", "@topic=t")
            assert (told["@code"], told["@retriable"]) == ("TRY_AGAIN", "true"), told
            assert "no broker coordinates" in told["@error"]
            listed = await stream.ask(MessageType.LIST_SUBSCRIPTIONS)
            assert "?" in listed["@missing"]
            if nodes.placed(1, "t")[0].leader != -1:
                told = await stream.ask(MessageType.CREATE_SUBSCRIPTION, f"@subscription={own}", "@topic=t")
                assert told["@status"] == "success", told

        await nodes.spawn("client", talk())
        await nodes.start(REMOTE)

    behind_doors(play)


def identity(nodes: DoorNodes, *, link_key: bytes | None = None) -> LinkIdentity:
    broker = nodes.brokers[1]
    key = broker.catalog.cluster.link_key
    assert key is not None
    return LinkIdentity(1, broker.identity.cluster_id, link_key or key)


@pytest.mark.parametrize("fault", ["key", "principal", "again", "garbage"])
def test_nobody_but_a_broker_is_taken_for_one(fault: str) -> None:
    async def play(nodes: DoorNodes) -> None:
        key = bytes(32) if fault == "key" else None
        initiator = LinkInitiator(identity(nodes, link_key=key), REMOTE, bytes(NONCE_BYTES))

        async def talk() -> None:
            stream = await Stream.connect(REMOTE)
            hello = b"\0" * 40 if fault == "garbage" else initiator.hello
            stream.send(MessageType.LINK, "@request=1", body=hello)
            challenge = await stream.read()
            assert challenge is not None
            if fault == "garbage":
                assert dict(challenge.properties)["@status"] == "error"
                assert await stream.read() is None
                return
            if fault == "key":
                proof = bytes(32)  # the key it has cannot even verify the challenge
            else:
                proof = initiator.answer(challenge.body)
            principal = broker_principal(3) if fault == "principal" else "User:alice"
            introduction = (f"@principal={principal}", "@address=10.1.1.1", "@request=2")
            told = await stream.ask(MessageType.LINK, *introduction, body=proof)
            if fault == "again":
                assert told["@status"] == "success"
                told = await stream.ask(MessageType.LINK, "@request=3", body=initiator.hello)
            assert told["@status"] == "error", told
            assert await stream.read() is None, "there is no second attempt"

        await nodes.spawn("client", talk())

    behind_doors(play)


def test_a_relayed_request_is_sent_back_and_never_passed_on() -> None:
    async def play(nodes: DoorNodes) -> None:
        await stage(nodes)
        name, own = nodes.subscription_at(3), nodes.subscription_at(REMOTE)
        initiator = LinkInitiator(identity(nodes), REMOTE, bytes(NONCE_BYTES))

        async def talk() -> None:
            stream = await Stream.connect(REMOTE)
            stream.send(MessageType.LINK, "@request=1", body=initiator.hello)
            challenge = await stream.read()
            assert challenge is not None
            proof = initiator.answer(challenge.body)
            introduction = ("@principal=User:alice", "@address=10.1.1.1", "@client=alice")
            assert (await stream.ask(MessageType.LINK, *introduction, body=proof))["@status"] == "success"
            told = await stream.ask(MessageType.CREATE_SUBSCRIPTION, f"@subscription={name}", "@topic=t")
            assert (told["@code"], told["@retriable"]) == ("MOVED", "true")
            told = await stream.ask(MessageType.CREATE_SUBSCRIPTION, f"@subscription={own}", "@topic=t")
            assert told["@status"] == "success"
            stream.send(MessageType.LIST_SUBSCRIPTIONS)
            listed = await stream.read()
            assert listed is not None and f'"{own}"'.encode() in listed.body
            await stream.ask(MessageType.SUBSCRIBE, f"@subscription={own}")
            found = await stream.ask(MessageType.HEARTBEAT, "@request=2")
            assert found["@request"] == "2"

        await nodes.spawn("client", talk())
        assert [one.name for one in nodes.brokers[3].subscriptions.list()] == []
        (connection,) = (one for one in nodes.doors[REMOTE].gate.connections if one.dialect_name == "queue")
        session = connection.session
        assert (session.principal, session.address, session.client_id) == ("User:alice", "10.1.1.1", "alice")
        members = nodes.brokers[REMOTE].subscriptions.find(own).shard.book.members(own)
        assert [one.rpartition("-")[0] for one in members.windows] == ["alice"]

    behind_doors(play)


def test_a_client_cannot_report_a_lost_client() -> None:
    async def play(nodes: DoorNodes) -> None:
        async def talk() -> None:
            stream = await Stream.connect(1)
            told = await stream.ask(MessageType.LOST)
            assert told["@code"] == "MALFORMED" and "unknown message type 14" in told["@error"]
            assert "LINK" not in told["@error"]
            assert await stream.read() is None

        await nodes.spawn("client", talk())

    behind_doors(play, brokers=1)
