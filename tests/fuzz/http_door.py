"""What comes in at the HTTP door: the reader of requests by itself, messages as JSON, and the door at a live broker."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fuzz.door import live
from fuzz.target import Target
from http_client import request
from penstock.core.errors import BrokerError, InvalidRequest
from penstock.core.model import Record
from penstock.wire.http.messages import (
    MESSAGE_FIELDS,
    Show,
    check_object,
    read_message,
    read_object,
    show_message,
)
from penstock.wire.http.request import Request, RequestReader, Upgrade
from penstock.wire.http.response import json_bytes

BODY_BYTES_MAX = 3_000
TOPICS = ("orders", "orders", "new", "no%2Fname", "__consumer_offsets", "..")
QUERIES = (
    "",
    "?offset=0",
    "?offset=latest&max=2",
    "?values=base64",
    "?max=x",
    "?internal=true",
    "?a=%FF",
    "?json=a.b:1",
)
VALUES: tuple[Any, ...] = ("text", "", None, 7, {"a": [1, {"b": None}]}, [], True, 1.5)
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def make_requests(rng: Random) -> bytes:
    """A few requests of what the door knows, one of them perhaps a tail with frames behind it."""
    content = b"".join(_request(rng) for _ in range(rng.randint(1, 4)))
    if rng.random() < 0.2:
        content += request("GET", f"/api/v1/topics/orders/tail{rng.choice(QUERIES)}", **UPGRADE)
        content += b"".join(_frame(rng) for _ in range(rng.randint(0, 3)))
    return content


def _request(rng: Random) -> bytes:
    topic = rng.choice(TOPICS)
    match rng.randrange(7):
        case 0:
            return request("POST", "/api/v1/messages", {"topic": topic, **make_message(rng)})
        case 1:
            messages = [make_message(rng) for _ in range(rng.randint(0, 3))]
            return request("POST", "/api/v1/messages/batch", {"topic": topic, "messages": messages})
        case 2:
            body = {"name": topic, "partitions": rng.choice((1, 2, 0)), "configs": {"retention.ms": "5"}}
            return request("POST", "/api/v1/topics", body)
        case 3:
            method = "DELETE" if topic == "new" else rng.choice(("GET", "HEAD", "OPTIONS"))
            return request(method, f"/api/v1/topics/{topic}{rng.choice(QUERIES)}")
        case 4:
            change = {
                "partitions": rng.choice((2, 3)),
                "configs": {"retention.ms": rng.choice((None, "7", "x"))},
            }
            return request("PATCH", f"/api/v1/topics/{topic}", change)
        case 5:
            path = f"/api/v1/topics/{topic}/partitions/{rng.choice('0012x')}/messages{rng.choice(QUERIES)}"
            return request("GET", path, connection=rng.choice(("keep-alive", "keep-alive", "close")))
        case _:
            chunk = rng.randbytes(rng.randint(1, 40))
            head = request(
                "POST", "/api/v1/messages", transfer_encoding="chunked", content_type="application/json"
            )
            return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(chunk), chunk)


def make_message(rng: Random) -> dict[str, Any]:
    message: dict[str, Any] = {"value": rng.choice(VALUES)}
    if rng.random() < 0.3:
        message = {"value_base64": rng.choice(("", "AP8=", "A", "===="))}
    for name, choices in (
        ("key", ("k", None, 5)),
        ("headers", ({}, {"a": "b"}, {"a": [None, {"base64": "AA=="}]}, 3)),
        ("timestamp_ms", (0, 5.0, -1)),
    ):
        if rng.random() < 0.3:
            message[name] = rng.choice(choices)
    return message


def _frame(rng: Random) -> bytes:
    payload = rng.randbytes(rng.randint(0, 20))
    mask = bytes(4)
    return (
        bytes([rng.choice((0x81, 0x82, 0x88, 0x89, 0x8A, 0x01, 0x8F)), 0x80 | len(payload)]) + mask + payload
    )


def make_stream(rng: Random) -> bytes:
    """A byte that seeds how the stream is cut, then requests."""
    return rng.randbytes(1) + make_requests(rng)


def read_stream(content: bytes) -> str:
    """The same requests, and the same end, however the stream is cut; no body is over its limit."""
    whole, pieces = _events(content[1:], None), _events(content[1:], Random(content[:1]))
    assert whole == pieces
    return " ".join(sorted({kind for kind, *_ in whole}))


def _events(content: bytes, rng: Random | None) -> list[tuple[str, ...]]:
    reader = RequestReader(BODY_BYTES_MAX)
    found: list[tuple[str, ...]] = []
    while content:
        size = rng.randint(1, 50) if rng else len(content)
        part, content = content[:size], content[size:]
        for event in reader.feed(part):
            if isinstance(event, Request):
                assert len(event.body) <= BODY_BYTES_MAX
                found.append(
                    (event.method, event.path, repr(event.query), repr(event.headers), repr(event.body))
                )
            elif isinstance(event, Upgrade):
                found.append(("upgrade", event.request.path))
            else:
                found.append((type(event).__name__,))
            if isinstance(event, BrokerError | Upgrade):
                return found
    return [*found, ("midway",)] if reader.is_midway else found


def make_body(rng: Random) -> bytes:
    return json.dumps(make_message(rng)).encode()


def read_body(content: bytes) -> str:
    """A message, or why it is none; what became one is shown and read again the same."""
    try:
        record = read_message(check_object(read_object(content, MESSAGE_FIELDS), MESSAGE_FIELDS, "it"), "it")
    except InvalidRequest as error:
        return str(error)[:12]
    shown = show_message(
        Record(0, max(record.timestamp_ms, 0), record.key, record.value, record.headers), Show.TEXT
    )
    del shown["offset"]
    again = read_message(json.loads(json_bytes(shown)), "it")
    assert (again.key, again.value, sorted(again.headers, key=str)) == (
        record.key,
        record.value,
        sorted(record.headers, key=str),
    )
    return f"message with {min(len(record.headers), 2)} headers"


def read_door(content: bytes) -> str:
    return live().read(content, content[:20].partition(b" ")[0].decode("ascii", "replace"), "http")


TARGETS = (
    Target("http stream", make_stream, read_stream),
    Target("http message", make_body, read_body),
    Target("http door", make_requests, read_door),
)
