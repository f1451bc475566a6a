"""Batches of messages over HTTP on one connection, compared with the same records in Kafka batches."""

from __future__ import annotations

import json
import socket
import time
from io import BufferedReader

from bench.figures import Figure, at_least, figure
from bench.session import TOPIC, Session, check_end
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.link import UnexpectedResponse, gc_disabled
from penstock.apps.bench.harness.loader import RECEIVE_BYTES, RESPONSE_S_MAX, Loader

RATE_MIN = 20_000
BATCH = 100
IN_FLIGHT = 4
RECORD_BYTES = 1_000
_DONE = b'"failed":0'


def measure(session: Session) -> list[Figure]:
    request = _request()
    frame = produce_frame(TOPIC, make_batch(BATCH))
    count = session.pick(500, 150)
    rates: list[float] = []
    kafka: list[float] = []
    costs_us: list[float] = []
    with session.broker() as server, Loader(server.address) as loader:
        loader.create_topics([TOPIC])
        response_bytes = loader.produce(frame)
        acked = BATCH
        with socket.create_connection((server.address[0], server.ports["http_port"]), RESPONSE_S_MAX) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _pipeline_s(line, request, count // 10)
            acked += count // 10 * BATCH
            for _ in range(session.pick(5, 3)):
                session.step("batches over HTTP, and the same as Kafka batches")
                with server.process.cpu_time() as spent:
                    rates.append(count * BATCH / _pipeline_s(line, request, count))
                costs_us.append(spent.cpu_s / (count * BATCH) * 1e6)
                kafka.append(count * BATCH / loader.pipeline_s(frame, response_bytes, count, IN_FLIGHT))
                acked += 2 * count * BATCH
        check_end(loader, acked)
    reference = f"the same records in Kafka batches: {figure('kafka', '', kafka, '').value:,.0f}/s"
    return [
        figure(
            f"messages over HTTP, batches of {BATCH}, fsync",
            "messages/s",
            rates,
            reference,
            at_least(RATE_MIN),
        ),
        figure("broker CPU of one such message", "µs", costs_us, "20,000/s on one CPU allow 50 µs"),
    ]


def _request() -> bytes:
    """A batch of messages with a key and a JSON object of about a kilobyte each."""
    padding = "x" * (RECORD_BYTES - 60)
    messages = [
        {"key": f"user-{number}", "value": {"action": "login", "number": number, "text": padding}}
        for number in range(BATCH)
    ]
    body = json.dumps({"topic": TOPIC, "messages": messages}).encode()
    head = "POST /api/v1/messages/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _pipeline_s(line: socket.socket, request: bytes, count: int) -> float:
    """Seconds for `count` requests with IN_FLIGHT outstanding."""
    reader = line.makefile("rb", buffering=RECEIVE_BYTES)
    with gc_disabled():
        start_ns = time.perf_counter_ns()
        for _ in range(min(IN_FLIGHT, count)):
            line.sendall(request)
        for number in range(count):
            _check_response(reader.readline(), _body(reader))
            if number + IN_FLIGHT < count:
                line.sendall(request)
        return (time.perf_counter_ns() - start_ns) / 1e9


def _body(reader: BufferedReader) -> bytes:
    length = 0
    while (line := reader.readline()) not in (b"\r\n", b""):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return reader.read(length)


def _check_response(status: bytes, body: bytes) -> None:
    if b" 200 " not in status or _DONE not in body:
        raise UnexpectedResponse(f"{status!r} {body[:300]!r}")
