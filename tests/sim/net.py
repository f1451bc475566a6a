"""TCP between simulated hosts: who reaches whom, cuts, resets, crashes. Never hands out bytes; pipes do."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from sim.hosts import Host
from sim.pipe import Pipe, Signal
from sim.server import SimServer
from sim.transport import SimTransport

if TYPE_CHECKING:
    from sim.loop import SimLoop

Factory = Callable[[], asyncio.BaseProtocol]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY_ADDRESS = (None, "", "0.0.0.0", "::")
PORT_FIRST = 40_000
"""Ports that are picked for callers count up from here, per host."""

SYN_RETRY_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""How long a connect that gets no answer waits before each next try; then it times out, as on Linux."""


class Farewell(Enum):
    """What the peers of a crashed host see."""

    RESET = "reset"
    """The process died with bytes unread: its system answers with resets."""
    EOF = "eof"
    """The process died tidily: its system sends what it had and ends the streams."""
    SILENCE = "silence"
    """The machine lost power: nothing, until it boots again."""


SIGNALS = {Farewell.RESET: Signal.RESET, Farewell.EOF: Signal.EOF, Farewell.SILENCE: None}


@dataclass(frozen=True, slots=True)
class NetKnobs:
    """How the network treats everybody."""

    latency_s_min: float = 0.000_05
    latency_s_max: float = 0.002
    window_bytes: int = 256 * 1024
    """Bytes under way and unread per direction; writes beyond it stay in the sender's buffer."""
    segment_bytes_max: int = 64 * 1024
    tiny_chance: float = 0.1
    """How often a segment is of 1 to 16 bytes only."""


class SimNet:
    """The one network of a SimLoop. Hosts are addressed by name."""

    def __init__(self, loop: SimLoop, knobs: NetKnobs) -> None:
        self.loop = loop
        self.knobs = knobs
        self.chance = loop.random_for("net")
        self.context = loop.root.context()
        self._servers: dict[tuple[str, int], SimServer] = {}
        self._ends: dict[SimTransport, None] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._stalled: list[Pipe[Any]] = []
        self._ports: dict[str, int] = {}

    # ---- faults

    def cut(self, some: str | Iterable[str], others: str | Iterable[str], *, one_way: bool = False) -> None:
        """Stop packets from `some` to `others`, and back unless one way. As in TCP, bytes wait."""
        for a in _names(some):
            for b in _names(others):
                self._cuts[a, b] = None
                if not one_way:
                    self._cuts[b, a] = None
        self.loop.note(f"cuts {list(self._cuts)}")

    def heal(
        self, some: str | Iterable[str] | None = None, others: str | Iterable[str] | None = None
    ) -> None:
        """Undo the cuts between two sides in both directions, or all of them."""
        if some is None or others is None:
            self._cuts.clear()
        else:
            for a in _names(some):
                for b in _names(others):
                    self._cuts.pop((a, b), None)
                    self._cuts.pop((b, a), None)
        self.loop.note(f"cuts {list(self._cuts)}")
        self.retry_stalled()

    def reset(self, a: str, b: str) -> int:
        """Break every connection between two hosts at both ends; says how many."""
        broken = [end for end in self._ends if {end.host.name, end.peer.host.name} == {a, b}]
        self.loop.note(f"reset {a} {b}")
        for end in broken:
            end.reset()
        return len(broken) // 2

    def crash(self, name: str, farewell: Farewell = Farewell.RESET) -> None:
        """Kill a host: its tasks stop where they stand, its ports close, its peers see the farewell."""
        host = self.loop.latest(name)
        assert host.alive, f"{name} is dead already"
        self.loop.note(f"crash {name} {farewell.value}")
        self.loop.freeze(host)
        host.silent = farewell is Farewell.SILENCE
        self._servers = {key: server for key, server in self._servers.items() if server.host is not host}
        for end in [end for end in self._ends if end.host is host]:
            self.forget(end)
            end.farewell(SIGNALS[farewell])

    # ---- asked by pipes and ends

    def latency_s(self) -> float:
        knobs = self.knobs
        return knobs.latency_s_min + (knobs.latency_s_max - knobs.latency_s_min) * self.chance.random()

    def segment_bytes(self) -> int:
        most, chance = self.knobs.segment_bytes_max, self.chance
        if chance.random() < self.knobs.tiny_chance:
            most = min(16, most)
        bits = most.bit_length()  # what `randint` does, without its three calls
        while (drawn := chance.getrandbits(bits)) >= most:
            pass
        return 1 + drawn

    def blocks(self, source: str, target: Host) -> bool:
        """Whether a packet from one host does not reach this life of another."""
        return (source, target.name) in self._cuts or target.silent

    def stall(self, pipe: Pipe[Any]) -> None:
        self._stalled.append(pipe)

    def retry_stalled(self) -> None:
        stalled, self._stalled = self._stalled, []
        for pipe in stalled:
            pipe.retry()

    def forget(self, end: SimTransport) -> None:
        self._ends.pop(end, None)

    def connections(self, name: str) -> int:
        """How many connections a host holds open."""
        return sum(end.host.name == name for end in self._ends)

    # ---- listening and connecting

    def listen(self, factory: Factory, address: str | None, port: int) -> SimServer:
        host = self.loop.here()
        if address not in (*ANY_ADDRESS, *LOOPBACK, host.name):
            raise OSError(errno.EADDRNOTAVAIL, f"{address} is no address of {host.name}")
        port = port or self._free_port(host.name)
        if (host.name, port) in self._servers:
            raise OSError(errno.EADDRINUSE, f"port {port} of {host.name} is in use")
        shown = host.name if address in ANY_ADDRESS else str(address)
        server = SimServer(self, host, copy_context(), factory, (shown, port), local_only=address in LOOPBACK)
        self._servers[host.name, port] = server
        return server

    def unlisten(self, server: SimServer) -> None:
        if self._servers.get((server.host.name, server.port)) is server:
            del self._servers[server.host.name, server.port]

    async def connect(
        self, factory: Factory, address: str, port: int
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        source = self.loop.here()
        name = source.name if address in LOOPBACK else address
        if not self.loop.knows(name):
            raise OSError(errno.EHOSTUNREACH, f"no host is called {name}")
        await self._shake_hands(source, name)
        server = self._servers.get((name, port))
        if server is None or not server.is_serving() or (server.local_only and name != source.name):
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{name}:{port} refused the connection")
        local, remote = (source.name, self._free_port(source.name)), (name, port)
        client = SimTransport(self, source, copy_context(), local, remote)
        accepted = SimTransport(self, server.host, server.context.copy(), remote, local)
        client.link(accepted)
        accepted.link(client)
        self._ends[client] = self._ends[accepted] = None
        self.loop.note(f"connect {local} {remote}")
        accepted.accept(server.factory)
        protocol = factory()
        client.start(protocol)
        return client, protocol

    async def _shake_hands(self, source: Host, name: str) -> None:
        await asyncio.sleep(self.latency_s() + self.latency_s())
        for wait_s in SYN_RETRY_S:
            if not self.blocks(source.name, self.loop.latest(name)) and not self.blocks(name, source):
                return
            await asyncio.sleep(wait_s)
        raise TimeoutError(errno.ETIMEDOUT, f"{name} does not answer {source.name}")

    def _free_port(self, name: str) -> int:
        port = self._ports.get(name, PORT_FIRST)
        while (name, port) in self._servers:
            port += 1
        self._ports[name] = port + 1
        return port


def _names(hosts: str | Iterable[str]) -> list[str]:
    return [hosts] if isinstance(hosts, str) else list(hosts)
