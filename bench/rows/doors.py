"""Single messages over the text and the JSON protocol, pipelined. Durability `os`."""

from __future__ import annotations

import socket
import time

from bench.door_publishes import JSON, SECONDS_MAX, TEXT, VALUE, Door, publish
from bench.figures import Figure, at_least, figure
from bench.session import TOPIC, Session
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.apps.bench.harness.link import UnexpectedResponse

RATE_MIN = 15_000
IN_FLIGHT = 500
AT_ONCE = 100
DOORS = (TEXT, JSON)


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
    return publish(("127.0.0.1", server.ports[f"{door.name}_port"]), door, count, IN_FLIGHT, AT_ONCE)


def _check_end(server: BrokerProcess, expected: int) -> None:
    """Check the number of messages with the offset of the next one."""
    with socket.create_connection(("127.0.0.1", server.ports["text_port"]), SECONDS_MAX) as line:
        line.sendall(f"PUB {TOPIC} 0\r\n".encode())
        response = line.recv(100)
    if response != f"OK {expected}\r\n".encode():
        raise UnexpectedResponse(f"the next offset is {response!r}, {expected} messages were acknowledged")
