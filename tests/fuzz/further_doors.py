"""What comes in at the text and the JSON door: their decoders by themselves, and each door at a live broker."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fuzz.door import live
from fuzz.target import Target
from fuzz.wire import cut_any_way
from penstock.core.errors import Malformed
from penstock.wire.json.fields import Fields
from penstock.wire.json.frames import LENGTH_BYTES, decode_object, encode_object
from penstock.wire.json.messages import decode_message
from penstock.wire.text.commands import TextFraming, decode_command

TOPICS = ("orders", "orders", "new", "no/name", "__consumer_offsets", "")
NUMBERS = (0, 0, 1, 5, -1, 2**31, 2**63)
COMMANDS = (
    ("PRODUCE", ("topic", "message", "key", "headers", "time", "partition")),
    ("PRODUCE", ("topic", "messages", "partition")),
    ("CONSUME", ("topic", "partition", "offset", "max", "isolation")),
    ("CREATE_TOPIC", ("topic", "partitions", "config")),
    ("LIST_TOPICS", ()),
    ("METADATA", ("topic",)),
    ("JOIN", ("group", "topics", "member")),
    ("HEARTBEAT", ("group", "member", "epoch", "assignment")),
    ("LEAVE", ("group", "member")),
    ("COMMIT", ("group", "offsets", "member", "epoch")),
    ("OFFSETS", ("group", "topics")),
)


# -- text


def make_lines(rng: Random) -> bytes:
    return b"".join(_line(rng) for _ in range(rng.randint(1, 6)))


def _line(rng: Random) -> bytes:
    topic, end = rng.choice(TOPICS), rng.choice(("\r\n", "\n"))
    payload = rng.randbytes(rng.choice((0, 1, 30, 3_000)))
    more = rng.sample(
        ("partition=1", "key=a%20b", "time=7", "header.a=%FF", "header.b", "value=none"), rng.randint(0, 2)
    )
    asked = rng.sample(("partition=0", "wait=0", "form=full", "isolation=uncommitted"), rng.randint(0, 2))
    match rng.randrange(4):
        case 0 | 1:
            return f"PUB {topic} {len(payload)} {' '.join(more)}{end}".encode() + payload
        case 2:
            place = rng.choice((*map(str, NUMBERS), "first", "next"))
            return f"FETCH {topic} {place} {' '.join(asked)}{end}".encode()
        case _:
            return (rng.choice(("TOPICS", "HELP", "QUIT", "", "hello")) + end).encode()


def make_text_stream(rng: Random) -> bytes:
    return rng.randbytes(1) + make_lines(rng)


def read_text_stream(content: bytes) -> str:
    """Every frame is a command or malformed, and the same ones however the stream is cut."""
    frames, end = cut_any_way(content, TextFraming())
    kinds = set()
    for frame in frames:
        try:
            kinds.add(type(decode_command(frame)).__name__)
        except Malformed:
            kinds.add("malformed")
    return f"{' '.join(sorted(kinds))}, {end}"


def read_text_door(content: bytes) -> str:
    return live().read(content, content[:3].decode("ascii", "replace"), "text")


# -- JSON


def make_frames(rng: Random) -> bytes:
    return b"".join(encode_object(_request(rng)) for _ in range(rng.randint(1, 4)))


def _request(rng: Random) -> dict[str, Any]:
    command, names = rng.choice(COMMANDS)
    request = {"command": command, **{name: _value(name, rng) for name in names if rng.random() < 0.9}}
    return request | ({"id": rng.choice((1, "a", None, 0.5))} if rng.random() < 0.5 else {})


def _value(name: str, rng: Random) -> Any:  # the values of one field, right and wrong
    match name:
        case "topic":
            return rng.choice(TOPICS)
        case "message" | "key":
            return rng.choice(("", "text", "\u00fc", None, 7))
        case "headers":
            return rng.choice(({"a": "1"}, [{"name": "a", "value_base64": "/w=="}], [], None, 7))
        case "messages":
            return [{"message": "a"}] * rng.randint(0, 3)
        case "offsets" | "assignment":
            return [{"topic": rng.choice(TOPICS), "partition": rng.choice(NUMBERS)}] * rng.randint(0, 2)
        case "topics":
            return rng.sample(TOPICS, rng.randint(0, 2))
        case "config":
            return rng.choice(({}, {"retention.ms": 5}, {"no.such": "x"}, []))
        case "group" | "member":
            return rng.choice(("g", "h", ""))
        case "isolation":
            return rng.choice(("read_committed", "read_uncommitted", "none"))
        case "offset":
            return rng.choice((*NUMBERS, "earliest", "latest", {"time": 5}))
    return rng.choice(NUMBERS)


def make_json(rng: Random) -> bytes:
    return encode_object(_request(rng))[LENGTH_BYTES:]


def read_json(content: bytes) -> str:
    """What is read can be written, and is read the same again; as is a message in it."""
    try:
        found = decode_object(content)
    except Malformed:
        return "malformed"
    again = encode_object(found)[LENGTH_BYTES:]
    assert json.loads(again) == decode_object(again) == found
    try:
        record = decode_message(Fields(found, "a request"))
    except Malformed:
        return "no message"
    return f"message with {min(len(record.headers), 2)} headers"


def read_json_door(content: bytes) -> str:
    name = content[LENGTH_BYTES:].partition(b'"command":"')[2].partition(b'"')[0]
    return live().read(content, name[:20].decode("ascii", "replace"), "json")


TARGETS = (
    Target("text stream", make_text_stream, read_text_stream),
    Target("text door", make_lines, read_text_door),
    Target("json", make_json, read_json),
    Target("json door", make_frames, read_json_door),
)
