"""Tails: what they send, what they leave out, and that a reader that does not read costs next to nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionType
from wsproto.events import CloseConnection, Event, Ping, Pong, TextMessage

from http_client import HttpClient, request
from log_samples import opaque_batch
from manual_ports import turns
from memory_broker import make_topic, until
from penstock.core.codecs import ZSTD
from penstock.core.records.compression import compress
from penstock.doors.http import tail as tails
from penstock.doors.http.tail import AHEAD_BYTES_MAX

from .conftest import Stage

Play = Callable[..., None]
TAIL = "/api/v1/topics/orders/tail"
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Reader:
    """A WebSocket client at the other end."""

    def __init__(self, client: HttpClient) -> None:
        self.client = client
        self.frames = Frames(ConnectionType.CLIENT)
        self.events: list[Event] = []

    @classmethod
    async def open(cls, stage: Stage, query: str = "") -> Reader:
        client = stage.client()
        client.feed(request("GET", TAIL + query, **UPGRADE))
        answer = await client.answer()
        assert (answer.status, answer.headers["sec-websocket-accept"]) == (
            101,
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        )
        await turns()
        return cls(client)

    def take(self) -> list[Event]:
        """What has come so far."""
        self.frames.receive_data(bytes(self.client.line.sent))
        self.client.line.sent.clear()
        self.events += self.frames.events()
        return self.events

    def messages(self) -> list[Any]:
        return [json.loads(one.data) for one in self.take() if isinstance(one, TextMessage)]

    async def receive(self, count: int) -> list[Any]:
        await until(lambda: len(self.messages()) >= count)
        await turns(20)
        return self.messages()


async def publish(stage: Stage, *messages: dict[str, Any], partition: int = 0) -> None:
    body = {"topic": "orders", "partition": partition, "messages": list(messages)}
    answer = await stage.client().ask("POST", "/api/v1/messages/batch", body)
    assert answer.status == 200


def test_a_tail_begins_with_what_comes_next(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders", 2)
        await publish(stage, {"value": "before"})
        reader = await Reader.open(stage)
        await publish(stage, {"value": {"n": 1}, "key": "k", "headers": {"h": "v"}})
        await publish(stage, {"value": "other partition"}, partition=1)
        first, second = await reader.receive(2)
        assert (first["topic"], first["partition"], first["offset"]) == ("orders", 0, 1)
        assert (first["key"], first["value"], first["headers"]) == ("k", {"n": 1}, {"h": "v"})
        assert (second["partition"], second["offset"]) == (1, 0)

    play(test)


def test_a_tail_shows_what_its_filter_lets_through(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        users = [
            {"value": {"user": number % 3, "n": number}, "key": f"k{number % 2}"} for number in range(12)
        ]
        await publish(stage, *users)
        reader = await Reader.open(stage, "?offset=earliest&json=user:1&key=k0")
        assert [one["value"]["n"] for one in await reader.receive(2)] == [4, 10]
        late = await Reader.open(stage, "?partition=0&offset=11&values=text")
        assert [one["value"] for one in await late.receive(1)] == ['{"user":2,"n":11}']

    play(test)


def test_a_reader_that_does_not_read_slows_only_itself(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        reader = await Reader.open(stage)
        slow, quick = reader.client.connection, await Reader.open(stage)
        slow.pause_writing()
        for _ in range(20):
            await publish(stage, *({"value": "x" * 1_000} for _ in range(100)))
        assert len(await quick.receive(2_000)) == 2_000
        await turns(50)
        assert AHEAD_BYTES_MAX < slow.waiting_bytes < AHEAD_BYTES_MAX + 2 * tails.STEP_BYTES + 100_000
        slow.resume_writing()
        assert [one["offset"] for one in await reader.receive(2_000)] == list(range(2_000))

    play(test)


def test_what_retention_took_meanwhile_is_said(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        reader = await Reader.open(stage)
        reader.client.connection.pause_writing()
        for _ in range(10):
            await publish(stage, *({"value": "x" * 1_000} for _ in range(100)))
        await turns(50)
        await stage.broker.partition("orders", 0).delete_records(990)
        reader.client.connection.resume_writing()
        await until(lambda: reader.messages() and reader.messages()[-1].get("offset") == 999)
        (skipped,) = [one for one in reader.messages() if "skipped_from" in one]
        assert skipped["skipped_to"] == 990
        assert reader.messages()[-10]["offset"] == 990

    play(test)


def closing(reader: Reader) -> CloseConnection:
    (found,) = [one for one in reader.take() if isinstance(one, CloseConnection)]
    return found


def test_a_tail_only_sends(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        reader = await Reader.open(stage)
        reader.client.feed(reader.frames.send(Ping(b"there?")))
        await turns()
        assert Pong(b"there?") in reader.take()
        reader.client.feed(reader.frames.send(TextMessage("hello")))
        await turns()
        assert closing(reader).code == 1003 and reader.client.line.has_ended
        broken = await Reader.open(stage)
        broken.client.feed(b"\x81\x05hello")
        await turns()
        assert closing(broken).code == 1002

    play(test)


def test_either_side_may_end_it(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        leaving, staying = await Reader.open(stage), await Reader.open(stage)
        leaving.client.feed(leaving.frames.send(CloseConnection(1000)))
        await turns()
        assert closing(leaving).code == 1000 and leaving.client.line.has_ended
        await publish(stage, {"value": "x"})
        await leaving.client.hang_up()
        partition = stage.broker.partition("orders", 0)
        assert len(partition._watermark_listeners.listening) == 1, "who is gone is not listened for"
        topic = await stage.client().ask("DELETE", "/api/v1/topics/orders")
        assert topic.status == 204
        await turns(20)
        assert closing(staying).code == 1011
        await make_topic(stage.broker, "orders")
        last = await Reader.open(stage)
        stage.doors.listeners["http"].close()
        await turns()
        assert closing(last).code == 1001

    play(test)


def test_a_silent_client_is_asked_whether_it_is_there(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        reader, silent = await Reader.open(stage), await Reader.open(stage)
        door = stage.doors.listeners["http"].dialect
        for tail in list(door._tails._open):  # type: ignore[attr-defined]
            tail._ping()
        await turns()
        assert any(isinstance(one, Ping) for one in reader.take())
        reader.client.feed(reader.frames.send(Pong()))
        for tail in list(door._tails._open):  # type: ignore[attr-defined]
            tail._ping()
        await turns()
        assert (reader.client.connection.is_closed, silent.client.connection.is_closed) == (False, True)

    play(test)


def test_wishes_that_cannot_be_granted(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")

        async def ask(target: str, **more: str) -> tuple[int, str]:
            client = stage.client()
            answer = await client.ask("GET", target, **UPGRADE | more)
            return answer.status, answer.json["code"]

        assert await ask("/api/v1/topics/none/tail") == (404, "UnknownTopic")
        assert await ask(f"{TAIL}?partition=3") == (404, "UnknownTopic")
        assert await ask(f"{TAIL}?offset=3") == (400, "InvalidRequest")
        assert await ask(f"{TAIL}?partition=0&offset=3") == (416, "OffsetOutOfRange")
        assert await ask(f"{TAIL}?wrong=3") == (400, "InvalidRequest")
        assert await ask(f"{TAIL}?json=") == (400, "InvalidRequest")
        assert await ask(TAIL, sec_websocket_version="8") == (400, "InvalidRequest")
        assert await ask(TAIL, sec_websocket_key="short") == (400, "InvalidRequest")
        assert await ask(TAIL, origin="https://evil.example") == (403, "ForeignOrigin")
        plain = await stage.client().ask("GET", "/healthz", **UPGRADE)
        assert (plain.status, plain.headers["connection"]) == (200, "close"), (
            "what is no tail is just answered"
        )
        same = await stage.client().ask("GET", TAIL, **UPGRADE | {"origin": "http://localhost"})
        assert same.status == 101

    play(test)


def test_a_client_that_speaks_too_early(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        client = stage.client()
        reader = Reader(client)
        wait = request("GET", "/api/v1/topics/orders/partitions/0/messages?offset=latest&wait_ms=60000")
        client.feed(wait + request("GET", TAIL, **UPGRADE) + reader.frames.send(Ping(b"a")))
        client.feed(reader.frames.send(Ping(b"b")))
        await publish(stage, {"value": "x"})
        assert [(await client.answer()).status for _ in range(2)] == [200, 101]
        await turns()
        assert [one.payload for one in reader.take() if isinstance(one, Pong)] == [b"a", b"b"]

    play(test)


def test_a_tail_goes_past_what_cannot_be_opened_and_rests(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders", penstock_validation="header", penstock_durability="os")
        partition = stage.broker.partition("orders", 0)
        reader = await Reader.open(stage)
        await publish(stage, {"value": "before"})
        partition.append(memoryview(opaque_batch(3, b"\x8f\x13\x99random\xff")))
        bomb = compress(ZSTD, bytes(80 << 20))
        partition.append(memoryview(opaque_batch(3, bomb, attributes=ZSTD)))
        await publish(stage, {"value": "behind"})
        assert [(one["offset"], one["value"]) for one in await reader.receive(2)] == [
            (0, "before"),
            (7, "behind"),
        ]
        reads: list[int] = []
        partition.read = lambda *given: reads.append(1)  # type: ignore[assignment,func-returns-value]
        await turns(50)
        assert reads == [], "a tail that has sent everything does not look again by itself"

    play(test)
