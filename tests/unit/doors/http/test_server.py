"""HTTP's own manners: order, lengths, methods, limits, the end of a connection; and each path once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from http_client import request
from manual_ports import PromptWorkers, turns
from memory_broker import make_topic
from penstock.doors.http.conversation import BODY_BYTES_MAX
from penstock.wire.http.request import HEAD_BYTES_MAX

from .conftest import Stage

Play = Callable[..., None]
MESSAGES = "/api/v1/messages"
READ = "/api/v1/topics/orders/partitions/0/messages"


def message(**more: Any) -> dict[str, Any]:
    return {"topic": "orders", "value": "x"} | more


def test_a_message_goes_in_and_comes_out(play: Play) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        sent = message(key="k", value={"a": [1, "ä"]}, headers={"h": "v"}, timestamp_ms=1_750_000_000_000)
        answer = await client.ask("POST", MESSAGES, sent)
        assert (answer.status, answer.json) == (200, {"topic": "orders", "partition": 0, "offset": 0})
        answer = await client.ask("GET", "/api/v1/topics/orders/partitions/0/messages")
        del sent["topic"]
        assert answer.json == {
            "topic": "orders",
            "partition": 0,
            "messages": [{"offset": 0, **sent}],
            "next_offset": 1,
            "start_offset": 0,
            "end_offset": 1,
        }

    play(test)


def test_a_batch_has_an_outcome_for_each_message(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders", max_message_bytes="200")
        client = stage.client()
        body = {"topic": "orders", "messages": [{"value": "a"}, {"value": "x" * 500}, {"value": None}]}
        answer = await client.ask("POST", f"{MESSAGES}/batch", body)
        assert (answer.status, answer.json["failed"]) == (207, 1)
        first, large, last = answer.json["results"]
        assert (first["offset"], last["offset"], large["code"]) == (0, 1, "TooLarge")
        answer = await client.ask(
            "POST", f"{MESSAGES}/batch", {"topic": "orders", "messages": [{"value": "x" * 500}]}
        )
        assert (answer.status, answer.json["code"]) == (413, "TooLarge")
        answer = await client.ask("POST", f"{MESSAGES}/batch", {"topic": "orders", "messages": []})
        assert answer.status == 400

    play(test)


class HoldableWorkers(PromptWorkers):
    """Work is done at once, or kept until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Any] | None = None

    def submit(self, work: Any, done: Any) -> None:
        if self.held is None:
            super().submit(work, done)
        else:
            self.held.append((work, done))

    def let_go(self) -> int:
        held, self.held = self.held or [], None
        for work, done in held:
            super().submit(work, done)
        return len(held)


def test_pipelined_writes_share_a_flush_and_no_read_overtakes_them(play: Play) -> None:
    workers = HoldableWorkers()

    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        client = stage.client()
        workers.held = []
        writes = [request("POST", MESSAGES, message(value=str(number))) for number in range(5)]
        client.feed(b"".join(writes) + request("GET", f"{READ}?max=10"))
        await turns(20)
        assert client.take() is None, "nothing is said before it is durable"
        assert workers.let_go() == 1
        assert [(await client.answer()).json["offset"] for _ in range(5)] == [0, 1, 2, 3, 4]
        assert len((await client.answer()).json["messages"]) == 5

    play(test, workers=workers)


def test_a_read_waits_for_what_is_not_there_yet(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        waiting, writing = stage.client(), stage.client()
        waiting.feed(request("GET", f"{READ}?offset=latest&wait_ms=60000"))
        await turns(20)
        assert waiting.take() is None
        await writing.ask("POST", MESSAGES, message(value="at last"))
        assert [one["value"] for one in (await waiting.answer()).json["messages"]] == ["at last"]
        waiting.feed(request("GET", f"{READ}?offset=latest&wait_ms=60000"))
        await turns(20)
        stage.doors.listeners["http"].close()
        assert (await waiting.answer()).json["messages"] == [], "a door that closes lets nobody wait"

    play(test)


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (request("GET", "/nowhere"), 404, "NoSuchPath"),
        (request("GET", "/%ff"), 404, "NoSuchPath"),
        (request("GET", "/api/v1/topics//"), 404, "NoSuchPath"),
        (request("PUT", "/api/v1/topics"), 405, "NoSuchMethod"),
        (request("POST", MESSAGES), 411, "NoLength"),
        (request("POST", MESSAGES, b"a=b", content_type="application/x-www-form-urlencoded"), 415, "NotJson"),
        (request("POST", MESSAGES, b"{}", content_type=""), 415, "NotJson"),
        (request("POST", MESSAGES, b"{"), 400, "InvalidRequest"),
        (request("POST", MESSAGES, {"topic": "orders"}), 400, "InvalidRequest"),
        (request("POST", MESSAGES, message(extra=1)), 400, "InvalidRequest"),
        (request("POST", MESSAGES, message(topic="a b")), 422, "InvalidTopic"),
        (request("POST", MESSAGES, message(partition=7)), 404, "UnknownTopic"),
        (request("POST", MESSAGES, message(topic="__consumer_offsets")), 422, "InvalidTopic"),
        (request("GET", "/api/v1/topics?wrong=1"), 400, "InvalidRequest"),
        (request("GET", "/api/v1/topics/none"), 404, "UnknownTopic"),
        (request("GET", "/api/v1/topics/orders/partitions/x/messages"), 404, "UnknownTopic"),
        (request("GET", "/api/v1/topics/orders/partitions/9/messages"), 404, "UnknownTopic"),
        (request("GET", "/api/v1/topics/orders/partitions/0/messages?offset=5"), 416, "OffsetOutOfRange"),
        (request("GET", "/api/v1/topics/orders/partitions/0/messages?offset=-1"), 400, "InvalidRequest"),
        (request("GET", "/api/v1/topics/orders/partitions/0/messages?max=0"), 400, "InvalidRequest"),
        (request("GET", "/api/v1/topics/orders/partitions/0/messages?max=1&max=2"), 400, "InvalidRequest"),
        (request("GET", "/api/v1/topics/orders/tail"), 426, "WebSocketOnly"),
        (request("GET", "/healthz", b"{}"), 400, "UnaskedBody"),
        (request("GET", "/api/v1/groups/none"), 404, "UnknownGroup"),
    ],
)
def test_refusals_say_why_and_the_connection_goes_on(play: Play, raw: bytes, status: int, code: str) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        client = stage.client()
        client.feed(raw)
        answer = await client.answer()
        assert (answer.status, answer.json["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json["detail"] and answer.json["what_to_do"]
        assert (await client.ask("GET", "/healthz")).status == 200

    play(test)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET /" + b"a" * HEAD_BYTES_MAX + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), 413),
    ],
)
def test_what_cannot_be_read_on_ends_with_last_words(play: Play, raw: bytes, status: int) -> None:
    async def test(stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        client.feed(request("GET", "/healthz") + raw + request("GET", "/healthz"))
        assert (await client.answer()).status == 200, "what was asked before is answered"
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert client.line.has_ended and client.take() is None
        assert (await other.ask("GET", "/healthz")).status == 200

    play(test)


def test_half_a_request_and_then_silence(play: Play) -> None:
    async def test(stage: Stage) -> None:
        clients = [stage.client() for _ in range(3)]
        clients[0].feed(b"GET / HT")
        clients[1].feed(request("POST", MESSAGES, b"{}", content_length="10"))
        gate = stage.doors.gate
        gate._sweep()
        for client in clients[:2]:
            client.connection._unfinished_at -= 61
        gate._sweep()
        for client in clients[:2]:
            answer = await client.answer()
            assert (answer.status, answer.json["code"]) == (408, "TimedOut")
            assert client.line.has_ended
        assert (await clients[2].ask("GET", "/healthz")).status == 200

    play(test)


def test_a_body_comes_when_it_is_asked_for(play: Play) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        head, _, body = request("POST", MESSAGES, message(), expect="100-continue").partition(b"\r\n\r\n")
        client.feed(head + b"\r\n\r\n")
        assert (await client.answer()).status == 100
        client.feed(body)
        assert (await client.answer()).status == 200
        large = request("POST", MESSAGES, expect="100-continue", content_length=str(BODY_BYTES_MAX + 1))
        client.feed(large)
        assert (await client.answer()).status == 413, "a body that is too large is not asked for"

    play(test)


def test_a_body_in_chunks(play: Play) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        client.feed(request("POST", MESSAGES, transfer_encoding="chunked", content_type="application/json"))
        for part in (b'{"topic": "orders",', b' "value": "x"}'):
            client.feed(b"%x\r\n%s\r\n" % (len(part), part))
        client.feed(b"0\r\n\r\n")
        assert (await client.answer()).json["offset"] == 0

    play(test)


def test_bodies_on_their_way_count_in_the_shared_memory(play: Play) -> None:
    async def test(stage: Stage) -> None:
        budget = stage.doors.gate.budget
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n"
        client, second, gone = stage.client(), stage.client(), stage.client()
        client.feed(head + b"x" * 700_000)
        assert not budget.fits(400_000)
        second.feed(head + b"x" * 500_000)
        answer = await second.answer()
        assert (answer.status, answer.json["code"]) == (429, "Throttled")
        client.feed(b"x" * 200_000)
        assert (await client.answer()).status == 404
        gone.feed(head + b"x" * 500_000)
        for one in (client, second, gone):
            await one.hang_up()
        assert budget.fits(1_000_000), "everything was given back"
        stage.clients.clear()

    play(test, inflight_bytes_max=1_200_000, frame_bytes_max=1_000_000)


def test_head_options_and_the_end_of_a_connection(play: Play) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        get, head = await client.ask("GET", "/healthz"), await client.ask("HEAD", "/healthz")
        assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.body))
        assert (head.status, head.body) == (200, b"")
        options = await client.ask("OPTIONS", "/api/v1/topics")
        assert (options.status, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
        refused = await client.ask("DELETE", "/api/v1/topics")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
        last = await client.ask("GET", "/healthz", connection="close")
        assert last.headers["connection"] == "close" and client.line.has_ended
        old = stage.client()
        old.feed(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert (await old.answer()).headers["connection"] == "close" and old.line.has_ended
        old = stage.client()
        old.feed(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (await old.answer()).headers["connection"] == "keep-alive" and not old.line.has_ended

    play(test)


def test_other_sites_are_let_in_by_the_setting_only(play: Play) -> None:
    preflight = {"origin": "https://a.example", "access_control_request_method": "POST"}

    async def closed(stage: Stage) -> None:
        answer = await stage.client().ask("OPTIONS", MESSAGES, **preflight)
        assert not [name for name in answer.headers if name.startswith("access-control")]

    async def opened(stage: Stage) -> None:
        client = stage.client()
        answer = await client.ask("OPTIONS", MESSAGES, **preflight)
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        assert answer.headers["access-control-allow-methods"] == "OPTIONS, POST"
        answer = await client.ask("GET", "/nowhere", origin="https://a.example")
        assert answer.headers["access-control-allow-origin"] == "https://a.example"
        answer = await client.ask("OPTIONS", MESSAGES, **preflight | {"origin": "https://b.example"})
        assert "access-control-allow-origin" not in answer.headers

    play(closed)
    play(opened, http_cors_origins="https://a.example, https://c.example")
