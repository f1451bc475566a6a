"""What a web page can make a browser send to a broker on its reader's machine, against a real broker.

A page chooses the path, the body and some headers of requests to any port. It cannot leave out the request line, and
before anything unusual the browser asks by OPTIONS. It reads no answer, unless a name of its own leads to this machine.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from penstock.testing import Broker, running_broker
from penstock.wire.foreign_protocol import HTTP_ANSWER

SECONDS_MAX = 30
SMUGGLED = b"PUB smuggled 4\r\nevil\r\nPUB smuggled 4\r\nevil\r\n"
SHAPES = {
    "fetch": b"POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n"
    b"Content-Length: %d\r\n\r\n" % len(SMUGGLED),
    "form": b"POST /%0d%0aPUB HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    b"Content-Length: 9999\r\n\r\n--b\r\n\r\n",
    "preflight": b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nAccess-Control-Request-Method: PUB\r\n\r\n",
    "websocket": b"GET /chat HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
CLIENT_HELLO = bytes.fromhex("16030102000100") + b"\x01\xfc\x03\x03" + bytes(32) + b"\r\n"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as broker:
        yield broker


def port_of(broker: Broker, door: str) -> int:
    return broker.port if door == "kafka" else int(getattr(broker, f"{door}_port"))


def send(port: int, content: bytes) -> bytes:
    """All that comes back until the broker ends the connection."""
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as line:
        line.sendall(content)
        found = b""
        while piece := _received(line):
            found += piece
        return found


def _received(line: socket.socket) -> bytes:
    try:
        return line.recv(65_536)
    except ConnectionResetError:
        return b""


def ask(
    broker: Broker, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    line = HTTPConnection("127.0.0.1", broker.http_port, timeout=SECONDS_MAX)
    content = None if body is None else json.dumps(body)
    line.request(method, path, content, {"Content-Type": "application/json", **headers})
    answer = line.getresponse()
    found = answer.read()
    line.close()
    return answer.status, json.loads(found or b"{}")


def topics(broker: Broker) -> set[str]:
    return {one["name"] for one in ask(broker, "GET", "/api/v1/topics")[1]["topics"]}


@pytest.mark.parametrize("door", ["text", "json", "queue", "kafka"])
@pytest.mark.parametrize("shape", SHAPES)
def test_http_at_another_door_is_answered_once_and_executes_nothing(
    broker: Broker, door: str, shape: str
) -> None:
    assert send(port_of(broker, door), SHAPES[shape] + SMUGGLED) == HTTP_ANSWER
    assert "http_port" in broker.output()
    assert "smuggled" not in topics(broker)


@pytest.mark.parametrize("door", ["text", "json", "queue", "kafka", "http"])
def test_tls_at_a_plaintext_door_is_named_in_the_log(broker: Broker, door: str) -> None:
    logged = len(broker.output())
    assert send(port_of(broker, door), CLIENT_HELLO + SMUGGLED) == b""
    assert "TLS" in broker.output()[logged:] and f"door={door}" in broker.output()[logged:]
    assert "smuggled" not in topics(broker)


def test_what_is_no_command_ends_the_conversation_at_the_text_door(broker: Broker) -> None:
    for start in (b"Host: localhost", b"SMUGGLE", b"\x80\x81", b"EHLO me"):
        found = send(broker.text_port, start + b"\r\n" + SMUGGLED)
        assert found.startswith(b"ERR malformed unknown command") and found.count(b"\r\n") == 1
    assert "smuggled" not in topics(broker)


def test_a_rebound_name_gets_nothing(broker: Broker) -> None:
    assert ask(broker, "POST", "/api/v1/topics", {"name": "precious"})[0] == 201
    page = {"Host": f"evil.example:{broker.http_port}", "Origin": f"http://evil.example:{broker.http_port}"}
    for method, path, body in (
        ("GET", "/api/v1/topics", None),
        ("GET", "/metrics", None),
        ("POST", "/api/v1/messages", {"topic": "precious", "value": "evil"}),
        ("DELETE", "/api/v1/topics/precious", None),
    ):
        status, told = ask(broker, method, path, body, **page)
        assert (status, told["code"]) == (421, "UnknownHost")
    assert "precious" in topics(broker)


def test_a_foreign_page_changes_nothing_and_opens_no_tail(broker: Broker) -> None:
    assert ask(broker, "POST", "/api/v1/topics", {"name": "dear"})[0] == 201
    for origin in ("http://evil.example", "null"):
        assert ask(broker, "DELETE", "/api/v1/topics/dear", Origin=origin)[0] == 403
        found = send(
            broker.http_port,
            b"GET /api/v1/topics/dear/tail HTTP/1.1\r\nHost: localhost\r\nOrigin: %s\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n"
            % (origin.encode(), b"dGhlIHNhbXBsZSBub25jZQ=="),
        )
        assert found.startswith(b"HTTP/1.1 403 ")
    assert "dear" in topics(broker)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "10.11.12.13"])
def test_probes_and_scrapers_by_address_are_served(broker: Broker, host: str) -> None:
    found = send(
        broker.http_port,
        b"GET /healthz HTTP/1.1\r\nHost: %s:9080\r\nConnection: close\r\n\r\n" % host.encode(),
    )
    assert found.startswith(b"HTTP/1.1 200 ")


def test_numbers_that_are_no_json_are_refused_and_never_sent(broker: Broker) -> None:
    with socket.create_connection(("127.0.0.1", broker.json_port), SECONDS_MAX) as line:
        reader = line.makefile("rb")
        for number in ("1e999", "NaN", "-Infinity"):
            body = b'{"command": "LIST_TOPICS", "id": %s}' % number.encode()
            line.sendall(len(body).to_bytes(4, "big") + body)
            answer = reader.read(int.from_bytes(reader.read(4), "big"))
            assert json.loads(answer, parse_constant=pytest.fail)["error"] == "MALFORMED"
    status, _ = ask(broker, "POST", "/api/v1/messages", {"topic": "numbers", "value": '{"a": 1e999}'})
    assert status == 200
    found = ask(broker, "GET", "/api/v1/topics/numbers/partitions/0/messages")[1]["messages"]
    assert found[0]["value"] == '{"a": 1e999}', "shown as the text that it is"
