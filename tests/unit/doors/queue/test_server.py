"""The queue door on a broker in memory: requests, members, and what nobody should send."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from memory_broker import make_topic, until
from penstock.apps.doorways import Doorways
from penstock.core.model import Header
from penstock.node.broker import Broker
from penstock.node.replicas.committed_records import read_committed
from penstock.wire.queue.frames import Frame, MessageType, encode
from penstock.wire.queue.request_properties import KNOWN
from queue_peer import Peer, at_the_queue_door

M = MessageType


async def prepare(peer: Peer, *terms: str, count: int = 0) -> None:
    """A topic `t`, a subscription `s` to it, and some messages."""
    await peer.ask(M.CREATE_TOPIC, "@topic=t")
    await peer.ask(M.CREATE_SUBSCRIPTION, "@subscription=s", "@topic=t", *terms)
    for number in range(count):
        await peer.ask(M.PUBLISH, "@topic=t", body=b"%d" % number)


def test_what_is_published_is_a_record_like_any_other() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        await make_topic(broker, "t", 3)
        peer = Peer(doors)
        words = await peer.ask(
            M.PUBLISH, "@topic=t", "@partition=2", "@key=k", "a=1", "a=2", body=b"v", time_ms=5
        )
        assert words == {"@status": "success", "@partition": "2"}
        ((record,), *_) = read_committed(broker.partition("t", 2), 0, 1_000)
        assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 5)
        assert record.headers == (Header("a", b"1"), Header("a", b"2"))
        await peer.ask(M.PUBLISH, "@topic=t", "@partition=2", "@null=true")
        assert read_committed(broker.partition("t", 2), 1, 1_000)[0][0].value is None

    at_the_queue_door(talk)


def test_answers_come_in_the_order_of_requests_and_a_topic_is_there_for_what_follows() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer = Peer(doors)
        peer.send(M.CREATE_TOPIC, "@topic=t", "@request=1")
        for number in range(20):
            peer.send(M.PUBLISH, "@topic=t", f"@request={number + 2}", body=b"x")
        peer.send(M.CREATE_SUBSCRIPTION, "@subscription=s", "@topic=t", "@request=22")
        peer.send(M.SUBSCRIBE, "@subscription=s", "@request=23")
        answers = await peer.read(23)
        assert [dict(one.properties)["@request"] for one in answers] == [str(one + 1) for one in range(23)]
        assert [one.sequence for one in answers[1:21]] == list(range(20))
        assert [one.sequence for one in await peer.read(20)] == list(range(20))

    at_the_queue_door(talk, auto_create_topics=False)


def test_members_take_turns_and_settle() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        one, two = Peer(doors), Peer(doors)
        await prepare(one, count=5)
        await one.subscribe("s", "@window=1")
        assert [frame.body for frame in await one.rest()] == [b"0"]
        await two.subscribe("s", "@window=2")
        assert [frame.body for frame in await two.rest()] == [b"1", b"2"]
        one.send(M.ACK, "@subscription=s", sequence=0)
        assert [frame.body for frame in await one.rest()] == [b"3"]
        one.send(M.ACK, "@subscription=s", "@outcome=release", "@reason=no", sequence=3)
        two.send(M.ACK, "@subscription=s", "@outcome=renew", sequence=1)
        two.send(M.ACK, "@subscription=s", sequence=2)
        await until(lambda: one.line.sent and two.line.sent)
        frames = [*await one.rest(), *await two.rest()]
        assert sorted((frame.body, dict(frame.properties)["@delivery"]) for frame in frames) == [
            (b"3", "2"),
            (b"4", "1"),
        ]

    at_the_queue_door(talk)


def test_an_acknowledgement_is_answered_once_it_is_durable_if_it_asks_for_that() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer = Peer(doors)
        await prepare(peer, count=1)
        await peer.subscribe("s")
        await peer.read()
        words = await peer.ask(M.ACK, "@subscription=s", "@request=a", sequence=0)
        assert words == {"@status": "success", "@request": "a"}
        assert broker.subscriptions.progress("s")[0].settled_offset == 1
        assert await peer.refused(M.ACK, "@subscription=s", "@request=a", sequence=0) == (
            "NOT_HELD",
            "'s': the message at 0 is not held by this member",
        )

    at_the_queue_door(talk)


def test_the_same_words_again_count_for_each_message_and_only_while_the_seat_is_held() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer = Peer(doors)
        await prepare(peer, count=5)
        await peer.subscribe("s")
        await peer.read(5)
        for number in range(3):
            peer.send(M.ACK, "@subscription=s", sequence=number)
        await until(lambda: broker.subscriptions.progress("s")[0].settled_offset == 3)
        assert await peer.refused(M.ACK, "@subscription=s", sequence=1) == (
            "NOT_HELD",
            "'s': the message at 1 is not held by this member",
        )
        peer.send(M.ACK, "@subscription=s", sequence=3)
        await peer.ask(M.UNSUBSCRIBE, "@subscription=s")
        assert (await peer.refused(M.ACK, "@subscription=s", sequence=4))[0] == "INVALID_REQUEST"
        assert broker.subscriptions.progress("s")[0].settled_offset == 4
        await peer.subscribe("s")
        await peer.read()
        peer.send(M.ACK, "@subscription=s", sequence=4)
        await until(lambda: broker.subscriptions.progress("s")[0].settled_offset == 5)

    at_the_queue_door(talk)


def test_an_acknowledgement_does_not_overtake_a_request_before_it() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer = Peer(doors)
        await prepare(peer, count=2)
        await peer.subscribe("s")
        await peer.read(2)
        peer.send(M.ACK, "@subscription=s", sequence=0)
        peer.send(M.UNSUBSCRIBE, "@subscription=s")
        peer.send(M.ACK, "@subscription=s", sequence=1)
        left, refused = await peer.read(2)
        assert dict(left.properties)["@status"] == "success"
        assert dict(refused.properties)["@code"] == "INVALID_REQUEST" and refused.sequence == 1
        assert broker.subscriptions.progress("s")[0].settled_offset == 1

    at_the_queue_door(talk)


def test_a_member_that_leaves_gives_back_and_one_that_is_cut_off_is_counted() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        one, two, three = Peer(doors), Peer(doors), Peer(doors)
        await prepare(one, count=1)
        await one.subscribe("s")
        await one.read()
        assert (await one.ask(M.UNSUBSCRIBE, "@subscription=s"))["@status"] == "success"
        await two.subscribe("s")
        assert dict((await two.read())[0].properties)["@delivery"] == "1"
        two.line.close()
        await three.subscribe("s")
        assert dict((await three.read())[0].properties)["@delivery"] == "2"

    at_the_queue_door(talk)


def test_a_client_that_is_gone_before_it_is_a_member_is_none() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer, other = Peer(doors), Peer(doors)
        await prepare(peer, count=1)
        peer.send(M.SUBSCRIBE, "@subscription=s")
        peer.connection.close("before its request has had its turn")
        await other.subscribe("s")
        assert dict((await other.read())[0].properties)["@delivery"] == "1"
        assert [one["id"] for one in json.loads((await described(other)).body)["members"]] == ["member-2"]

    at_the_queue_door(talk)


def test_requests_are_timed() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer = Peer(doors)
        await prepare(peer, count=3)
        calls = broker.runtime.meters.door("queue").calls
        assert [sum(calls[name].counts) for name in ("PUBLISH", "CREATE_TOPIC", "ACK")] == [3, 1, 0]

    at_the_queue_door(talk)


def test_a_member_that_says_nothing_is_gone_and_one_that_beats_is_not() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        silent, alive = Peer(doors), Peer(doors)
        await prepare(silent)
        await silent.subscribe("s")
        await alive.subscribe("s")

        def beat() -> bool:
            alive.send(M.HEARTBEAT)
            return silent.line.was_aborted

        while not beat():
            await alive.rest()
        assert not alive.line.was_aborted
        assert [one["id"] for one in json.loads((await described(alive)).body)["members"]] == ["member-2"]

    at_the_queue_door(talk, subscription_heartbeat_ms=200)


async def described(peer: Peer) -> Frame:
    await peer.rest()
    peer.send(M.DESCRIBE_SUBSCRIPTION, "@subscription=s")
    (answer,) = await peer.read()
    return answer


def test_who_does_not_read_is_passed_over_until_it_does() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        publisher, slow, quick = Peer(doors), Peer(doors), Peer(doors)
        await prepare(publisher)
        await slow.subscribe("s", "@window=1000")
        slow.connection.pause_writing()
        for _ in range(12):
            await publisher.ask(M.PUBLISH, "@topic=t", body=bytes(300_000))
        await until(lambda: broker.subscriptions.progress("s")[0].held_count >= 4)
        held = broker.subscriptions.progress("s")[0].held_count
        assert held < 12, "not everything is put into the memory of a connection that does not read"
        await quick.subscribe("s", "@window=1000")
        assert len(await quick.read(12 - held)) == 12 - held
        slow.connection.resume_writing()
        await publisher.ask(M.PUBLISH, "@topic=t", body=b"next")
        assert len(await slow.read(held)) == held

    at_the_queue_door(talk)


def test_members_are_told_when_their_subscription_is_deleted() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        member, other = Peer(doors), Peer(doors)
        await prepare(member)
        await member.subscribe("s")
        assert (await other.ask(M.DELETE_SUBSCRIPTION, "@subscription=s"))["@status"] == "success"
        (told,) = await member.read()
        words = dict(told.properties)
        assert (told.type, told.sequence) == (M.ACK, -1)
        assert (words["@code"], words["@subscription"]) == ("UNKNOWN_SUBSCRIPTION", "s")
        assert (await member.refused(M.ACK, "@subscription=s", sequence=0))[0] == "INVALID_REQUEST"

    at_the_queue_door(talk)


def test_dead_letters_and_their_return() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer = Peer(doors)
        await prepare(peer, "@max_deliveries=1", count=1)
        await peer.subscribe("s")
        await peer.read()
        peer.send(M.ACK, "@subscription=s", "@outcome=release", "@reason=too hot", sequence=0)
        await until(lambda: broker.subscriptions.progress("s")[0].settled_offset == 1)
        ((letter,), *_) = read_committed(broker.partition("t.dlq", 0), 0, 1_000)
        story = {header.key: header.value for header in letter.headers}
        assert (letter.value, story["penstock.dead.error"]) == (b"0", b"too hot")
        peer.send(M.REDRIVE, "@subscription=s", "@request=r")
        frames = {one.type: one for one in await peer.read(2)}
        assert dict(frames[M.ACK].properties) == {"@status": "success", "@count": "1", "@request": "r"}
        assert (frames[M.DATA].body, frames[M.DATA].sequence) == (b"0", 1)

    at_the_queue_door(talk)


def test_subscriptions_are_listed_and_described() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer = Peer(doors)
        await prepare(peer, "@hold_ms=5000", "@max_deliveries=7", count=2)
        peer.send(M.LIST_SUBSCRIPTIONS)
        ((listed),) = json.loads((await peer.read())[0].body)
        assert (listed["name"], listed["topic"], listed["hold_ms"], listed["max_deliveries"]) == (
            "s",
            "t",
            5000,
            7,
        )
        found = json.loads((await described(peer)).body)
        assert found["partitions"][0] == {
            "partition": 0,
            "settled_offset": 0,
            "end_offset": 2,
            "unsettled_count": 2,
            "held_count": 0,
            "dying_count": 0,
        }
        assert (found["members"], found["dead_letter_topic"]) == ([], "t.dlq")

    at_the_queue_door(talk)


BAD: list[tuple[MessageType, tuple[str, ...], dict[str, Any], str, str]] = [
    (M.PUBLISH, (), {}, "INVALID_REQUEST", "PUBLISH needs @topic"),
    (M.PUBLISH, ("@topic=nowhere",), {}, "UNKNOWN_TOPIC", "auto_create_topics is off"),
    (M.PUBLISH, ("@topic=t", "@partition=9"), {}, "UNKNOWN_TOPIC", "no partition 9"),
    (M.PUBLISH, ("@topic=t", "@partition=x"), {}, "INVALID_REQUEST", "an integer, not 'x'"),
    (M.PUBLISH, ("@topic=t", "@topic=t"), {}, "INVALID_REQUEST", "has @topic twice"),
    (M.PUBLISH, ("@topic=t", "@null=yes"), {}, "INVALID_REQUEST", "true or false, not 'yes'"),
    (M.PUBLISH, ("@topic=t", "@null=true"), {"body": b"x"}, "INVALID_REQUEST", "the request has a body"),
    (M.PUBLISH, ("@topic=t", "@header=*"), {}, "MALFORMED", "not base64"),
    (M.PUBLISH, ("@topic=t",), {"body": bytes(2_000_000)}, "TOO_LARGE", "max.message.bytes"),
    (M.PUBLISH, ("@topic=__subscriptions",), {}, "INVALID_REQUEST", "internal topic"),
    (M.CREATE_TOPIC, ("@topic=a b",), {}, "INVALID_REQUEST", "may contain only"),
    (M.CREATE_TOPIC, ("@topic=t", "@partitions=0"), {}, "ALREADY_EXISTS", "1 partitions, not 0"),
    (M.CREATE_TOPIC, ("@topic=new", "@partitions=0"), {}, "INVALID_REQUEST", "partition"),
    (M.CREATE_SUBSCRIPTION, ("@subscription=x",), {}, "INVALID_REQUEST", "needs @topic"),
    (M.CREATE_SUBSCRIPTION, ("@subscription=x", "@topic=no"), {}, "UNKNOWN_TOPIC", "'no'"),
    (
        M.CREATE_SUBSCRIPTION,
        ("@subscription=x", "@topic=t", "@start_offset=5"),
        {},
        "OFFSET_OUT_OF_RANGE",
        "outside of 0 to 0",
    ),
    (M.CREATE_SUBSCRIPTION, ("@subscription=s", "@topic=t", "@hold_ms=1"), {}, "INVALID_REQUEST", "already"),
    (M.SUBSCRIBE, ("@subscription=x",), {}, "UNKNOWN_SUBSCRIPTION", "create it first"),
    (M.SUBSCRIBE, ("@subscription=s", "@window=0"), {}, "INVALID_REQUEST", "from 1 to 1000"),
    (M.SUBSCRIBE, ("@subscription=s", "colour=red"), {}, "INVALID_REQUEST", "does not accept colour"),
    (M.UNSUBSCRIBE, ("@subscription=s",), {}, "INVALID_REQUEST", "send SUBSCRIBE first"),
    (M.DELETE_SUBSCRIPTION, ("@subscription=x",), {}, "UNKNOWN_SUBSCRIPTION", "no subscription 'x'"),
    (M.HEARTBEAT, (), {"body": b"x"}, "INVALID_REQUEST", "takes no body"),
    (M.ACK, ("@subscription=s",), {}, "INVALID_REQUEST", "not a member of 's'"),
    (M.DATA, ("@subscription=s",), {}, "INVALID_REQUEST", "sent by the broker only"),
    (M.REDRIVE, ("@subscription=s", "@count=0"), {}, "INVALID_REQUEST", "at least 1"),
    (M.DESCRIBE_SUBSCRIPTION, ("@subscription=x",), {}, "UNKNOWN_SUBSCRIPTION", "'x'"),
]


@pytest.mark.parametrize(("kind", "properties", "more", "code", "words"), BAD)
def test_what_is_wrong_is_said_in_words_and_the_connection_goes_on(
    kind: MessageType,
    properties: tuple[str, ...],
    more: dict[str, Any],
    code: str,
    words: str,
) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer = Peer(doors)
        await prepare(peer)
        found = await peer.refused(kind, *properties, "@request=r", **more)
        assert found[0] == code and words in found[1], found
        assert (await peer.ask(M.HEARTBEAT, "@request=q")) == {"@request": "q"}

    at_the_queue_door(talk, auto_create_topics=False)


@pytest.mark.parametrize(
    ("outcome", "partition", "words"),
    [
        ("maybe", 0, "accept, release, reject, renew"),
        ("accept", 3, "no partition 3"),
        ("renew", 3, "no partition 3"),
    ],
)
def test_members_that_say_what_cannot_be_are_told(outcome: str, partition: int, words: str) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer = Peer(doors)
        await prepare(peer)
        await peer.subscribe("s")
        assert (await peer.refused(M.SUBSCRIBE, "@subscription=s"))[
            1
        ] == "this connection is already a member of 's'"
        found = await peer.refused(
            M.ACK, "@subscription=s", f"@outcome={outcome}", f"@partition={partition}", sequence=0
        )
        assert words in found[1]

    at_the_queue_door(talk)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"\0\0\0\x05hello", "MALFORMED"),
        (b"\x10\0\0\0hello", "TOO_LARGE"),
        (encode(Frame(M.HEARTBEAT))[:4] + b"\0\0\0\x63" + encode(Frame(M.HEARTBEAT))[8:], "MALFORMED"),
    ],
)
def test_bytes_that_are_no_frame_end_the_connection_with_a_reason(raw: bytes, code: str) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        peer, other = Peer(doors), Peer(doors)
        peer.feed(raw)
        (told,) = await peer.read()
        assert dict(told.properties)["@code"] == code
        peer.feed(encode(Frame(M.HEARTBEAT)))
        assert await peer.rest() == [], "nothing more is taken from it"
        assert await other.ask(M.HEARTBEAT, "@request=q") == {"@request": "q"}

    at_the_queue_door(talk)


def test_whatever_is_asked_is_answered() -> None:
    """Requests put together by chance: each gets one answer, and nothing crashes."""
    chance = Random(7)
    names = sorted({name for known in KNOWN.values() for name in known} - {"@request"})
    values = ["s", "t", "x", "", "0", "1", "-1", str(2**63), "true", "accept", "reject", "renew", "YQ==", "é"]

    async def talk(doors: Doorways, broker: Broker) -> None:
        peer = Peer(doors)
        await prepare(peer, count=3)
        for number in range(400):
            kind = chance.choice([*KNOWN, M.SUBSCRIBE, M.ACK, M.ACK])
            known = [*(KNOWN[kind] - {"@request"}), chance.choice(names)]
            properties = [
                f"{name}={chance.choice(values)}" for name in sorted(known) if chance.random() < 0.7
            ]
            mark = f"@request={number}"
            peer.send(kind, *properties, mark, sequence=chance.choice([0, 1, 2, -1, 2**63 - 1, -(2**63)]))
            while True:
                (frame,) = await peer.read()
                if ("@request", str(number)) in frame.properties:
                    break
        assert not peer.connection.is_closed

    at_the_queue_door(talk)
