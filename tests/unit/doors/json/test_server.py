"""The JSON door on a real broker: every command, many in one go, and every way to get one wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from in_process_client import Line, receive
from manual_ports import turns
from memory_broker import SETTINGS, make_topic, until, with_broker
from penstock.apps.doorways import Doorways
from penstock.core.errors import leaves
from penstock.core.records.murmur2 import partition_of
from penstock.doors.json.errors import CODES
from penstock.node.broker import Broker


class Client:
    """One client on a line without a socket."""

    def __init__(self, doors: Doorways) -> None:
        self.connection = doors.listeners["json"].connect()
        self.line = Line(self.connection)
        self.connection.connection_made(self.line)  # type: ignore[arg-type]

    def feed(self, content: bytes) -> None:
        receive(self.connection, self.line, content)

    def send(self, *requests: dict[str, Any] | bytes) -> None:
        bodies = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in requests]
        self.feed(b"".join(len(body).to_bytes(4, "big") + body for body in bodies))

    def _size(self) -> int:
        return 4 + int.from_bytes(self.line.sent[:4], "big")

    async def read(self) -> dict[str, Any]:
        await until(lambda: len(self.line.sent) >= 4 and len(self.line.sent) >= self._size())
        size = self._size()
        answer: dict[str, Any] = json.loads(self.line.sent[4:size])
        del self.line.sent[:size]
        return answer

    async def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        self.send({"command": command, **fields})
        return await self.read()


Talk = Callable[[Doorways, Broker], Coroutine[Any, Any, None]]


def at_the_door(talk: Talk, **settings: Any) -> None:
    async def test(broker: Broker) -> None:
        await talk(Doorways(broker), broker)

    with_broker(test, replace(SETTINGS, json_port=0, **settings))


def held(answer: dict[str, Any]) -> list[int]:
    return [one["partition"] for one in answer["assignment"]]


def test_messages_of_every_kind_go_in_and_out() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        client = Client(doors)
        sent: list[dict[str, Any]] = [
            {"message": "grüße", "key": "k", "time": 5},
            {"message": None, "key_base64": "/w==", "time": 6},
            {"message_base64": "AP8=", "time": 7},
            {"message": "", "headers": {"a": "1", "b": None}, "time": 8},
            {
                "message": "x",
                "headers": [{"name": "a", "value_base64": "/w=="}, {"name": "a", "value": "2"}],
                "time": 9,
            },
        ]
        for offset, fields in enumerate(sent):
            answer = await client.ask("PRODUCE", topic="orders", **fields)
            assert answer == {"ok": True, "partition": 0, "offset": offset}
        read = (await client.ask("CONSUME", topic="orders"))["messages"]
        for offset, (found, fields) in enumerate(zip(read, sent, strict=True)):
            if isinstance(fields.get("headers"), dict):
                fields["headers"] = [
                    {"name": name, "value": value} for name, value in fields["headers"].items()
                ]
            assert found == {"offset": offset, **fields}

    at_the_door(talk)


def test_many_in_one_go_share_a_batch_and_are_answered_in_order() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        await make_topic(broker, "orders")
        client = Client(doors)
        client.send(
            *[
                {"command": "PRODUCE", "topic": "orders", "message": str(number), "id": number}
                for number in range(300)
            ],
            {"command": "consume", "topic": "orders", "offset": 299, "id": "last"},
        )
        for number in range(300):
            assert await client.read() == {"ok": True, "id": number, "partition": 0, "offset": number}
        assert [one["message"] for one in (await client.read())["messages"]] == ["299"]
        assert len(list(broker.partition("orders", 0).log.headers_from(0))) < 20

    at_the_door(talk)


def test_a_request_sees_what_those_before_it_did() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        client = Client(doors)
        client.send(
            {"command": "CREATE_TOPIC", "topic": "lines", "partitions": 3},
            {"command": "PRODUCE", "topic": "lines", "message": "a", "partition": 2},
            {"command": "PRODUCE", "topic": "lines", "message": "b", "partition": 2},
            {"command": "CONSUME", "topic": "lines", "partition": 2},
            {"command": "LIST_TOPICS"},
        )
        assert await client.read() == {"ok": True, "topic": "lines", "partitions": 3}
        assert [(await client.read())["offset"] for _ in range(2)] == [0, 1]
        assert [one["message"] for one in (await client.read())["messages"]] == ["a", "b"]
        assert (await client.read())["topics"] == [{"topic": "lines", "partitions": 3}]

    at_the_door(talk)


def test_produce_by_key_by_partition_and_many_with_their_own_results() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        await make_topic(broker, "orders", 4, max_message_bytes="500")
        client = Client(doors)
        assert (await client.ask("PRODUCE", topic="orders", key="k", message="x"))[
            "partition"
        ] == partition_of(b"k", 4)
        messages = [{"message": "a"}, {"message": "x" * 600}, {"message": "b"}]
        answer = await client.ask("PRODUCE", topic="orders", partition=1, messages=messages)
        assert (answer["ok"], answer["error"]) == (False, "TOO_LARGE")
        assert [one.get("error") for one in answer["results"]] == [None, "TOO_LARGE", None]
        answer = await client.ask("PRODUCE", topic="orders", partition=1, messages=messages[:1] * 3)
        assert [one["offset"] for one in answer["results"]] == [2, 3, 4]
        assert await client.ask("PRODUCE", topic="orders", messages=[]) == {"ok": True, "results": []}

    at_the_door(talk)


def test_consume_from_anywhere_within_limits() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        client = Client(doors)
        for number in range(5):
            await client.ask("PRODUCE", topic="orders", message=str(number), time=1_000 * number)
        for place, expected in (
            (3, ["3", "4"]),
            ("earliest", ["0", "1", "2", "3", "4"]),
            ("latest", []),
            ({"time": 2_500}, ["3", "4"]),
            ({"time": 99_999}, []),
            (5, []),
        ):
            answer = await client.ask("CONSUME", topic="orders", offset=place)
            assert [one["message"] for one in answer["messages"]] == expected
            assert (answer["next_offset"], answer["start_offset"], answer["end_offset"]) == (5, 0, 5)
        answer = await client.ask("CONSUME", topic="orders", max=2, isolation="read_uncommitted")
        assert answer["next_offset"] == 2

    at_the_door(talk)


def test_waiting_for_a_message() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        await make_topic(broker, "orders")
        reader, writer = Client(doors), Client(doors)
        reader.send({"command": "CONSUME", "topic": "orders", "wait": 60_000, "id": 1})
        await writer.ask("PRODUCE", topic="orders", message="x")
        assert [one["message"] for one in (await reader.read())["messages"]] == ["x"]
        reader.send({"command": "CONSUME", "topic": "orders", "offset": 1, "wait": 60_000})
        await turns()
        doors.listeners["json"].close()
        assert (await reader.read())["messages"] == []

    at_the_door(talk)


def test_topics_with_their_settings() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        client = Client(doors)
        config = {"cleanup.policy": "compact", "retention.ms": -1, "unclean.leader.election.enable": False}
        del config["unclean.leader.election.enable"]
        assert (await client.ask("CREATE_TOPIC", topic="latest", partitions=2, config=config))["ok"]
        (topic,) = (await client.ask("METADATA", topic="latest"))["topics"]
        assert topic["config"] == {"cleanup.policy": "compact", "retention.ms": "-1"}
        assert [one["partition"] for one in topic["partitions"]] == [0, 1]
        assert (await client.ask("CREATE_TOPIC", topic="latest"))["error"] == "TOPIC_EXISTS"
        assert (await client.ask("CREATE_TOPIC", topic="x", config={"no.such": 1}))[
            "error"
        ] == "INVALID_CONFIG"
        assert (await client.ask("CREATE_TOPIC", topic="x", partitions=10**6))[
            "error"
        ] == "INVALID_PARTITIONS"
        assert [one["topic"] for one in (await client.ask("METADATA"))["topics"]] == ["latest"]

    at_the_door(talk)


def test_members_share_a_group_and_hand_over() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        await make_topic(broker, "lines", 2)
        anna, ben = Client(doors), Client(doors)

        async def beat(client: Client, last: dict[str, Any]) -> dict[str, Any]:
            names = ("group", "member", "epoch", "assignment")
            return await client.ask("HEARTBEAT", **{name: last[name] for name in names})

        first = await anna.ask("JOIN", group="g", topics=["lines"], member="anna")
        assert (first["member"], held(first)) == ("anna", [0, 1])
        second = await ben.ask("JOIN", group="g", topics=["lines"])
        assert held(second) == [], "nothing before it is given up"
        first = await beat(anna, first)
        assert len(held(first)) == 1
        second = await beat(ben, second)
        assert held(second) == []
        first = await beat(anna, first)
        for _ in range(3):
            second = await beat(ben, second)
        assert sorted(held(first) + held(second)) == [0, 1]
        stale = await anna.ask("HEARTBEAT", group="g", member="anna", epoch=99, assignment=[])
        assert stale["error"] == "FENCED_MEMBER"
        assert await anna.ask("LEAVE", group="g", member="anna") == {"ok": True}
        assert (await beat(anna, first))["error"] == "UNKNOWN_MEMBER"
        for _ in range(3):
            second = await beat(ben, second)
        assert held(second) == [0, 1]

    at_the_door(talk)


def test_offsets_are_committed_by_members_and_by_others() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        await make_topic(broker, "lines", 2)
        client = Client(doors)
        offsets = [{"topic": "lines", "partition": 1, "offset": 7, "metadata": "m"}]
        assert await client.ask("COMMIT", group="tools", offsets=offsets) == {"ok": True}
        rows = (await client.ask("OFFSETS", group="tools", topics=["lines"]))["offsets"]
        assert [one["committed"] for one in rows] == [None, 7] and rows[1]["metadata"] == "m"
        rows = (await client.ask("OFFSETS", topics=["lines"]))["offsets"]
        assert rows[0] == {"topic": "lines", "partition": 0, "start_offset": 0, "end_offset": 0}
        member = await client.ask("JOIN", group="g", topics=["lines"])
        by = {"member": member["member"], "epoch": member["epoch"]}
        assert (await client.ask("COMMIT", group="g", offsets=offsets, **by))["ok"]
        refused = await client.ask("COMMIT", group="g", offsets=offsets, member="nobody", epoch=1)
        assert refused["error"] == "UNKNOWN_MEMBER"
        assert (await client.ask("COMMIT", group="g", offsets=offsets))["ok"] is False
        long = [{"topic": "lines", "offset": 1}, {"topic": "lines", "offset": 1, "metadata": "x" * 5_000}]
        answer = await client.ask("COMMIT", group="tools", offsets=long)
        assert answer["error"] == "METADATA_TOO_LARGE" and answer["results"][0] == {}
        for wrong in ({"topic": "lines", "partition": 2, "offset": 1}, {"topic": "nowhere", "offset": 1}):
            assert (await client.ask("COMMIT", group="tools", offsets=[wrong]))["error"] == "UNKNOWN_TOPIC"

    at_the_door(talk)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"", "MALFORMED"),
        (b"{", "MALFORMED"),
        (b"[]", "MALFORMED"),
        (b"\xff", "MALFORMED"),
        (b'{"command": NaN}', "MALFORMED"),
        (b'{"command": "LIST_TOPICS", "command": "LIST_TOPICS"}', "MALFORMED"),
        (b"[" * 100_000, "MALFORMED"),
        (b'{"command": "CONSUME", "topic": "orders", "offset": ' + b"9" * 5_000 + b"}", "MALFORMED"),
        ({}, "MALFORMED"),
        ({"command": 7}, "MALFORMED"),
        ({"command": "STOP"}, "MALFORMED"),
        ({"command": "LIST_TOPICS", "id": [1]}, "MALFORMED"),
        ({"command": "LIST_TOPICS", "all": True}, "MALFORMED"),
        ({"command": "PRODUCE"}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders"}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message": {"a": 1}}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message": "\ud800"}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message": "a", "message_base64": "YQ=="}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message_base64": "a"}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message_base64": 7}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message": "a", "headers": 7}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message": "a", "headers": {"\ud800": "x"}}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message": "a", "headers": [{"value": "x"}]}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message": "a", "time": -5}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message": "a", "partition": True}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "message": "a", "partition": 9}, "UNKNOWN_TOPIC"),
        ({"command": "PRODUCE", "topic": "orders", "messages": [7]}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "orders", "messages": "a"}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "no/name", "message": "a"}, "INVALID_TOPIC"),
        ({"command": "PRODUCE", "topic": "\ud800", "message": "a"}, "MALFORMED"),
        ({"command": "PRODUCE", "topic": "__consumer_offsets", "message": "a"}, "INVALID_TOPIC"),
        ({"command": "PRODUCE", "topic": "orders", "message": "x" * 2_000}, "TOO_LARGE"),
        ({"command": "CONSUME", "topic": "orders", "offset": 2}, "OFFSET_OUT_OF_RANGE"),
        ({"command": "CONSUME", "topic": "orders", "offset": -1}, "MALFORMED"),
        ({"command": "CONSUME", "topic": "orders", "offset": 0.5}, "MALFORMED"),
        ({"command": "CONSUME", "topic": "orders", "offset": {"day": 1}}, "MALFORMED"),
        ({"command": "CONSUME", "topic": "orders", "max": 0}, "MALFORMED"),
        ({"command": "CONSUME", "topic": "orders", "isolation": []}, "MALFORMED"),
        ({"command": "CONSUME", "topic": "nowhere"}, "UNKNOWN_TOPIC"),
        ({"command": "CREATE_TOPIC", "topic": "x", "config": []}, "MALFORMED"),
        ({"command": "CREATE_TOPIC", "topic": "x", "config": {"a": None}}, "MALFORMED"),
        ({"command": "METADATA", "topic": "nowhere"}, "UNKNOWN_TOPIC"),
        ({"command": "JOIN", "group": "g"}, "MALFORMED"),
        ({"command": "JOIN", "group": "", "topics": []}, "INVALID_GROUP"),
        ({"command": "JOIN", "group": "g", "topics": [7]}, "MALFORMED"),
        ({"command": "JOIN", "group": "\ud800", "topics": []}, "MALFORMED"),
        ({"command": "HEARTBEAT", "group": "g", "member": "m", "epoch": 1}, "MALFORMED"),
        (
            {"command": "HEARTBEAT", "group": "g", "member": "m", "epoch": 1, "assignment": []},
            "UNKNOWN_GROUP",
        ),
        ({"command": "LEAVE", "group": "g", "member": "m"}, "UNKNOWN_GROUP"),
        ({"command": "COMMIT", "group": "g", "offsets": [{"topic": "orders"}]}, "MALFORMED"),
        ({"command": "OFFSETS", "topics": ["nowhere"]}, "UNKNOWN_TOPIC"),
    ],
)
def test_what_is_wrong_is_answered_and_the_connection_goes_on(
    request_: dict[str, Any] | bytes, code: str
) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        await make_topic(broker, "orders", max_message_bytes="1000")
        client = Client(doors)
        await client.ask("PRODUCE", topic="orders", message="x")
        client.send(request_)
        answer = await client.read()
        assert (answer["ok"], answer["error"]) == (False, code), answer
        assert answer["reason"] and answer["retriable"] is False
        assert (await client.ask("CONSUME", topic="orders", id="x"))["id"] == "x"

    at_the_door(talk)


def test_a_frame_over_the_limit_is_refused_from_its_length_and_that_is_the_last_answer() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        client, other = Client(doors), Client(doors)
        client.send({"command": "PRODUCE", "topic": "orders", "message": "x"})
        client.feed((5_000).to_bytes(4, "big") + b"{")
        assert (await client.read())["ok"]
        assert (await client.read())["error"] == "TOO_LARGE"
        assert client.line.has_ended
        assert (await other.ask("LIST_TOPICS"))["ok"]

    at_the_door(talk, frame_bytes_max=4_000)


def test_half_a_frame_and_then_silence_ends_at_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        client = Client(doors)
        client.feed((100).to_bytes(4, "big") + b'{"comm')
        doors.gate.watch()
        async with asyncio.timeout(30):
            while not client.connection.is_closed:
                await asyncio.sleep(0.005)

    at_the_door(talk, frame_ms_max=50)
    assert "frame_ms_max" in caplog.text


def test_a_reader_that_never_reads_is_not_read_from() -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        client, other = Client(doors), Client(doors)
        await other.ask("PRODUCE", topic="orders", message="x" * 900)
        client.connection.pause_writing()
        for _ in range(50):
            client.send({"command": "CONSUME", "topic": "orders"})
            await turns()
        assert not client.line.is_reading and client.connection.waiting_bytes < 10_000
        assert (await other.ask("LIST_TOPICS"))["ok"]

    at_the_door(talk, response_queue_bytes_max=5_000)


def test_a_defect_ends_its_connection_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def talk(doors: Doorways, broker: Broker) -> None:
        client, other = Client(doors), Client(doors)

        async def crash(call: Any) -> None:
            raise ZeroDivisionError

        doors.listeners["json"].dialect.handlers["OFFSETS"] = crash  # type: ignore[attr-defined]
        client.send({"command": "OFFSETS"})
        await until(lambda: client.connection.is_closed)
        assert (await other.ask("LIST_TOPICS"))["ok"]

    at_the_door(talk)
    assert "this is a defect" in caplog.text


def test_every_error_has_a_code_of_its_own() -> None:
    assert set(CODES) == set(leaves())
    assert len(set(CODES.values())) == len(CODES)
