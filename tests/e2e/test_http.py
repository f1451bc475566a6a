"""The HTTP door on a real broker: clients that do nothing, do not read, lose their broker; and what is logged."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.testing import Broker, running_broker

IDLE = 1_000
IDLE_KB_MAX = 64
"""What one idle connection may cost: a buffer of 16 KiB, its sockets' bookkeeping, and a parser."""

MESSAGE_CHARS = 10_000
UNREAD_MB = 30
UNREAD_GROWTH_MB_MAX = 20
WAIT_S = 60.0
POLL_S = 0.02


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(log_format="json", durability="os") as running:
        yield running
        assert "Traceback" not in running.output()
        assert "defect" not in running.output()


def url(broker: Broker, path: str) -> str:
    return f"http://{broker.host}:{broker.http_port}{path}"


def connect(broker: Broker, port: int | None = None) -> socket.socket:
    return socket.create_connection((broker.host, port or broker.http_port), timeout=WAIT_S)


def metric(broker: Broker, name: str) -> float:
    lines = httpx.get(url(broker, "/metrics"), timeout=WAIT_S).text.splitlines()
    (value,) = [line.split()[-1] for line in lines if line.rpartition(" ")[0] == name]
    return float(value)


def resident_mb(broker: Broker) -> float:
    return metric(broker, "process_resident_memory_bytes") / 2**20


def test_a_thousand_who_do_nothing(broker: Broker) -> None:
    httpx.post(url(broker, "/api/v1/messages"), json={"topic": "busy", "value": "x"}).raise_for_status()
    before_mb = resident_mb(broker)
    with ExitStack() as crowd:
        for _ in range(IDLE):
            crowd.enter_context(connect(broker))
        until(lambda: metric(broker, 'penstock_connections{door="http"}') >= IDLE)
        answer = httpx.post(url(broker, "/api/v1/messages"), json={"topic": "busy", "value": "x"})
        assert answer.json()["offset"] == 1
        assert resident_mb(broker) - before_mb < IDLE * IDLE_KB_MAX / 1024
    until(lambda: metric(broker, 'penstock_connections{door="http"}') < IDLE / 2)


def until(condition: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(POLL_S)


def test_a_tail_that_nobody_reads(broker: Broker) -> None:
    """It costs its small window; when the reader comes back, nothing is missing."""
    httpx.post(url(broker, "/api/v1/topics"), json={"name": "unread"}).raise_for_status()
    batch = {"topic": "unread", "messages": [{"value": "x" * MESSAGE_CHARS}] * 100}
    count = UNREAD_MB * 2**20 // (100 * MESSAGE_CHARS)
    with connect(broker) as line:
        line.sendall(
            b"GET /api/v1/topics/unread/tail HTTP/1.1\r\nHost: localhost\r\n"
            b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        reader = line.makefile("rb")
        assert b" 101 " in reader.readline()
        while reader.readline() != b"\r\n":
            pass
        with httpx.Client(timeout=WAIT_S) as client:
            client.post(url(broker, "/api/v1/messages/batch"), json=batch).raise_for_status()
            before_mb = resident_mb(broker)
            for _ in range(count - 1):
                client.post(url(broker, "/api/v1/messages/batch"), json=batch).raise_for_status()
        assert resident_mb(broker) - before_mb < UNREAD_GROWTH_MB_MAX
        assert [read_frame(reader)["offset"] for _ in range(count * 100)] == list(range(count * 100))


def read_frame(reader: Any) -> Any:
    """The JSON of one unmasked frame."""
    head = reader.read(2)
    assert head[0] == 0x81, "a whole text"
    length = head[1]
    if length >= 126:
        length = int.from_bytes(reader.read(2 if length == 126 else 8), "big")
    return json.loads(reader.read(length))


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        acknowledged = 0
        for number in range(10):
            messages = [{"value": number * 20 + index} for index in range(20)]
            answer = httpx.post(
                url(broker, "/api/v1/messages/batch"), json={"topic": "kept", "messages": messages}
            )
            acknowledged += len(answer.json()["results"])
        broker.kill()
        broker.start()
        read = httpx.get(url(broker, "/api/v1/topics/kept/partitions/0/messages?max=1000")).json()
        assert [int(one["value"]) for one in read["messages"]] == list(range(acknowledged))


def test_every_door_says_in_the_log_who_it_was(broker: Broker) -> None:
    """One JSON object per line, with the door, the peer and the client's own name where it gave one."""
    ports = {
        "kafka": broker.port,
        "text": broker.text_port,
        "json": broker.json_port,
        "queue": broker.queue_port,
        "http": broker.http_port,
    }
    for door, port in ports.items():
        with connect(broker, port) as line:
            name = "{}:{}".format(*line.getsockname())
            line.sendall(
                b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nUser-Agent: me\r\n\r\n"
                if door == "http"
                else b""
            )
            line.sendall(b"\xff" * 20_000)
            while _received(line):
                pass
            until(lambda name=name: find(broker, name))
            entry = find(broker, name)
            assert (entry["door"], entry["level"], entry["logger"]) == (door, "warning", f"penstock.{door}")
            assert entry["client_id"] == ("me" if door == "http" else "")
            assert entry["message"].startswith("closing connection: ")


def _received(line: socket.socket) -> bytes:
    try:
        return line.recv(65536)
    except ConnectionResetError:
        return b""


def find(broker: Broker, peer: str) -> dict[str, Any]:
    """The line about one client."""
    found = [entry for entry in map(json.loads, whole_lines(broker)) if entry.get("peer") == peer]
    return found[0] if found else {}


def whole_lines(broker: Broker) -> list[str]:
    return [line for line in broker.output().splitlines(keepends=True) if line.endswith("\n")]
