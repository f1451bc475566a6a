"""What the other doors add to an idle broker: at start, and after a client has connected to each of them.

Brokers with and without them are started alternately, and each pair gives one difference.
"""

from __future__ import annotations

import socket

from bench.figures import Figure, at_most, figure
from bench.session import Session
from penstock.apps.bench.harness.broker import FREE_PORTS, BrokerProcess
from penstock.apps.bench.harness.loader import RESPONSE_S_MAX

START_MS_MAX = 150
MEMORY_MB_MAX = 25
_OTHER_PORTS = tuple(name for name in FREE_PORTS if name != "port")
_ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def measure(session: Session) -> list[Figure]:
    starts: list[float] = []
    idle: list[float] = []
    used: list[float] = []
    alone: list[float] = []
    for _ in range(session.pick(7, 3)):
        session.step("starts with and without the other doors")
        without = _start(session, dict.fromkeys(_OTHER_PORTS, "off"))
        with_all = _start(session, {})
        starts.append(with_all[0] - without[0])
        idle.append(with_all[1] - without[1])
        used.append(with_all[2] - without[1])
        alone.append(without[1])
    reference = f"the Kafka door alone: {figure('alone', 'MB', alone, '').value:.0f} MB"
    return [
        figure("all doors open: time to ready", "ms", starts, "the Kafka door alone", at_most(START_MS_MAX)),
        figure("all doors open: memory at ready", "MB", idle, reference, at_most(MEMORY_MB_MAX)),
        figure("all doors in use: memory", "MB", used, reference, at_most(MEMORY_MB_MAX)),
    ]


def _start(session: Session, flags: dict[str, str]) -> tuple[float, float, float]:
    """ms to ready, MB at ready, MB after a client has connected to every door."""
    with session.stopped_broker(**flags) as server:
        ready_ms = server.start()
        idle_mb = server.process.resident_mb()
        _visit(server)
        return ready_ms, idle_mb, server.process.resident_mb()


def _visit(server: BrokerProcess) -> None:
    """Connect to every door. The HTTP response shows that the earlier connections were accepted."""
    host = server.address[0]
    lines = [
        socket.create_connection((host, port), RESPONSE_S_MAX)
        for name, port in server.ports.items()
        if name != "http_port"
    ]
    if "http_port" in server.ports:
        with socket.create_connection((host, server.ports["http_port"]), RESPONSE_S_MAX) as line:
            line.sendall(_ASK)
            while line.recv(4_096):
                pass
    for line in lines:
        line.close()
