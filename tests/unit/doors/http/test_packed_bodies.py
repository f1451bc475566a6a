"""Bodies packed with gzip: within limits, in order, and nothing else is understood."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from http_client import request
from manual_ports import turns
from memory_broker import make_topic
from penstock.doors.http.conversation import BODY_BYTES_MAX
from penstock.doors.http.dispatch import INFLATED_BYTES_AT_ONCE

from .conftest import Stage
from .test_server import MESSAGES, READ, HoldableWorkers, message

Play = Callable[..., None]


def packed(body: Any, coding: str = "gzip") -> bytes:
    return request("POST", MESSAGES, gzip.compress(json.dumps(body).encode()), content_encoding=coding)


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP"])
@pytest.mark.parametrize("size", [0, 10, INFLATED_BYTES_AT_ONCE, 600_000])
def test_a_packed_message_is_stored_as_it_was(play: Play, coding: str, size: int) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        client.feed(packed(message(value="ü" * size), coding))
        assert (await client.answer()).json["offset"] == 0
        found = await client.ask("GET", READ)
        assert found.json["messages"][0]["value"] == "ü" * size

    play(test, message_bytes_max=2_000_000)


def test_identity_is_no_packing(play: Play) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        assert (await client.ask("POST", MESSAGES, message(), content_encoding="identity")).status == 200

    play(test)


@pytest.mark.parametrize("coding", ["br", "deflate", "zstd", "gzip, gzip", "identity, gzip", "compress"])
def test_other_packings_are_refused_with_what_is_understood(play: Play, coding: str) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        answer = await client.ask("POST", MESSAGES, message(), content_encoding=coding)
        assert (answer.status, answer.json["code"]) == (415, "UnknownCoding")
        assert answer.headers["accept-encoding"] == "gzip"
        assert (await client.ask("POST", MESSAGES, message())).status == 200

    play(test)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "is truncated"),
        (b"no gzip", 400, "not valid gzip"),
        (gzip.compress(b"{}" * 9_000)[:-20], 400, "is truncated"),
        (gzip.compress(b"{}") + b"more", 400, "data after the end"),
        (gzip.compress(b"{}") * 2, 400, "data after the end"),
        (gzip.compress(bytes(BODY_BYTES_MAX + 1)), 413, f"limit of {BODY_BYTES_MAX}"),
        (gzip.compress(bytes(8 * BODY_BYTES_MAX)), 413, f"limit of {BODY_BYTES_MAX}"),
    ],
    ids=["empty", "other", "cut", "tail", "twice", "large", "bomb"],
)
def test_what_cannot_be_inflated_is_refused_and_the_connection_goes_on(
    play: Play, body: bytes, status: int, words: str
) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        answer = await client.ask("POST", MESSAGES, body, content_encoding="gzip")
        assert answer.status == status and words in answer.json["detail"]
        assert (await client.ask("POST", MESSAGES, message())).status == 200
        stage.clients.clear()
        await client.hang_up()
        assert stage.doors.gate.budget.fits(stage.doors.gate.budget.bytes_max), "all memory was given back"

    play(test)


def test_a_large_body_is_inflated_off_the_loop_and_is_not_overtaken(play: Play) -> None:
    workers = HoldableWorkers()

    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        client = stage.client()
        workers.held = []
        client.feed(packed(message(value="a" * 200_000)) + request("POST", MESSAGES, message(value="b")))
        await turns(20)
        assert len(workers.held) == 1, "inflating, and the second write has not begun"
        assert workers.let_go() == 1
        assert [(await client.answer()).json["offset"] for _ in range(2)] == [0, 1]
        found = (await client.ask("GET", f"{READ}?max=2")).json["messages"]
        assert [one["value"][0] for one in found] == ["a", "b"]

    play(test, workers=workers)


def test_a_write_does_not_overtake_the_making_of_its_topic(play: Play) -> None:
    workers = HoldableWorkers()

    async def test(stage: Stage) -> None:
        client = stage.client()
        workers.held = []
        made = request("POST", "/api/v1/topics", {"name": "orders", "partitions": 3})
        client.feed(made + request("POST", MESSAGES, message(partition=2)))
        await turns(20)
        workers.let_go()
        assert (await client.answer()).status == 201
        assert (await client.answer()).json["partition"] == 2

    play(test, workers=workers)
