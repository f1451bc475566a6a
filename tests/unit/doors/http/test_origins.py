"""Which hosts and pages the HTTP door accepts: a page must not reach the broker by a name or an origin of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from http_client import Answer, request
from memory_broker import SETTINGS, make_topic
from penstock.doors.http.origins import Hosts
from penstock.wire.http.request import Request

from .conftest import Stage
from .test_tail import TAIL, UPGRADE

Play = Callable[..., None]
TOPIC = "/api/v1/topics/orders"


def is_allowed(host: str, /, **settings: Any) -> bool:
    return Hosts(replace(SETTINGS, **settings)).allows(Request(headers={"host": host}))


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost.:80",
        "127.0.0.1:9080",
        "[::1]",
        "[::1]:9080",
        "10.1.2.3",
        "[fe80::1%eth0]:1",
        "192.0.2.1:",
    ],
)
def test_addresses_and_localhost_are_always_accepted(host: str) -> None:
    assert is_allowed(host)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:9080", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost",
     "2130706433", "0x7f.1", "localhost, evil.example", "user@localhost", "localhost/", "[::1", "::1", "[evil]"],
)  # fmt: skip
def test_other_names_are_not(host: str) -> None:
    assert not is_allowed(host)


def test_names_of_the_settings_are_accepted() -> None:
    assert is_allowed("broker.example:1", advertised_host="broker.example")
    assert is_allowed("box", host="box")
    assert is_allowed("A.example", http_allowed_hosts="b.example, a.example")
    assert is_allowed("x.y.internal", http_allowed_hosts=".internal") and is_allowed(
        "internal", http_allowed_hosts=".internal"
    )
    assert not is_allowed("notinternal", http_allowed_hosts=".internal")
    assert is_allowed("anything.example", http_allowed_hosts="*")


def test_listening_on_all_addresses_accepts_the_name_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Box7")
    assert is_allowed("box7:9080", host="0.0.0.0") and is_allowed("box7", host="::")
    assert not is_allowed("box7", host="127.0.0.1")


def test_the_host_in_the_target_counts_as_well() -> None:
    asked = Request(headers={"host": "localhost"}, authority="evil.example")
    assert not Hosts(SETTINGS).allows(asked)
    assert Hosts(SETTINGS).allows(Request(headers={"host": "localhost"}, authority="[::1]"))
    assert Hosts(SETTINGS).allows(Request(is_old=True)), "HTTP/1.0 need not name a host"


def test_a_rebound_name_reads_and_changes_nothing(play: Play) -> None:
    """DNS rebinding: the page's own name leads here, so for the browser all of this is same-origin."""
    page = {"host": "evil.example:9080", "origin": "http://evil.example:9080"}

    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")

        async def ask(method: str, path: str, body: Any = None) -> Answer:
            return await stage.client().ask(method, path, body, **page)

        for answer in (
            await ask("GET", "/api/v1/topics"),
            await ask("GET", "/metrics"),
            await ask("GET", "/nowhere"),
            await ask("OPTIONS", "/api/v1/topics"),
            await ask("POST", "/api/v1/messages", {"topic": "orders", "value": "x"}),
            await ask("DELETE", TOPIC),
            await stage.client().ask("GET", TAIL, **UPGRADE | page),
        ):
            assert (answer.status, answer.json["code"]) == (421, "UnknownHost")
            assert "http_allowed_hosts" in answer.json["what_to_do"]
        assert stage.broker.catalog.find("orders") is not None
        assert stage.broker.partition("orders", 0).log.high_watermark == 0

    play(test)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1234", "file://localhost", "x"]
)
def test_pages_of_other_origins_change_nothing(play: Play, origin: str) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        client = stage.client()
        for method, path, body in (
            ("POST", "/api/v1/messages", {"topic": "orders", "value": "x"}),
            ("POST", "/api/v1/topics", {"name": "more"}),
            ("PATCH", TOPIC, {"partitions": 2}),
            ("DELETE", TOPIC, None),
        ):
            answer = await client.ask(method, path, body, origin=origin)
            assert (answer.status, answer.json["code"]) == (403, "ForeignOrigin"), method
            assert "http_cors_origins" in answer.json["what_to_do"]
        assert (await client.ask("GET", TOPIC, origin=origin)).status == 200, (
            "the browser keeps the answer from the page"
        )
        assert stage.broker.partition("orders", 0).log.high_watermark == 0

    play(test)


def test_pages_of_this_door_and_of_the_settings_may(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        for host, origin in (
            ("localhost:9080", "http://localhost:9080"),
            ("10.0.0.1", "https://10.0.0.1"),
            ("localhost", "https://app.example"),
        ):
            client = stage.client()
            client.feed(
                request(
                    "POST", "/api/v1/messages", {"topic": "orders", "value": "x"}, host=host, origin=origin
                )
            )
            assert (await client.answer()).status == 200

    play(test, http_cors_origins="https://app.example")
