"""Single messages over the text and the JSON protocol, pipelined. Durability `os`."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

from bench.figures import Figure, at_least, figure
from bench.session import TOPIC, Session
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.apps.bench.harness.link import UnexpectedResponse

RATE_MIN = 15_000
IN_FLIGHT = 500
AT_ONCE = 100
VALUE = "x" * 100
SECONDS_MAX = 60


class Door(NamedTuple):
    """How one message is sent over a protocol, and how successful responses are counted."""

    name: str
    request: bytes
    count_responses: Callable[[bytes], int]


def _json_frame() -> bytes:
    body = json.dumps({"command": "PRODUCE", "topic": TOPIC, "message": VALUE, "id": 1}).encode()
    return len(body).to_bytes(4, "big") + body


DOORS = (
    Door("text", f"PUB {TOPIC} {len(VALUE)}\r\n{VALUE}".encode(), lambda read: read.count(b"\n")),
    Door("json", _json_frame(), lambda read: read.count(b'{"ok":')),
)


def measure(session: Session) -> list[Figure]:
    """The last offset shows that every request succeeded."""
    count = session.pick(50_000, 10_000)
    figures = []
    for door in DOORS:
        rates: list[float] = []
        costs_us: list[float] = []
        with session.broker(durability="os") as server:
            acked = _publish(server, door, AT_ONCE)
            for _ in range(session.pick(5, 3)):
                session.step(f"publishes through the {door.name} door")
                with server.process.cpu_time() as spent:
                    start_s = time.perf_counter()
                    acked += _publish(server, door, count)
                    rates.append(count / (time.perf_counter() - start_s))
                costs_us.append(spent.cpu_s / count * 1e6)
            _check_end(server, acked)
        cost = figure("cost", "µs", costs_us, "").value
        reference = f"{IN_FLIGHT} in flight, {len(VALUE)} bytes; {cost:.0f} µs of broker CPU each"
        figures.append(
            figure(
                f"publishes, {door.name} door, one connection",
                "messages/s",
                rates,
                reference,
                at_least(RATE_MIN),
            )
        )
    return figures


def _publish(server: BrokerProcess, door: Door, count: int) -> int:
    """Send with at most IN_FLIGHT outstanding requests and wait for all responses; returns how many were sent."""
    with socket.create_connection(("127.0.0.1", server.ports[f"{door.name}_port"]), SECONDS_MAX) as line:
        burst = door.request * AT_ONCE
        sent = answered = 0
        left_over = b""
        while answered < count:
            while sent < count and sent - answered < IN_FLIGHT:
                line.sendall(burst)
                sent += AT_ONCE
            read = left_over + line.recv(1 << 18)
            if read == left_over:
                raise UnexpectedResponse(f"the {door.name} door closed after {answered} responses")
            answered += door.count_responses(read) - door.count_responses(left_over)
            left_over = read[-16:]
    return sent


def _check_end(server: BrokerProcess, expected: int) -> None:
    """Check the number of messages with the offset of the next one."""
    with socket.create_connection(("127.0.0.1", server.ports["text_port"]), SECONDS_MAX) as line:
        line.sendall(f"PUB {TOPIC} 0\r\n".encode())
        response = line.recv(100)
    if response != f"OK {expected}\r\n".encode():
        raise UnexpectedResponse(f"the next offset is {response!r}, {expected} messages were acknowledged")
