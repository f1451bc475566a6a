"""The largest legal requests of the HTTP, JSON, text and queue doors, and larger ones: nobody else waits for them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import NamedTuple

import pytest
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from compat.raw import RawConnection
from hostile.harness import Harness, ProbedBroker
from hostile.messages import Line, framed, http, json_frame, queue_frame
from penstock.wire.queue.frames import MessageType

BROKER_FLAGS = {"storage": "memory"}
TOPICS, TOPICS_PER_CALL = 4_000, 500
WIDE, WIDE_PARTITIONS = "wide", 10_000
GROUPS = 2_000
SUBSCRIPTIONS = 2_000
BATCH = 10_000
BODY_BYTES = 15 << 20
JSON_FRAME_BYTES = 60 << 20


@pytest.fixture(scope="module")
def broker(broker: ProbedBroker) -> ProbedBroker:
    """The broker, with thousands of topics, groups and subscriptions."""
    with RawConnection(broker.bootstrap) as raw:
        raw.create_topic(WIDE, WIDE_PARTITIONS)
        for first in range(0, TOPICS, TOPICS_PER_CALL):
            wanted = [_new_topic(number) for number in range(first, first + TOPICS_PER_CALL)]
            answer = raw.call(CreateTopicsRequest, 5, topics=wanted, timeout_ms=60_000, validate_only=False)
            assert not any(one.error_code for one in answer.topics)
        raw.call(FindCoordinatorRequest, 1, key="group-0", key_type=0)
        for number in range(GROUPS):
            raw.send(OffsetCommitRequest, 7, **_commit(f"group-{number}", 1))
        raw.send(OffsetCommitRequest, 7, **_commit("wide-group", WIDE_PARTITIONS))
        for _ in range(GROUPS + 1):
            raw.receive()
    return broker


@pytest.fixture(scope="module")
def subscriptions(broker: ProbedBroker, _harness: Harness) -> None:
    with Line(_harness, "queue") as line:
        for number in range(SUBSCRIPTIONS):
            named = ("@subscription", f"subscription-{number}")
            line.send(queue_frame(MessageType.CREATE_SUBSCRIPTION, named, ("@topic", "topic-0")))
        wide = (("@subscription", "wide"), ("@topic", WIDE))
        line.send(queue_frame(MessageType.CREATE_SUBSCRIPTION, *wide))
        for _ in range(SUBSCRIPTIONS + 1):
            assert b"@status=success" in line.answer()


def _new_topic(number: int) -> dict[str, object]:
    name = f"topic-{number}"
    return {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": [], "assignments": []}


def _commit(group: str, count: int) -> dict[str, object]:
    rows = [
        {"partition_index": index, "committed_offset": 0, "committed_metadata": ""} for index in range(count)
    ]
    topics = [{"name": WIDE, "partitions": rows}]
    return {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}


def _filled(start: bytes, element: bytes, end: bytes, size: int) -> bytes:
    """A body of about this size that repeats one element."""
    return start + b",".join([element] * ((size - len(start) - len(end)) // (len(element) + 1))) + end


def _batch(topic: str, message: object) -> bytes:
    return json.dumps({"topic": topic, "messages": [message] * BATCH}).encode()


class Attack(NamedTuple):
    """One request. `expected` is in its answer."""

    door: str
    name: str
    request: Callable[[], bytes]
    expected: bytes
    is_short: bool = False


def _publish(body: bytes, *headers: str) -> bytes:
    return http("POST", "/api/v1/messages/batch", body, headers=headers)


ROW = {"value": {f"field-{number}": number for number in range(40)}, "key": "k", "headers": {"a": "b"}}
DEEP = b"[" * 100_000 + b"]" * 100_000
HEADERS = {f"h{number}": "v" for number in range(100_000)}
OFFSETS = [{"topic": WIDE, "partition": index, "offset": 0} for index in range(WIDE_PARTITIONS)]
NAMES = [f"topic-{number}" for number in range(TOPICS)]

ATTACKS = [
    Attack("http", f"batch x {BATCH:,}", lambda: _publish(_batch("topic-1", {"value": "v"})), b"200 OK", True),
    Attack("http", f"batch x {BATCH:,}, many partitions",
           lambda: _publish(json.dumps({"topic": WIDE, "messages":
                            [{"value": "v", "key": str(n)} for n in range(BATCH)]}).encode()), b"200 OK"),
    Attack("http", f"batch x {BATCH:,}, all refused",
           lambda: _publish(_batch("topic-1", {"value": "v"}).replace(b'"topic-1"', b'"topic-1","partition":9')),
           b"404"),
    Attack("http", f"batch x {BATCH:,} of 1.4 KB", lambda: _publish(_batch("topic-1", {"value": "v" * 1400})),
           b"200 OK"),
    Attack("http", "batch of objects, 7 MB", lambda: _publish(_batch("topic-1", ROW)), b"200 OK"),
    Attack("http", "batch, gzip, 15 MB",
           lambda: _publish(gzip.compress(_batch("topic-1", {"value": "v" * 1400}), 1), "Content-Encoding: gzip"),
           b"200 OK"),
    Attack("http", "batch of empty lists, 15 MB",
           lambda: _publish(_filled(b'{"topic":"topic-1","messages":[', b"[]", b"]}", BODY_BYTES)), b"413", True),
    Attack("http", "value of empty lists, 15 MB",
           lambda: http("POST", "/api/v1/messages",
                        _filled(b'{"topic":"topic-1","value":[', b"[]", b"]}", BODY_BYTES)), b"413"),
    Attack("http", "value of empty objects, 1 MB",
           lambda: http("POST", "/api/v1/messages",
                        _filled(b'{"topic":"topic-1","value":[', b"{}", b"]}", 1 << 20)), b"HTTP"),
    Attack("http", "value of 15 MB text",
           lambda: http("POST", "/api/v1/messages",
                        _filled(b'{"topic":"topic-1","value":"', b"1,[{", b'"}', BODY_BYTES)), b"413"),
    Attack("http", "value of 15 MB escapes",
           lambda: http("POST", "/api/v1/messages", b'{"topic":"topic-1","value":"' + rb"\u0041" * 2_600_000 + b'"}'),
           b"413"),
    Attack("http", "nesting of 100,000", lambda: _publish(b'{"topic":"topic-1","messages":' + DEEP + b"}"), b"400",
           True),
    Attack("http", "100,000 headers of a message",
           lambda: http("POST", "/api/v1/messages",
                        json.dumps({"topic": "topic-1", "value": "v", "headers": HEADERS}).encode()), b"HTTP"),
    Attack("http", "5,000 headers", lambda: http("GET", "/healthz", headers=[f"a{n}: b" for n in range(5_000)]),
           b"431"),
    Attack("http", "5,000 query fields",
           lambda: http("GET", "/api/v1/topics?" + "&".join(f"a{n}=b" for n in range(5_000))), b"HTTP"),
    Attack("http", "50,000 settings of a new topic",
           lambda: http("POST", "/api/v1/topics",
                        json.dumps({"name": "x", "configs": {f"c{n}": "v" for n in range(50_000)}}).encode()),
           b"HTTP"),
    Attack("http", "topics", lambda: http("GET", "/api/v1/topics?internal=true"), b"topic-3999", True),
    Attack("http", "one topic x 10,000 partitions", lambda: http("GET", f"/api/v1/topics/{WIDE}"),
           b'"partition":9999'),
    Attack("http", "groups", lambda: http("GET", "/api/v1/groups"), b"group-1999", True),
    Attack("http", "lag x 10,000 partitions", lambda: http("GET", "/api/v1/groups/wide-group/lag"),
           b'"partition":9999'),
    Attack("http", "metrics", lambda: http("GET", "/metrics"), b"topic-3999", True),
    Attack("http", "readyz", lambda: http("GET", "/readyz"), b"ready"),
    Attack("http", "openapi", lambda: http("GET", "/openapi.json"), b"openapi"),
    Attack("http", f"read x {BATCH:,}",
           lambda: http("GET", "/api/v1/topics/topic-1/partitions/0/messages?max=10000&max_bytes=16777216"), b"200"),
    Attack("json", f"PRODUCE x {BATCH:,}",
           lambda: json_frame("PRODUCE", topic="topic-2", messages=[{"message": "v"}] * BATCH), b'"ok":true', True),
    Attack("json", f"CONSUME x {BATCH:,}",
           lambda: json_frame("CONSUME", topic="topic-2", max=BATCH), b'"ok":true'),
    Attack("json", "PRODUCE of empty lists, 60 MB",
           lambda: framed(_filled(b'{"command":"PRODUCE","topic":"topic-2","messages":[', b"[]", b"]}",
                                  JSON_FRAME_BYTES)), b'"ok":false'),
    Attack("json", "PRODUCE of 60 MB text",
           lambda: json_frame("PRODUCE", topic="topic-2", message="v" * JSON_FRAME_BYTES), b'"ok":false'),
    Attack("json", "nesting of 100,000",
           lambda: framed(b'{"command":"PRODUCE","topic":"topic-2","messages":' + DEEP + b"}"), b'"ok":false', True),
    Attack("json", "100,000 headers of a message",
           lambda: json_frame("PRODUCE", topic="topic-2", message="v", headers=HEADERS), b'"ok"'),
    Attack("json", "LIST_TOPICS", lambda: json_frame("LIST_TOPICS"), b"topic-3999", True),
    Attack("json", "METADATA", lambda: json_frame("METADATA"), b"topic-3999", True),
    Attack("json", "OFFSETS of all topics", lambda: json_frame("OFFSETS", topics=[*NAMES, WIDE]), b'"ok":true'),
    Attack("json", "OFFSETS of one topic x 1,000", lambda: json_frame("OFFSETS", topics=[WIDE] * 1_000),
           b'"ok":false'),
    Attack("json", "OFFSETS of a group", lambda: json_frame("OFFSETS", group="wide-group", topics=[WIDE]),
           b'"ok":true'),
    Attack("json", "COMMIT x 10,000", lambda: json_frame("COMMIT", group="json-group", offsets=OFFSETS),
           b'"ok":true', True),
    Attack("json", "COMMIT x 100,000", lambda: json_frame("COMMIT", group="json-group", offsets=OFFSETS * 10),
           b'"ok"'),
    Attack("json", "JOIN with 4,000 topics", lambda: json_frame("JOIN", group="json-members", topics=NAMES),
           b'"ok":true'),
    Attack("json", "JOIN with 1,000,000 names",
           lambda: json_frame("JOIN", group="json-members", topics=["t"] * 1_000_000), b'"ok":false'),
    Attack("json", "HEARTBEAT with 100,000 partitions",
           lambda: json_frame("HEARTBEAT", group="json-members", member="m", epoch=1,
                              assignment=[{"topic": WIDE, "partition": n % 10_000} for n in range(100_000)]),
           b'"ok":false'),
    Attack("text", "TOPICS", lambda: b"TOPICS\r\n", b"topic-3999", True),
    Attack("text", "100,000 headers of a message",
           lambda: b"PUB topic-3 1 " + b" ".join(b"header.h%d=v" % n for n in range(100_000)) + b"\r\nv\r\n", b""),
    Attack("queue", "100,000 properties",
           lambda: queue_frame(MessageType.PUBLISH, ("@topic", "topic-4"), *HEADERS.items(), body=b"v"), b"@status",
           True),
    Attack("queue", "5,000,000 properties",
           lambda: queue_frame(MessageType.PUBLISH, ("@topic", "topic-4"), *[("h", "v")] * 5_000_000, body=b"v"),
           b"@status"),
    Attack("queue", "one property of 60 MB",
           lambda: queue_frame(MessageType.PUBLISH, ("@topic", "x" * JSON_FRAME_BYTES), body=b"v"), b"@status"),
]  # fmt: skip
LISTS = [
    Attack("queue", "LIST_SUBSCRIPTIONS", lambda: queue_frame(MessageType.LIST_SUBSCRIPTIONS), b"subscription-1999"),
    Attack("queue", "DESCRIBE_SUBSCRIPTION x 10,000",
           lambda: queue_frame(MessageType.DESCRIBE_SUBSCRIPTION, ("@subscription", "wide")), b'"partition": 9999'),
]  # fmt: skip


def _marked(attacks: list[Attack]) -> list[object]:
    return [
        pytest.param(one, marks=[] if one.is_short else pytest.mark.slow, id=f"{one.door}-{one.name}")
        for one in attacks
    ]


def _carry_out(harness: Harness, attack: Attack) -> None:
    request = attack.request()

    def ask() -> bytes:
        with Line(harness, attack.door) as line:
            return line.ask(request)

    answer = harness.measure(attack.door, attack.name, ask)
    assert attack.expected in answer, answer[:1_000]


@pytest.mark.parametrize("attack", _marked(ATTACKS))
def test_a_large_request_keeps_nobody_waiting(harness: Harness, attack: Attack) -> None:
    _carry_out(harness, attack)


@pytest.mark.slow
@pytest.mark.usefixtures("subscriptions")
@pytest.mark.parametrize("attack", _marked(LISTS))
def test_a_list_of_subscriptions_keeps_nobody_waiting(harness: Harness, attack: Attack) -> None:
    _carry_out(harness, attack)


PIPELINED = [
    Attack("http", "20,000 pipelined GET", lambda: http("GET", "/healthz") * 20_000, b"alive", True),
    Attack("http", "500 pipelined lists of topics", lambda: http("GET", "/api/v1/topics") * 500, b"topic-1"),
    Attack("json", "20,000 pipelined PRODUCE",
           lambda: json_frame("PRODUCE", topic="topic-5", message="v") * 20_000, b'"ok":true'),
    Attack("text", "50,000 pipelined PUB", lambda: b"PUB topic-6 1\r\nv\r\n" * 50_000, b"OK", True),
    Attack("text", "50,000 pipelined HELP", lambda: b"HELP\r\n" * 50_000, b"HELP"),
    Attack("queue", "50,000 pipelined HEARTBEAT", lambda: queue_frame(MessageType.HEARTBEAT) * 50_000, b""),
]  # fmt: skip


@pytest.mark.parametrize("attack", _marked(PIPELINED))
def test_pipelined_requests_keep_nobody_waiting(harness: Harness, attack: Attack) -> None:
    """Not one answer is waited for before the last request is sent."""
    content = attack.request()

    def drain() -> bytes:
        with Line(harness, attack.door) as line:
            return line.drain(content)

    received = harness.measure(attack.door, attack.name, drain)
    assert attack.expected in received[:1_000], received[:1_000]
