"""What the further doors add to an idle broker: at the start, and once a client has come to each of them.

Brokers with and without are started in turns, and each pair gives one difference.
"""

from __future__ import annotations

import socket

from bench.server import FREE_PORTS, Server
from bench.session import Session
from penstock.apps.measuring.figures import Figure, at_most, figure
from penstock.apps.measuring.loader import ANSWER_S_MAX

START_MS_MAX = 150
MEMORY_MB_MAX = 25
_FURTHER = tuple(name for name in FREE_PORTS if name != "port")
_ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def measure(session: Session) -> list[Figure]:
    starts: list[float] = []
    idle: list[float] = []
    used: list[float] = []
    alone: list[float] = []
    for _ in range(session.pick(7, 3)):
        session.step("starts with and without the further doors")
        without = _start(session, dict.fromkeys(_FURTHER, "off"))
        with_all = _start(session, {})
        starts.append(with_all[0] - without[0])
        idle.append(with_all[1] - without[1])
        used.append(with_all[2] - without[1])
        alone.append(without[1])
    beside = f"the Kafka door alone: {figure('alone', 'MB', alone, '').value:.0f} MB"
    return [
        figure("all doors open: time to ready", "ms", starts, "the Kafka door alone", at_most(START_MS_MAX)),
        figure("all doors open: memory at ready", "MB", idle, beside, at_most(MEMORY_MB_MAX)),
        figure("all doors in use: memory", "MB", used, beside, at_most(MEMORY_MB_MAX)),
    ]


def _start(session: Session, flags: dict[str, str]) -> tuple[float, float, float]:
    """(ms to ready, MB at ready, MB when a client was at every door)"""
    with session.home() as home:
        server = Server(home, session.cpus.server, **flags)
        try:
            ready_ms = server.start()
            idle_mb = server.resident_mb()
            _visit(server)
            return ready_ms, idle_mb, server.resident_mb()
        finally:
            server.close()


def _visit(server: Server) -> None:
    """Come to every door; the last one answers when the others have been let in."""
    host = server.address[0]
    lines = [
        socket.create_connection((host, port), ANSWER_S_MAX)
        for name, port in server.doors.items()
        if name != "http_port"
    ]
    if "http_port" in server.doors:
        with socket.create_connection((host, server.doors["http_port"]), ANSWER_S_MAX) as line:
            line.sendall(_ASK)
            while line.recv(4_096):
                pass
    for line in lines:
        line.close()
